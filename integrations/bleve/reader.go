package brockbleve

import (
	"errors"
	"sync"

	store "github.com/blevesearch/upsidedown_store_api"

	"github.com/brockdb/brock"
)

// reader reads one version. Each iterator of a read-only transaction may have a goroutine of its own;
// the mutex lets several call the reader itself, too.
type reader struct {
	mu  sync.Mutex // guards:
	txn *brock.Txn
}

// Get returns a copy of the value of key; nil and no error if there is none. An empty value is not nil.
func (r *reader) Get(key []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	item, err := r.txn.Get(key)
	if errors.Is(err, brock.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

// MultiGet returns copies of the values of keys, in their order, nil for an absent key. It asks the disk
// for many at once.
func (r *reader) MultiGet(keys [][]byte) ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	values := make([][]byte, 0, len(keys))
	for item, err := range r.txn.GetMany(keys) {
		if err != nil {
			return nil, err
		}
		var value []byte
		if item != nil {
			if value, err = item.ValueCopy(nil); err != nil {
				return nil, err
			}
		}
		values = append(values, value)
	}
	return values, nil
}

// PrefixIterator returns an iterator over the keys that begin with prefix, at the first of them.
func (r *reader) PrefixIterator(prefix []byte) store.KVIterator {
	return r.newIterator(brock.IteratorOptions{Prefix: prefix})
}

// RangeIterator returns an iterator over the keys in [start, end), at the first of them; nil is no
// bound.
func (r *reader) RangeIterator(start, end []byte) store.KVIterator {
	return r.newIterator(brock.IteratorOptions{Lower: start, Upper: end})
}

func (r *reader) newIterator(o brock.IteratorOptions) *iterator {
	r.mu.Lock()
	i := &iterator{it: r.txn.NewIterator(o)}
	r.mu.Unlock()
	i.it.Rewind()
	i.settle()
	return i
}

// Close ends the reader, and its iterators with brock.ErrTxnDone. It may be called more than once.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.txn.Discard()
	return nil
}

// iterator walks keys in their order. Key and Value are in memory of its own, which the next move uses
// again.
type iterator struct {
	it         *brock.Iterator
	err        error // the first one, which Close returns: KVIterator has no other call for it
	valid      bool  // it is at a pair
	read       bool  // value is that of the pair
	key, value []byte
}

// settle takes over where the iterator of the store is after a move.
func (i *iterator) settle() {
	i.read = false
	if i.valid = i.err == nil && i.it.Valid(); i.valid {
		i.key = i.it.Item().KeyCopy(i.key[:0])
	} else if i.err == nil {
		i.err = i.it.Err()
	}
}

// Seek moves to key or, without one, to the next key, within the bounds of the iterator.
func (i *iterator) Seek(key []byte) {
	if i.err == nil {
		i.it.Seek(key)
	}
	i.settle()
}

// Next moves to the next pair. Behind the end it does nothing.
func (i *iterator) Next() {
	if i.valid {
		i.it.Next()
		i.settle()
	}
}

// Valid reports whether the iterator is at a pair.
func (i *iterator) Valid() bool { return i.valid }

// Key returns the key of the pair, valid until the next move; nil if there is none.
func (i *iterator) Key() []byte {
	if !i.valid {
		return nil
	}
	return i.key
}

// Value returns the value of the pair, valid until the next move; nil if there is none, or if it can't
// be read, which ends the iterator and which Close tells.
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

// Current returns Key, Value and Valid.
func (i *iterator) Current() (key, value []byte, valid bool) {
	value = i.Value()
	return i.Key(), value, i.valid
}

// Close ends the iterator, and returns the error that has ended it before, if one has. It may be called
// more than once.
func (i *iterator) Close() error {
	_ = i.it.Close() // its errors came with the moves
	i.valid = false
	return i.err
}
