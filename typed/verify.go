package typed

import (
	"bytes"
	"cmp"
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

// Verify reads all records and all entries of indexes, and yields what does not fit. With repair it
// also writes the entries that are missing and deletes those that are surplus; a Finding is yielded
// once that is committed. It may run beside writers: each record is compared with its entries as of
// one version, and no version is kept for longer than a batch takes. It ends with an error: a
// *DeclarationError, that of ctx, brock.ErrConflict if a repair has met writers too often, or
// another one of the store.
func (t *Table[K, R]) Verify(ctx context.Context, db *brock.DB, repair bool) iter.Seq2[Finding[K], error] {
	return yieldAll(func(yield func(Finding[K]) bool) error {
		if db == nil {
			return misuse("nil store")
		}
		v := verification[K, R]{table: t, repair: repair}
		run := db.ViewContext
		if repair {
			run = db.UpdateContext // without a finding it writes nothing, and so conflicts with nobody
		}
		for _, ix := range append([]*index[R]{nil}, t.indexes...) { // nil: the records
			for v.next = []byte{}; v.next != nil; {
				from := v.next
				err := run(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return v.readBatch(txn, ix, from) })
				if err != nil {
					return err
				}
				for _, f := range v.found {
					if !yield(f) {
						return nil
					}
				}
			}
		}
		return nil
	})
}

// verification is a Verify under way.
type verification[K, R any] struct {
	table  *Table[K, R]
	repair bool
	found  []Finding[K]
	next   []byte // where the next batch begins, in keys without their base; nil: nowhere
}

// readBatch verifies records, or entries of an index. Their base may be another one in the next
// batch: that of an index that a Rebuild has built.
func (v *verification[K, R]) readBatch(txn *brock.Txn, ix *index[R], from []byte) error {
	v.found, v.next = nil, nil
	txn, d, err := v.table.enter(txn)
	if d == nil || err != nil {
		return err
	}
	v.next, err = walkBatch(txn, v.table.base(ix, d), from, func(item *brock.Item, rest []byte) (err error) {
		c := &call[R]{txn: txn, stored: d, key: rest}
		if ix == nil {
			err = v.checkRecord(c, item)
		} else {
			err = v.checkEntry(c, ix, item, rest)
		}
		if err == nil && v.repair {
			err = v.table.carryOut(c)
		}
		return err
	})
	return err
}

// checkRecord looks for the entries that a record should have.
func (v *verification[K, R]) checkRecord(c *call[R], item *brock.Item) error {
	raw, err := item.Value()
	if err != nil {
		return err
	}
	row, err := v.table.decodeRow(c.key, raw)
	if err != nil {
		v.found = append(v.found, Finding[K]{Kind: Unreadable, Key: row.Key, Stored: item.KeyCopy(nil)})
		return nil
	}
	for _, ix := range v.table.indexes {
		values, err := ix.values(row.Record)
		for _, value := range values {
			err = cmp.Or(err, v.checkValue(c, ix, value, row.Key))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkValue looks for the entry that a value of a record should have.
func (v *verification[K, R]) checkValue(c *call[R], ix *index[R], value []byte, id K) error {
	w := v.table.makeEntry(c, ix, value)
	entry, err := lookUp(c.txn, w.key)
	if err != nil || entry != nil && bytes.Equal(entry, w.value) {
		return err
	}
	f := Finding[K]{Missing, ix.name, id, w.key}
	err = v.table.planEntry(c, ix, value, false)
	if errors.Is(err, ErrDuplicate) || errors.Is(err, ErrDecode) {
		f.Kind, err = Double, nil
	}
	v.found = append(v.found, f)
	return err
}

// checkEntry looks for the record that an entry should have.
func (v *verification[K, R]) checkEntry(c *call[R], ix *index[R], item *brock.Item, rest []byte) error {
	t, f := v.table, Finding[K]{Kind: Surplus, Index: ix.name, Stored: item.KeyCopy(nil)}
	value, k, err := ix.splitEntry(item, rest)
	if err == nil {
		f.Key, err = t.decodeKey(k)
	}
	if err == nil {
		_, r, err2 := t.readRecord(c.txn, k)
		if errors.Is(err2, ErrDecode) { // nobody knows its values
			return nil
		}
		values, err := ix.values(r)
		if err = cmp.Or(err2, err); err != nil || contains(values, value) {
			return err
		}
	} else if !errors.Is(err, ErrDecode) {
		return err
	}
	v.found, c.writes = append(v.found, f), append(c.writes, write{key: f.Stored, deletes: true})
	return nil
}
