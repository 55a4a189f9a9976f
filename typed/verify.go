package typed

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/brockdb/brock"
)

// FindingKind says what is wrong with an index.
type FindingKind string

// The kinds of a Finding.
const (
	Missing    FindingKind = "missing"    // a value of the record has no entry, or another record has it wrongly
	Surplus    FindingKind = "surplus"    // an entry that no record has, or what is none
	Double     FindingKind = "double"     // a value of the record belongs to another record, too, in a unique index; not repaired: change one of them
	Unreadable FindingKind = "unreadable" // a record or its key that can't be decoded; not repaired: bring its codec back, or delete it in the keyspace
)

// Finding is something that Verify has found.
type Finding[K any] struct {
	Kind   FindingKind
	Index  string // its name; "" for what is Unreadable
	Key    K      // of the record; zero if it can't be decoded
	Stored []byte // key of the entry in the keyspace, or of the record that is Unreadable
}

// batch is how many records or entries one transaction of Verify or Rebuild looks at.
const batch = 256

// Verify reads all records and all entries of indexes, and yields what does not fit. With repair it
// also writes the entries that are missing and deletes those that are surplus; a Finding is yielded
// once that is committed. It may run beside writers: each record is compared with its entries as of
// one version, and no version is kept for longer than a batch takes. It ends with an error: a
// *DeclarationError, that of ctx, brock.ErrConflict if a repair has met writers too often, or
// another one of the store.
func (t *Table[K, R]) Verify(ctx context.Context, db *brock.DB, repair bool) iter.Seq2[Finding[K], error] {
	return func(yield func(Finding[K], error) bool) {
		v := verification[K, R]{table: t, repair: repair}
		if db == nil {
			yield(Finding[K]{}, misuse("nil store"))
			return
		}
		run := db.ViewContext
		if repair {
			run = db.UpdateContext // without a finding it writes nothing, and so conflicts with nobody
		}
		for i := -1; i < len(t.indexes); i++ {
			for v.next = []byte{}; v.next != nil; {
				from := v.next
				if err := run(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return v.readBatch(txn, i, from) }); err != nil {
					yield(Finding[K]{}, err)
					return
				}
				for _, f := range v.found {
					if !yield(f, nil) {
						return
					}
				}
			}
		}
	}
}

// verification is a Verify under way.
type verification[K, R any] struct {
	table  *Table[K, R]
	repair bool
	found  []Finding[K]
	next   []byte // where the next batch begins, in keys without their beginning; nil: nowhere
}

// readBatch verifies records, for index -1, or entries of an index. What their keys begin with may
// be another number in the next batch: that of an index that a Rebuild has built.
func (v *verification[K, R]) readBatch(txn *brock.Txn, index int, from []byte) error {
	t := v.table
	v.found, v.next = nil, nil
	txn, d, err := t.enter(txn)
	if d == nil || err != nil {
		return err
	}
	var at []place[R]
	for _, ix := range t.indexes {
		at = append(at, place[R]{txn, txn, ix, t.entryBase(ix, d)})
	}
	base := t.records
	if index >= 0 {
		base = at[index].base
	}
	n := 0
	for item, err := range txn.Items(brock.IteratorOptions{Lower: join(base, from), Upper: pastValue(base), Limit: batch}) {
		if err != nil {
			return err
		}
		key := item.KeyCopy(nil)
		if n++; n == batch {
			v.next = join(key[len(base):], []byte{0})
		}
		if index < 0 {
			err = v.checkRecord(at, item, key)
		} else {
			err = v.checkEntry(at[index], item, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkRecord looks for the entries that a record should have.
func (v *verification[K, R]) checkRecord(at []place[R], item *brock.Item, key []byte) error {
	t, k := v.table, key[len(v.table.records):]
	raw, err := item.Value()
	if err != nil {
		return err
	}
	id, err := t.decodeKey(k)
	r, err2 := t.decodeRecord(raw)
	if err != nil || err2 != nil {
		v.found = append(v.found, Finding[K]{Kind: Unreadable, Key: id, Stored: key})
		return nil
	}
	for _, at := range at {
		values, err := at.values(r)
		if err != nil {
			return err
		}
		for _, value := range values {
			if err := v.checkValue(at, Finding[K]{Missing, at.name, id, nil}, value, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkValue looks for the entry that a value of the record under k should have. f is what to find
// if it has none.
func (v *verification[K, R]) checkValue(at place[R], f Finding[K], value, k []byte) error {
	w := at.makeEntry(value, k)
	entry, err := lookUp(at.entries, w.key)
	if err != nil || entry != nil && bytes.Equal(entry, w.value) {
		return err
	}
	if f.Stored = w.key; entry != nil && at.unique {
		err = v.table.checkDuplicate(at, value, k, entry)
	}
	if errors.Is(err, ErrDuplicate) || errors.Is(err, ErrDecode) {
		f.Kind, err = Double, nil
	} else if err == nil && v.repair {
		err = v.table.carryOut(at.entries, plan{w})
	}
	v.found = append(v.found, f)
	return err
}

// checkEntry looks for the record that an entry should have.
func (v *verification[K, R]) checkEntry(at place[R], item *brock.Item, key []byte) error {
	t, f := v.table, Finding[K]{Kind: Surplus, Index: at.name, Stored: key}
	k, err := at.readKey(item, key[len(at.base):])
	if err == nil {
		f.Key, err = t.decodeKey(k)
	}
	if err == nil {
		_, r, err2 := t.readRecord(at.records, k)
		if errors.Is(err2, ErrDecode) { // nobody knows its values
			return nil
		}
		values, err3 := at.values(r)
		if err := errors.Join(err2, err3); err != nil {
			return err
		}
		for _, value := range values {
			if bytes.Equal(at.makeEntry(value, k).key, key) {
				return nil
			}
		}
	} else if !errors.Is(err, ErrDecode) {
		return err
	}
	v.found = append(v.found, f)
	if v.repair {
		return at.entries.Delete(key)
	}
	return nil
}
