package brockethdb

import (
	"bytes"
	"context"

	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/brockdb/brock"
)

// iterator walks the keys of one version of a Database.
type iterator struct {
	d     *Database
	txn   *brock.Txn
	it    *brock.Iterator
	err   error // the first one
	begun bool
	valid bool // it is at a pair

	key, value []byte // of the pair: memory of the iterator, used again
	read       bool   // value was read
}

// NewIterator returns an iterator over the keys that begin with prefix, from prefix and start on, in the
// order of keys. It reads the version of this moment: what is written later does not show. Key and
// Value are valid until Next; nobody else uses their memory. Release it: until then it keeps the files
// that it reads.
func (d *Database) NewIterator(prefix, start []byte) ethdb.Iterator {
	if err := d.check(); err != nil {
		return &iterator{d: d, err: err}
	}
	txn, err := d.db.Begin(context.Background(), brock.TxnOptions{})
	if err != nil {
		return &iterator{d: d, err: err}
	}
	o := brock.IteratorOptions{Prefix: prefix, Lower: append(bytes.Clone(prefix), start...)}
	return &iterator{d: d, txn: txn, it: txn.In(d.keys).NewIterator(o)}
}

// Next moves to the next pair, at first to the first one. It returns false at the end, after an error,
// and after Release.
func (i *iterator) Next() bool {
	i.valid, i.read = false, false
	if i.it == nil || i.err != nil {
		return false
	}
	if i.err = i.d.check(); i.err != nil {
		return false
	}
	if i.begun {
		i.it.Next()
	} else {
		i.it.Rewind()
		i.begun = true
	}
	if i.valid = i.it.Valid(); !i.valid {
		i.err = i.it.Err()
		return false
	}
	i.key = i.it.Item().KeyCopy(i.key[:0])
	return true
}

// Error returns why the iterator has ended; nil at the end.
func (i *iterator) Error() error { return i.err }

// Key returns the key of the pair; nil if there is none.
func (i *iterator) Key() []byte {
	if !i.valid {
		return nil
	}
	return i.key
}

// Value returns the value of the pair; nil if there is none, or if it can't be read, which Error tells
// and ends the iterator.
func (i *iterator) Value() []byte {
	if !i.valid {
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

// Release ends the iterator. It may be called more than once.
func (i *iterator) Release() {
	if i.it == nil {
		return
	}
	_ = i.it.Close() // its errors came with Next and Value
	i.txn.Discard()
	i.txn, i.it, i.valid = nil, nil, false
	i.key, i.value = nil, nil
}
