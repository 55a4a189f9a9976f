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
func (o Order[V, K, R]) All(txn *brock.Txn) Rows[K, R] { return o.walk(txn, o.begin, past(o.begin)) }

// From yields the records from lo on; with Backward lo comes last.
func (o Order[V, K, R]) From(txn *brock.Txn, lo V) Rows[K, R] {
	return o.walk(txn, o.at(lo), past(o.begin))
}

// Range yields the records in [lo, hi).
func (o Order[V, K, R]) Range(txn *brock.Txn, lo, hi V) Rows[K, R] {
	return o.walk(txn, o.at(lo), o.at(hi))
}

// Prefix yields the records that begin with p: with the bytes of a String or Bytes, the elements of
// a Tuple, or as Pair says. Other codecs have no prefixes: brock.ErrInvalid.
func (o Order[V, K, R]) Prefix(txn *brock.Txn, p V) Rows[K, R] {
	whole := false
	lo := func(base []byte) (from []byte, err error) {
		c, ok := o.codec.(prefixer[V])
		if !ok {
			return nil, errNoPrefix
		}
		from, whole, err = c.appendPrefix(bytes.Clone(base), p)
		return from, err
	}
	hi := func(base []byte) ([]byte, error) {
		from, err := lo(base)
		if whole || err != nil {
			return pastValue(from), err
		}
		// It begins with the name of a table, so it is not all 0xff.
		to := bytes.Clone(bytes.TrimRight(from, "\xff"))
		to[len(to)-1]++
		return to, nil
	}
	return o.walk(txn, lo, hi)
}

func (o Order[V, K, R]) walkValue(txn *brock.Txn, v V) Rows[K, R] {
	return o.walk(txn, o.at(v), past(o.at(v)))
}

// edge returns a bound of keys that begin with base.
type edge func(base []byte) ([]byte, error)

func (o Order[V, K, R]) begin(base []byte) ([]byte, error) { return base, nil }

// at is before the keys of a value.
func (o Order[V, K, R]) at(v V) edge {
	return func(base []byte) ([]byte, error) { return o.codec.Append(bytes.Clone(base), v) }
}

// past is behind the keys of a value.
func past(e edge) edge {
	return func(base []byte) ([]byte, error) {
		p, err := e(base)
		return pastValue(p), err
	}
}

// pastValue is behind all keys in which elements follow those of p. That which continues with 0xff
// is a longer string.
func pastValue(p []byte) []byte { return join(p, []byte{afterAll}) }

// walk yields the records between two edges.
func (o Order[V, K, R]) walk(txn *brock.Txn, lo, hi edge) Rows[K, R] {
	return func(yield func(Row[K, R], error) bool) {
		left := false
		err := o.walkEdges(txn, lo, hi, func(r Row[K, R]) bool {
			left = !yield(r, nil)
			return !left
		})
		if err != nil && !left {
			yield(Row[K, R]{}, err)
		}
	}
}

func (o Order[V, K, R]) walkEdges(txn *brock.Txn, lo, hi edge, yield func(Row[K, R]) bool) error {
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
	from, err := lo(base)
	to, err2 := hi(base)
	if err := cmp.Or(err, err2); err != nil {
		return fmt.Errorf("typed: table %q: %w", t.name, err)
	}
	if bytes.Compare(from, to) >= 0 {
		return nil
	}
	for item, err := range txn.Items(brock.IteratorOptions{Lower: from, Upper: to, Reverse: o.backward}) {
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
