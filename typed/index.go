package typed

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/brockdb/brock"
)

// index is an Index or Unique without the type of its values.
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

// Unique is an Index of which each value belongs to one record.
type Unique[V, K, R any] struct{ Order[V, K, R] }

// NewIndex declares an index of a table. fn returns the values of a record: always the same ones for
// the same record, as they are computed again to remove them. A panic of it goes on to the caller. If
// the index can't be, as for a second one of a name or one for a table that is in use, calls return
// brock.ErrInvalid.
func NewIndex[V, K, R any](t *Table[K, R], name string, codec Codec[V], fn func(r *R) []V) *Index[V, K, R] {
	return &Index[V, K, R]{addIndex(t, name, codec, false, fn)}
}

// NewUnique declares an index with one value for each record.
func NewUnique[V, K, R any](t *Table[K, R], name string, codec Codec[V], fn func(r *R) V) *Unique[V, K, R] {
	if fn == nil {
		return NewUniqueMany(t, name, codec, nil)
	}
	return NewUniqueMany(t, name, codec, func(r *R) []V { return []V{fn(r)} })
}

// NewUniqueMany declares a unique index with any number of values for each record, or none.
func NewUniqueMany[V, K, R any](t *Table[K, R], name string, codec Codec[V], fn func(r *R) []V) *Unique[V, K, R] {
	return &Unique[V, K, R]{addIndex(t, name, codec, true, fn)}
}

func addIndex[V, K, R any](t *Table[K, R], name string, codec Codec[V], unique bool, fn func(r *R) []V) Order[V, K, R] {
	o := Order[V, K, R]{table: t, codec: codec, index: len(t.indexes)}
	switch {
	case t.sealed.Load(): // the table goes on without it
		o.refused = misuse("table %q is in use: index %q comes too late", t.name, name)
		return o
	case codec == nil || fn == nil || name == "" || slices.ContainsFunc(t.indexes, func(ix *index[R]) bool { return ix.name == name }):
		t.refused = misuse("table %q: index %q lacks name, codec or function, or comes twice", t.name, name)
		return o
	}
	t.indexes = append(t.indexes, &index[R]{
		name: name, codec: codec.Name(), unique: unique,
		values: func(r *R) (all [][]byte, err error) {
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
		},
		skip: func(entry []byte) ([]byte, error) {
			_, rest, err := codec.Cut(entry)
			return rest, err
		},
	})
	return o
}

// WithVersion sets the version of the index's function and returns the index. It is 0 at first. A
// program that changes what the function computes raises it, and calls Rebuild.
func (ix *Index[V, K, R]) WithVersion(version int) *Index[V, K, R] {
	ix.setVersion(version)
	return ix
}

// WithVersion is that of Index.
func (ix *Unique[V, K, R]) WithVersion(version int) *Unique[V, K, R] {
	ix.setVersion(version)
	return ix
}

func (o *Order[V, K, R]) setVersion(version int) {
	switch {
	case o.refused != nil || o.table == nil || o.table.refused != nil: // it is no index
	case o.table.sealed.Load():
		o.refused = misuse("table %q is in use: a version comes too late", o.table.name)
	default:
		o.table.indexes[o.index].version = version
	}
}

// Of yields the records that have the value.
func (ix *Index[V, K, R]) Of(txn *brock.Txn, v V) Rows[K, R] { return ix.walkValue(txn, v) }

// Get returns the record that has the value, and its key, or brock.ErrKeyNotFound.
func (ix *Unique[V, K, R]) Get(txn *brock.Txn, v V) (key K, r *R, err error) {
	for row, err := range ix.walkValue(txn, v) {
		return row.Key, row.Record, err
	}
	return key, nil, brock.ErrKeyNotFound
}

// place is where entries of an index are planned. Records and entries may be read by different
// transactions.
type place[R any] struct {
	records, entries *brock.Txn
	*index[R]
	base []byte // what the keys of its entries begin with
}

// entryBase is what the keys of the entries begin with.
func (t *Table[K, R]) entryBase(ix *index[R], d *declaration) []byte {
	return appendInteger(bytes.Clone(t.entries), d.Numbers[ix.name], false)
}

// makeEntry returns the write of an entry. The key of a unique one has no record's key: that is its
// value. So two writes of one value conflict.
func (at *place[R]) makeEntry(v, k []byte) write {
	if at.unique {
		return write{key: join(at.base, v), value: k}
	}
	return write{key: append(join(at.base, v), k...)}
}

// readOwner returns the key of the record that an entry for k belongs to; nil if a unique one is not
// there.
func (at *place[R]) readOwner(entry, k []byte) ([]byte, error) {
	if !at.unique {
		return k, nil
	}
	return lookUp(at.entries, entry)
}

// planIndex plans what an index needs when the record under k was old and is now r; nil is none.
func (t *Table[K, R]) planIndex(p *plan, at place[R], k []byte, old, r *R) error {
	before, err := at.values(old)
	after, err2 := at.values(r)
	if err := cmp.Or(err, err2); err != nil {
		return err
	}
	for _, v := range leaveOut(before, after) {
		w := at.makeEntry(v, k)
		owner, err := at.readOwner(w.key, k)
		if err != nil {
			return err
		}
		if bytes.Equal(owner, k) { // beside a Rebuild the value may be another record's by now
			*p = append(*p, write{key: w.key, deletes: true})
		}
	}
	for _, v := range leaveOut(after, before) {
		w := at.makeEntry(v, k)
		owner, err := at.readOwner(w.key, k)
		if owner != nil && !bytes.Equal(owner, k) && err == nil {
			err = t.checkDuplicate(at, v, k, owner)
		}
		if err != nil {
			return err
		}
		*p = append(*p, w)
	}
	return nil
}

// leaveOut returns what is in a and not in b.
func leaveOut(a, b [][]byte) (rest [][]byte) {
	for _, v := range a {
		if _, found := slices.BinarySearchFunc(b, v, bytes.Compare); !found {
			rest = append(rest, v)
		}
	}
	return rest
}

// checkDuplicate returns a *DuplicateError if the record of owner has the value v. Its entry alone
// does not count: beside a Rebuild the record may have changed since.
func (t *Table[K, R]) checkDuplicate(at place[R], v, k, owner []byte) error {
	_, other, err := t.readRecord(at.records, owner)
	if err != nil {
		return err
	}
	values, err := at.values(other)
	if err != nil || len(leaveOut([][]byte{v}, values)) > 0 {
		return err
	}
	e := &DuplicateError[K]{Table: t.name, Index: at.name}
	if e.Key, err = t.decodeKey(k); err == nil {
		e.Other, err = t.decodeKey(owner)
	}
	return cmp.Or[error](err, e)
}
