package typed

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"

	"github.com/brockdb/brock"
)

// Row is a record and its key. They are the caller's.
type Row[K, R any] struct {
	Key    K
	Record *R
}

// Rows are what a walk yields. An error comes last, with a zero Row.
type Rows[K, R any] = iter.Seq2[Row[K, R], error]

// Order is an order in which to walk the records of a table: that of their keys, or of the values
// of an index. A walk sees what its transaction sees when the loop begins. Other writes within the
// loop are allowed. In a Serializable transaction the range that was walked counts as read, and so
// does each record.
type Order[V, K, R any] struct {
	table    *Table[K, R]
	codec    Codec[V]
	index    int   // in Table.indexes; -1: of keys
	refused  error // why it can't be used
	backward bool
}

// Backward is the order from the greatest to the least.
func (o Order[V, K, R]) Backward() Order[V, K, R] {
	o.backward = !o.backward
	return o
}

// All yields all records.
func (o Order[V, K, R]) All(txn *brock.Txn) Rows[K, R] {
	return o.walk(txn, func(base []byte) (lo, hi []byte, err error) { return base, pastValue(base), nil })
}

// From yields the records from lo on; with Backward lo comes last.
func (o Order[V, K, R]) From(txn *brock.Txn, lo V) Rows[K, R] {
	return o.walk(txn, func(base []byte) ([]byte, []byte, error) {
		from, err := o.codec.Append(bytes.Clone(base), lo)
		return from, pastValue(base), err
	})
}

// Range yields the records in [lo, hi).
func (o Order[V, K, R]) Range(txn *brock.Txn, lo, hi V) Rows[K, R] {
	return o.walk(txn, func(base []byte) ([]byte, []byte, error) {
		from, err := o.codec.Append(bytes.Clone(base), lo)
		if err != nil {
			return nil, nil, err
		}
		to, err := o.codec.Append(bytes.Clone(base), hi)
		return from, to, err
	})
}

// Prefix yields the records that begin with p: with the bytes of a String or Bytes, the elements of
// a Tuple, or as Pair says. Other codecs have no prefixes: brock.ErrInvalid.
func (o Order[V, K, R]) Prefix(txn *brock.Txn, p V) Rows[K, R] {
	return o.walk(txn, func(base []byte) ([]byte, []byte, error) {
		c, ok := o.codec.(prefixer[V])
		if !ok {
			return nil, nil, errNoPrefix
		}
		from, whole, err := c.appendPrefix(bytes.Clone(base), p)
		if whole || err != nil {
			return from, pastValue(from), err
		}
		// It begins with the name of a table, so it is not all 0xff.
		to := bytes.Clone(bytes.TrimRight(from, "\xff"))
		to[len(to)-1]++
		return from, to, nil
	})
}

func (o Order[V, K, R]) walkValue(txn *brock.Txn, v V) Rows[K, R] {
	return o.walk(txn, func(base []byte) ([]byte, []byte, error) {
		from, err := o.codec.Append(bytes.Clone(base), v)
		return from, pastValue(from), err
	})
}

// pastValue is behind all keys in which elements follow those of p. That which continues with 0xff
// is a longer string.
func pastValue(p []byte) []byte { return join(p, []byte{afterAll}) }

// walk yields the records in the range that bounds returns, of keys that begin with base.
func (o Order[V, K, R]) walk(txn *brock.Txn, bounds func(base []byte) (lo, hi []byte, err error)) Rows[K, R] {
	return func(yield func(Row[K, R], error) bool) {
		left := false
		err := o.walkBounds(txn, bounds, func(r Row[K, R]) bool {
			left = !yield(r, nil)
			return !left
		})
		if err != nil && !left {
			yield(Row[K, R]{}, err)
		}
	}
}

func (o Order[V, K, R]) walkBounds(txn *brock.Txn, bounds func(base []byte) (lo, hi []byte, err error), yield func(Row[K, R]) bool) error {
	t := o.table
	if o.refused != nil || t == nil {
		return cmp.Or(o.refused, misuse("an index that NewIndex has not made"))
	}
	txn, d, err := t.enter(txn)
	if d == nil || err != nil { // a new table has no records
		return err
	}
	base := t.records
	if o.index >= 0 {
		base = t.entryBase(t.indexes[o.index], d)
	}
	lo, hi, err := bounds(base)
	if err != nil {
		return fmt.Errorf("typed: table %q: %w", t.name, err)
	}
	if bytes.Compare(lo, hi) >= 0 {
		return nil
	}
	for item, err := range txn.Items(brock.IteratorOptions{Lower: lo, Upper: hi, Reverse: o.backward}) {
		if err != nil {
			return err
		}
		row, err := o.readRow(txn, item, item.Key()[len(base):])
		if err != nil || !yield(row) {
			return err
		}
	}
	return nil
}

// readRow returns what an item stands for: a record, or an entry of an index. rest is its key
// without what all keys of the order begin with.
func (o Order[V, K, R]) readRow(txn *brock.Txn, item *brock.Item, rest []byte) (row Row[K, R], err error) {
	t := o.table
	var raw []byte
	if o.index < 0 {
		raw, err = item.Value()
	} else if rest, err = t.indexes[o.index].readKey(item, rest); err == nil {
		raw, err = lookUp(txn, join(t.records, rest))
	}
	if err != nil {
		return row, err
	}
	if raw == nil && o.index >= 0 {
		return row, fmt.Errorf("typed: table %q, %s: %w", t.name, t.indexes[o.index].part(), ErrIndex)
	}
	if row.Key, err = t.decodeKey(rest); err == nil {
		row.Record, err = t.decodeRecord(raw)
	}
	return row, err
}

// readKey returns the record's key that an entry leads to.
func (ix *index[R]) readKey(item *brock.Item, rest []byte) ([]byte, error) {
	k, err := ix.skip(rest)
	if ix.unique && err == nil && len(k) == 0 {
		return item.Value()
	}
	if ix.unique && err == nil {
		err = fmt.Errorf("typed: %s: %w: bytes behind a value", ix.part(), ErrDecode)
	}
	return k, err
}
