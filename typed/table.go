package typed

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/brockdb/brock"
)

// Table is records of type R by keys of type K. Declare its indexes before it is used first; after
// that any number of goroutines may use it, each with its own transaction. It also walks its records
// in the order of their keys: see Order.
type Table[K, R any] struct {
	Order[K, K, R]

	ks      *brock.Keyspace
	name    string
	key     Codec[K]
	record  RecordCodec[R]
	indexes []*index[R]
	refused error // why it can't be used

	at, records, entries, marks []byte // key of the declaration, and beginnings of other keys

	sealed atomic.Bool                 // it is in use: no index can be added
	known  atomic.Pointer[declaration] // what is stored that was read last, and agrees
}

// NewTable declares a table in a named keyspace. It reads and writes nothing. Calls of a Table that
// can't be, such as one without a name, return brock.ErrInvalid.
func NewTable[K, R any](ks *brock.Keyspace, name string, key Codec[K], record RecordCodec[R]) *Table[K, R] {
	t := &Table[K, R]{ks: ks, name: name, key: key, record: record}
	t.Order = Order[K, K, R]{table: t, codec: key, index: -1}
	if ks == nil || name == "" || key == nil || record == nil {
		t.refused = misuse("table %q lacks its keyspace, name or codec", name)
	}
	base := appendText(nil, codeString, name)
	t.at = appendInteger(base, 0, false)
	t.records, t.entries, t.marks = appendInteger(bytes.Clone(base), 1, false), appendInteger(bytes.Clone(base), 2, false), appendInteger(bytes.Clone(base), 3, false)
	return t
}

// enter begins each call: it returns the transaction in the table's keyspace, and the declaration
// that is stored; nil if none is. It reads that each time, which makes the switch of a Rebuild a
// conflict with writes of the old one. With a *DeclarationError it returns both, too.
func (t *Table[K, R]) enter(txn *brock.Txn) (*brock.Txn, *declaration, error) {
	switch {
	case t.refused != nil:
		return nil, nil, t.refused
	case t.ks == nil || txn == nil:
		return nil, nil, misuse("a table that NewTable has not made, or no transaction")
	case t.ks.Options().TTL > 0:
		// An entry would expire apart from its record.
		return nil, nil, misuse("the keyspace of table %q has a time to live", t.name)
	case !t.sealed.Load(): // most calls only read it: all goroutines share it
		t.sealed.Store(true)
	}
	txn = txn.In(t.ks)
	raw, err := lookUp(txn, t.at)
	if raw == nil || err != nil {
		return txn, nil, err
	}
	d, err := t.parseDeclaration(raw)
	return txn, d, err
}

// Check returns nil if the table is declared as the store knows it, or is new, else a
// *DeclarationError. A program calls it when it starts, to find out whether to call Rebuild.
func (t *Table[K, R]) Check(txn *brock.Txn) error {
	_, _, err := t.enter(txn)
	return err
}

// Get returns the record of a key, or brock.ErrKeyNotFound.
func (t *Table[K, R]) Get(txn *brock.Txn, key K) (*R, error) {
	f, err := t.find(txn, key)
	if err == nil && f.record == nil {
		err = brock.ErrKeyNotFound
	}
	return f.record, err
}

// Put writes the record of a key, and replaces the one that is there. Entries of indexes follow, in
// the same transaction. For a value of a unique index that another record has it returns a
// *DuplicateError. After this and any other error that is not of the store's writes, such as
// brock.ErrNoSpace, the transaction is as before the call and can be used. r may be used again.
func (t *Table[K, R]) Put(txn *brock.Txn, key K, r *R) error {
	f, err := t.find(txn, key)
	if err != nil {
		return err
	}
	return t.change(&f, r)
}

// Insert is Put that returns ErrExist if there is a record of the key.
func (t *Table[K, R]) Insert(txn *brock.Txn, key K, r *R) error {
	f, err := t.find(txn, key)
	if err == nil && f.record != nil {
		err = ErrExist
	}
	if err != nil {
		return err
	}
	return t.change(&f, r)
}

// Delete removes the record of a key, if there is one, and its entries in indexes. Its errors are
// those of Put.
func (t *Table[K, R]) Delete(txn *brock.Txn, key K) error {
	f, err := t.find(txn, key)
	if err != nil || f.record == nil {
		return err
	}
	return t.writeRecord(&f, write{deletes: true}, nil)
}

// found is what a call has found.
type found[R any] struct {
	txn    *brock.Txn
	stored *declaration // nil: the table is new
	key    []byte       // encoded
	raw    []byte       // the bytes of record
	record *R           // nil: there is none
}

// find looks for a record.
func (t *Table[K, R]) find(txn *brock.Txn, key K) (f found[R], err error) {
	if f.txn, f.stored, err = t.enter(txn); err != nil {
		return f, err
	}
	if f.key, err = t.key.Append(nil, key); err != nil {
		return f, fmt.Errorf("typed: table %q: %w", t.name, err)
	}
	f.raw, f.record, err = t.readRecord(f.txn, f.key)
	return f, err
}

func (t *Table[K, R]) change(f *found[R], r *R) error {
	if r == nil {
		return misuse("table %q: nil record", t.name)
	}
	value, err := t.record.Marshal(r)
	if err != nil {
		return fmt.Errorf("typed: table %q: %w", t.name, err)
	}
	return t.writeRecord(f, write{value: value}, r)
}

// writeRecord writes a record, or deletes it if r is nil. All that can be refused is found out before the
// first write: a caller who goes on after an error must not commit one half of a change.
func (t *Table[K, R]) writeRecord(f *found[R], w write, r *R) error {
	w.key = join(t.records, f.key)
	p, d := plan{w}, f.stored
	if d == nil {
		d = t.declared()
	}
	if d.Closed {
		return &DeclarationError{Table: t.name, Changes: []string{"a Rebuild is about to end, or has died at its end"}}
	}
	for _, ix := range t.indexes {
		if err := t.planIndex(&p, place[R]{f.txn, f.txn, ix, t.entryBase(ix, d)}, f.key, f.record, r); err != nil {
			return err
		}
	}
	if d.Building != 0 {
		if err := t.planMark(&p, f); err != nil {
			return err
		}
	}
	if err := t.carryOut(f.txn, p); err != nil || f.stored != nil {
		return err
	}
	return t.storeDeclaration(f.txn, d)
}

// planMark plans the mark that a writer leaves for the Rebuild under way: under the record's key the
// bytes that the record had before its first change since the Rebuild has looked, behind a 1, or a
// 0 if there was none. It is written again by each change: so two changes conflict over it, and a
// change with the end of the Rebuild, also at SnapshotIsolation.
func (t *Table[K, R]) planMark(p *plan, f *found[R]) error {
	w := write{key: join(t.marks, f.key)}
	mark, err := lookUp(f.txn, w.key)
	switch {
	case mark != nil:
		w.value = bytes.Clone(mark)
	case f.record != nil:
		w.value = join([]byte{1}, f.raw)
	default:
		w.value = []byte{0}
	}
	*p = append(*p, w)
	return err
}

// readRecord returns the record under an encoded key, and its bytes; nil if there is none.
func (t *Table[K, R]) readRecord(txn *brock.Txn, k []byte) (raw []byte, r *R, err error) {
	if raw, err = lookUp(txn, join(t.records, k)); raw != nil {
		r, err = t.decodeRecord(raw)
	}
	return raw, r, err
}

func (t *Table[K, R]) decodeRecord(raw []byte) (*R, error) {
	r := new(R)
	if err := t.record.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("typed: table %q: %w: a record: %w", t.name, ErrDecode, err)
	}
	return r, nil
}

// decodeKey returns the key that is all of p.
func (t *Table[K, R]) decodeKey(p []byte) (K, error) {
	key, rest, err := t.key.Cut(p)
	if err != nil || len(rest) > 0 {
		err = fmt.Errorf("typed: table %q: %w: a key", t.name, ErrDecode)
	}
	return key, err
}

// write is a set or delete to come.
type write struct {
	key, value []byte
	deletes    bool
}

// plan is the writes of a call.
type plan []write

// carryOut does the writes, after a look at whether the store can take each of them.
func (t *Table[K, R]) carryOut(txn *brock.Txn, p plan) error {
	for _, w := range p {
		switch {
		case len(w.key) > brock.MaxKeySize:
			return fmt.Errorf("typed: table %q: %w", t.name, brock.ErrKeyTooLarge)
		case len(w.value) > brock.MaxValueSize:
			return fmt.Errorf("typed: table %q: %w", t.name, brock.ErrValueTooLarge)
		}
	}
	for _, w := range p {
		err := error(nil)
		if w.deletes {
			err = txn.Delete(w.key)
		} else {
			err = txn.Set(w.key, w.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookUp returns a value, valid until the transaction ends; nil if the key has none.
func lookUp(txn *brock.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, brock.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value, err := item.Value()
	if value == nil && err == nil {
		value = []byte{}
	}
	return value, err
}

// join returns a and b as one new slice.
func join(a, b []byte) []byte { return append(bytes.Clone(a), b...) }
