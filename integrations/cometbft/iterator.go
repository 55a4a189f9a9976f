package brockcometbft

import (
	"bytes"
	"context"

	db "github.com/cometbft/cometbft-db"

	"github.com/brockdb/brock"
)

// iterator walks a domain of keys of one version of a Database.
type iterator struct {
	d          *Database
	start, end []byte
	txn        *brock.Txn
	it         *brock.Iterator // nil once it was closed
	err        error           // the first one
	valid      bool            // it is at a pair

	key, value []byte // of the pair: memory of the iterator, used again
	read       bool   // value was read
}

// Iterator returns an iterator over the keys in [start, end), in their order; nil is no bound, an empty
// one an error. It reads the version of this moment. Key and Value are valid until Next or Close; nobody
// else uses their memory. As db.Iterator demands, Next, Key and Value panic behind the end. Close it:
// until then it keeps the files that it reads.
func (d *Database) Iterator(start, end []byte) (db.Iterator, error) {
	return d.newIterator(start, end, false)
}

// ReverseIterator is Iterator in the reverse order, over the same keys.
func (d *Database) ReverseIterator(start, end []byte) (db.Iterator, error) {
	return d.newIterator(start, end, true)
}

func (d *Database) newIterator(start, end []byte, reverse bool) (db.Iterator, error) {
	if start != nil && len(start) == 0 || end != nil && len(end) == 0 {
		return nil, errKeyEmpty
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	txn, err := d.store.Begin(context.Background(), brock.TxnOptions{})
	if err != nil {
		return nil, err
	}
	i := &iterator{d: d, start: bytes.Clone(start), end: bytes.Clone(end), txn: txn}
	i.it = txn.In(d.keys).NewIterator(brock.IteratorOptions{Lower: start, Upper: end, Reverse: reverse})
	i.it.Rewind()
	i.settle()
	if i.err != nil {
		_ = i.Close()
		return nil, i.err
	}
	return i, nil
}

// settle takes over where the iterator of the store is after a move.
func (i *iterator) settle() {
	i.read = false
	if i.valid = i.it.Valid(); !i.valid {
		i.err = i.it.Err()
		return
	}
	i.key = i.it.Item().KeyCopy(i.key[:0])
}

// Domain returns copies of the bounds.
func (i *iterator) Domain() (start, end []byte) { return bytes.Clone(i.start), bytes.Clone(i.end) }

// Valid reports whether the iterator is at a pair. After the end, an error or Close it never is again.
func (i *iterator) Valid() bool {
	if i.valid {
		if err := i.d.check(); err != nil {
			i.err, i.valid = err, false
		}
	}
	return i.valid
}

// atPair reports whether the iterator is at a pair. Where it is not, it panics, as db.Iterator demands of
// Next, Key and Value, unless an error has ended the iterator: then its user could not know.
func (i *iterator) atPair() bool {
	if !i.valid && i.err == nil {
		panic("brockcometbft: the iterator is at no pair: ask Valid first")
	}
	return i.valid
}

// Next moves to the next pair. It panics behind the end.
func (i *iterator) Next() {
	if i.atPair() && i.Valid() {
		i.it.Next()
		i.settle()
	}
}

// Key returns the key of the pair. It panics behind the end.
func (i *iterator) Key() []byte {
	if !i.atPair() {
		return nil
	}
	return i.key
}

// Value returns the value of the pair, which is never nil. If it can't be read, that is nil, Error
// tells why, and the iterator has ended. It panics behind the end.
func (i *iterator) Value() []byte {
	if !i.atPair() {
		return nil
	}
	if !i.read {
		value, err := i.it.Item().ValueCopy(i.value[:0])
		if err != nil {
			i.err, i.valid = err, false
			return nil
		}
		i.value, i.read = value, true
	}
	return i.value
}

// Error returns why the iterator has ended; nil at the end of its domain.
func (i *iterator) Error() error { return i.err }

// Close ends the iterator. It may be called more than once.
func (i *iterator) Close() error {
	if i.it == nil {
		return nil
	}
	_ = i.it.Close() // its errors are those of Error
	i.txn.Discard()
	i.txn, i.it, i.valid = nil, nil, false
	i.key, i.value = nil, nil
	return nil
}
