package typed

import (
	"bytes"
	"cmp"
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
	t.Order = Order[K, K, R]{table: t, codec: key}
	if ks == nil || name == "" || key == nil || record == nil {
		t.refused = misuse("table %q lacks its keyspace, name or codec", name)
	}
	part := func(n uint64) []byte { return appendInteger(appendText(nil, codeString, name), n, false) }
	t.at, t.records, t.entries, t.marks = part(0), part(1), part(2), part(3)
	return t
}

// enter begins each call: it returns the transaction in the table's keyspace, and the declaration
// that is stored; nil if none is. It reads that each time, which makes the switch of a Rebuild a
// conflict with writes of the old one. With a *DeclarationError it returns both, too.
func (t *Table[K, R]) enter(txn *brock.Txn) (*brock.Txn, *declaration, error) {
	switch {
	case t == nil || txn == nil || t.ks == nil && t.refused == nil:
		return nil, nil, misuse("a table or index that was not declared, or no transaction")
	case t.refused != nil:
		return nil, nil, t.refused
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
	c, err := t.find(txn, key)
	if err == nil && c.record == nil {
		err = brock.ErrKeyNotFound
	}
	return c.record, err
}

// Put writes the record of a key, and replaces the one that is there. Entries of indexes follow, in
// the same transaction. For a value of a unique index that another record has it returns a
// *DuplicateError. After this and any other error that is not of the store's writes, such as
// brock.ErrNoSpace, the transaction is as before the call and can be used. r may be used again.
func (t *Table[K, R]) Put(txn *brock.Txn, key K, r *R) error { return t.putRecord(txn, key, r, false) }

// Insert is Put that returns ErrExist if there is a record of the key.
func (t *Table[K, R]) Insert(txn *brock.Txn, key K, r *R) error {
	return t.putRecord(txn, key, r, true)
}

func (t *Table[K, R]) putRecord(txn *brock.Txn, key K, r *R, insert bool) error {
	c, err := t.find(txn, key)
	switch {
	case err != nil:
		return err
	case insert && c.record != nil:
		return ErrExist
	case r == nil:
		return misuse("table %q: nil record", t.name)
	}
	value, err := t.record.Marshal(r)
	if err != nil {
		return fmt.Errorf("typed: table %q: %w", t.name, err)
	}
	return t.writeRecord(c, write{value: value}, r)
}

// Delete removes the record of a key, if there is one, and its entries in indexes. Its errors are
// those of Put.
func (t *Table[K, R]) Delete(txn *brock.Txn, key K) error {
	c, err := t.find(txn, key)
	if err != nil || c.record == nil {
		return err
	}
	return t.writeRecord(c, write{deletes: true}, nil)
}

// call is work on one record: what was found, and the writes to come.
type call[R any] struct {
	txn    *brock.Txn
	stored *declaration // nil: the table is new
	key    []byte       // encoded
	raw    []byte       // the bytes of record
	record *R           // nil: there is none
	writes []write
}

// write is a set or delete to come.
type write struct {
	key, value []byte
	deletes    bool
}

// find begins a call by looking for the record.
func (t *Table[K, R]) find(txn *brock.Txn, key K) (c call[R], err error) {
	if c.txn, c.stored, err = t.enter(txn); err != nil {
		return c, err
	}
	if c.key, err = t.key.Append(nil, key); err != nil {
		return c, fmt.Errorf("typed: table %q: %w", t.name, err)
	}
	c.raw, c.record, err = t.readRecord(c.txn, c.key)
	return c, err
}

// writeRecord writes the record of a call, or deletes it if r is nil. All that can be refused is found
// out before the first write: a caller who goes on after an error must not commit one half of a
// change. A Savepoint would not do: what has gone to files can't be rolled back.
func (t *Table[K, R]) writeRecord(c call[R], w write, r *R) (err error) {
	fresh := c.stored == nil
	if fresh {
		c.stored = t.declared()
	}
	if c.stored.Closed {
		return &DeclarationError{Table: t.name, Changes: []string{"a Rebuild is about to end, or has died at its end"}}
	}
	w.key = join(t.records, c.key)
	c.writes = append(c.writes, w)
	for _, ix := range t.indexes {
		err = cmp.Or(err, t.planEntries(&c, ix, c.record, r))
	}
	if c.stored.Building != 0 {
		err = cmp.Or(err, t.planMark(&c))
	}
	if err == nil {
		err = t.carryOut(&c)
	}
	if err == nil && fresh {
		err = t.storeDeclaration(c.txn, c.stored)
	}
	return err
}

// planMark plans the mark that a writer leaves for the Rebuild under way: under the record's key the
// bytes that the record had before its first change since the Rebuild has looked, behind a 1, or a
// 0 if there was none. It is written again by each change: so two changes conflict over it, and a
// change with the end of the Rebuild, also at SnapshotIsolation.
func (t *Table[K, R]) planMark(c *call[R]) error {
	key := join(t.marks, c.key)
	mark, err := lookUp(c.txn, key)
	if mark == nil && c.record != nil {
		mark = join([]byte{1}, c.raw)
	} else if mark == nil {
		mark = []byte{0}
	}
	c.writes = append(c.writes, write{key: key, value: mark})
	return err
}

// carryOut does the writes of a call, after a look at whether the store can take each of them.
func (t *Table[K, R]) carryOut(c *call[R]) (err error) {
	for _, w := range c.writes {
		if len(w.key) > brock.MaxKeySize {
			return fmt.Errorf("typed: table %q: %w", t.name, brock.ErrKeyTooLarge)
		}
		if len(w.value) > brock.MaxValueSize {
			return fmt.Errorf("typed: table %q: %w", t.name, brock.ErrValueTooLarge)
		}
	}
	for _, w := range c.writes {
		if w.deletes {
			err = c.txn.Delete(w.key)
		} else {
			err = c.txn.Set(w.key, w.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
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

// decodeRow returns key and record of these bytes.
func (t *Table[K, R]) decodeRow(k, raw []byte) (row Row[K, R], err error) {
	if row.Key, err = t.decodeKey(k); err == nil {
		row.Record, err = t.decodeRecord(raw)
	}
	return row, err
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
