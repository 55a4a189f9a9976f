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
	index    *index[R] // nil: of keys
	refused  error     // why it can't be used
	backward bool
}

// Backward is the order from the greatest to the least.
func (o Order[V, K, R]) Backward() Order[V, K, R] {
	o.backward = !o.backward
	return o
}

// All yields all records.
func (o Order[V, K, R]) All(txn *brock.Txn) Rows[K, R] { return o.walk(txn, nil, pastValue(nil), nil) }

// From yields the records from lo on; with Backward lo comes last.
func (o Order[V, K, R]) From(txn *brock.Txn, lo V) Rows[K, R] {
	from, err := o.encode(lo)
	return o.walk(txn, from, pastValue(nil), err)
}

// Range yields the records in [lo, hi).
func (o Order[V, K, R]) Range(txn *brock.Txn, lo, hi V) Rows[K, R] {
	from, err := o.encode(lo)
	to, err2 := o.encode(hi)
	return o.walk(txn, from, to, cmp.Or(err, err2))
}

// Prefix yields the records that begin with p: with the bytes of a String or Bytes, the elements of
// a Tuple, or as Pair says. Other codecs have no prefixes: brock.ErrInvalid.
func (o Order[V, K, R]) Prefix(txn *brock.Txn, p V) Rows[K, R] {
	lo, hi, err := rangePrefix(o.codec, p)
	return o.walk(txn, lo, hi, err)
}

// encode returns the bytes of a value, which come before its keys.
func (o Order[V, K, R]) encode(v V) ([]byte, error) {
	if o.codec == nil {
		return nil, misuse("an index that was not declared")
	}
	return o.codec.Append(nil, v)
}

// pastValue is behind all keys in which elements follow those of p. That which continues with 0xff
// is a longer string.
func pastValue(p []byte) []byte { return join(p, []byte{afterAll}) }

// walk yields the records whose keys in this order, without their base, are in [lo, hi); with an err
// of these bounds it yields that.
func (o Order[V, K, R]) walk(txn *brock.Txn, lo, hi []byte, err error) Rows[K, R] {
	return yieldAll(func(yield func(Row[K, R]) bool) error {
		t := o.table
		txn, d, err2 := t.enter(txn)
		if err2 = cmp.Or(o.refused, err2); err2 != nil || d == nil { // a new table has no records
			return err2
		}
		if err != nil {
			return fmt.Errorf("typed: table %q: %w", t.name, err)
		}
		base := t.base(o.index, d)
		if bytes.Compare(lo, hi) >= 0 {
			return nil
		}
		options := brock.IteratorOptions{Lower: join(base, lo), Upper: join(base, hi), Reverse: o.backward}
		for item, err := range txn.Items(options) {
			if err != nil {
				return err
			}
			row, err := o.readRow(txn, item, item.Key()[len(base):])
			if err != nil || !yield(row) {
				return err
			}
		}
		return nil
	})
}

// yieldAll returns what fn yields, and its error last. fn returns once yield has returned false.
func yieldAll[T any](fn func(yield func(T) bool) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := false
		err := fn(func(v T) bool {
			left = !yield(v, nil)
			return !left
		})
		if err != nil && !left {
			yield(*new(T), err)
		}
	}
}

// readRow returns what an item stands for: a record, or an entry of an index. k is its key without
// its base.
func (o Order[V, K, R]) readRow(txn *brock.Txn, item *brock.Item, k []byte) (Row[K, R], error) {
	raw, err := item.Value()
	if o.index != nil && err == nil {
		_, k, err = o.index.splitEntry(item, k)
		if err == nil {
			raw, err = lookUp(txn, join(o.table.records, k))
		}
		if err == nil && raw == nil {
			err = fmt.Errorf("typed: table %q, %s: %w", o.table.name, o.index.part(), ErrIndex)
		}
	}
	if err != nil {
		return Row[K, R]{}, err
	}
	return o.table.decodeRow(k, raw)
}
