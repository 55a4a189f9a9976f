package typed

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/brockdb/brock"
)

// index is an Index without the type of its values.
type index[R any] struct {
	name, codec string
	unique      bool
	version     int
	values      func(r *R) ([][]byte, error)                // encoded, in order, each once; none of a nil record
	skip        func(entry []byte) (rest []byte, err error) // past a value
}

// part is the index in a declaration.
func (ix *index[R]) part() string { return fmt.Sprintf("index %q", ix.name) }

// Index finds records by values that a function computes, any number of them for each record. It
// walks the records in the order of values, those of one value in the order of keys: a record comes
// once for each of its values.
type Index[V, K, R any] struct{ Order[V, K, R] }

// NewIndex declares an index of a table. fn returns the values of a record: always the same ones for
// the same record, as they are computed again to remove them. A panic of it goes on to the caller. If
// the index can't be, as for a second one of a name or one for a table that is in use, calls return
// brock.ErrInvalid.
func NewIndex[V, K, R any](t *Table[K, R], name string, codec Codec[V], fn func(r *R) []V) *Index[V, K, R] {
	return addIndex(t, name, codec, false, fn)
}

// NewUnique declares an index of which each value belongs to one record. A record may have no value.
func NewUnique[V, K, R any](t *Table[K, R], name string, codec Codec[V], fn func(r *R) []V) *Index[V, K, R] {
	return addIndex(t, name, codec, true, fn)
}

func addIndex[V, K, R any](t *Table[K, R], name string, codec Codec[V], unique bool, fn func(r *R) []V) *Index[V, K, R] {
	ix := &index[R]{name: name, unique: unique}
	o := &Index[V, K, R]{Order[V, K, R]{table: t, codec: codec, index: ix}}
	same := func(other *index[R]) bool { return other.name == name }
	switch {
	case t.sealed.Load(): // the table goes on without it
		o.refused = misuse("table %q is in use: index %q comes too late", t.name, name)
		return o
	case codec == nil || fn == nil || name == "" || slices.ContainsFunc(t.indexes, same):
		t.refused = misuse("table %q: index %q lacks name, codec or function, or comes twice", t.name, name)
		return o
	}
	ix.codec, t.indexes = codec.Name(), append(t.indexes, ix)
	ix.values = func(r *R) (all [][]byte, err error) {
		if r == nil {
			return nil, nil
		}
		for _, v := range fn(r) {
			p, err := codec.Append(nil, v)
			if err != nil {
				return nil, fmt.Errorf("typed: table %q, index %q: %w", t.name, name, err)
			}
			all = append(all, p)
		}
		slices.SortFunc(all, bytes.Compare)
		return slices.CompactFunc(all, bytes.Equal), nil
	}
	ix.skip = func(entry []byte) ([]byte, error) {
		_, rest, err := codec.Cut(entry)
		return rest, err
	}
	return o
}

// WithVersion sets the version of the index's function and returns the index. It is 0 at first. A
// program that changes what the function computes raises it, and calls Rebuild.
func (ix *Index[V, K, R]) WithVersion(version int) *Index[V, K, R] {
	switch {
	case ix.table == nil: // nothing has declared it
	case ix.table.sealed.Load():
		ix.refused = misuse("table %q is in use: a version comes too late", ix.table.name)
	default:
		ix.index.version = version
	}
	return ix
}

// Of yields the records that have the value.
func (ix *Index[V, K, R]) Of(txn *brock.Txn, v V) Rows[K, R] {
	p, err := ix.encode(v)
	return ix.walk(txn, p, pastValue(p), err)
}

// Get returns the record that has the value, and its key, or brock.ErrKeyNotFound. If there are
// several, as an index that is not unique can have, it is the first one in the order.
func (ix *Index[V, K, R]) Get(txn *brock.Txn, v V) (key K, r *R, err error) {
	for row, err := range ix.Of(txn, v) {
		return row.Key, row.Record, err
	}
	return key, nil, brock.ErrKeyNotFound
}

// base is what the keys of an order begin with: of entries, or of records if ix is nil.
func (t *Table[K, R]) base(ix *index[R], d *declaration) []byte {
	if ix == nil {
		return t.records
	}
	return appendInteger(bytes.Clone(t.entries), d.Numbers[ix.name], false)
}

// makeEntry returns the write of an entry. The key of a unique one has no record's key: that is its
// value. So two writes of one value conflict.
func (t *Table[K, R]) makeEntry(c *call[R], ix *index[R], v []byte) write {
	key := append(t.base(ix, c.stored), v...)
	if ix.unique {
		return write{key: key, value: c.key}
	}
	return write{key: append(key, c.key...)}
}

// splitEntry is the reverse of makeEntry: rest is the key of an entry without its base.
func (ix *index[R]) splitEntry(item *brock.Item, rest []byte) (v, k []byte, err error) {
	k, err = ix.skip(rest)
	if err != nil || !ix.unique {
		return bytes.TrimSuffix(rest, k), k, err
	}
	if len(k) > 0 {
		return nil, nil, fmt.Errorf("typed: %s: %w: bytes behind a value", ix.part(), ErrDecode)
	}
	k, err = item.Value()
	return rest, k, err
}

// planEntries plans what an index needs when the record of a call was old and is now r; nil is none.
func (t *Table[K, R]) planEntries(c *call[R], ix *index[R], old, r *R) error {
	before, err := ix.values(old)
	after, err2 := ix.values(r)
	if err = cmp.Or(err, err2); err != nil {
		return err
	}
	for i, v := range slices.Concat(before, after) {
		if !contains(before, v) || !contains(after, v) {
			err = cmp.Or(err, t.planEntry(c, ix, v, i < len(before)))
		}
	}
	return err
}

// contains reports whether v is one of the values of a record.
func contains(values [][]byte, v []byte) bool {
	_, found := slices.BinarySearchFunc(values, v, bytes.Compare)
	return found
}

// planEntry plans to write the entry of a value, or to delete it. It returns a *DuplicateError if the
// value is another record's.
func (t *Table[K, R]) planEntry(c *call[R], ix *index[R], v []byte, deletes bool) error {
	w := t.makeEntry(c, ix, v)
	w.deletes = deletes
	if ix.unique {
		owner, err := lookUp(c.txn, w.key)
		if owner != nil && !bytes.Equal(owner, c.key) {
			if deletes { // beside a Rebuild the value may be another record's by now
				return nil
			}
			err = t.checkDuplicate(c, ix, v, owner)
		}
		if err != nil {
			return err
		}
	}
	c.writes = append(c.writes, w)
	return nil
}

// checkDuplicate returns a *DuplicateError if the record of owner has the value v. Its entry alone
// does not count: beside a Rebuild the record may have changed since.
func (t *Table[K, R]) checkDuplicate(c *call[R], ix *index[R], v, owner []byte) error {
	_, other, err := t.readRecord(c.txn, owner)
	values, err2 := ix.values(other)
	if err = cmp.Or(err, err2); err != nil || !contains(values, v) {
		return err
	}
	e := &DuplicateError[K]{Table: t.name, Index: ix.name}
	e.Key, err = t.decodeKey(c.key)
	e.Other, err2 = t.decodeKey(owner)
	return cmp.Or[error](err, err2, e)
}
