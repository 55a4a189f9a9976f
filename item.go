package brock

import (
	"time"

	"github.com/brockdb/brock/internal/entry"
)

// Item is one version of one key, as a transaction or iterator found it. Its
// value is fetched when asked for.
type Item struct {
	txn   *transaction
	lent  lentKeys     // of an iterator's item
	e     *entry.Entry // own, or the iterator's; nil once an iterator left it
	ahead *slot        // where the value is read ahead, if it is
	own   entry.Entry

	fetched int32 // separated values that an iterator's item was asked for
}

// Key is the item's key. It is valid as long as the item is.
func (it *Item) Key() []byte {
	if it.e == nil {
		return nil
	}
	key := userKey(it.e.Key)
	switch {
	case !debug:
		return key
	case it.e == &it.own:
		return it.txn.lend(key)
	}
	return it.lent.lend(key)
}

// KeyCopy appends the key to dst[:0] and returns it; it is the caller's.
func (it *Item) KeyCopy(dst []byte) []byte { return append(dst[:0], it.Key()...) }

// Value is the item's value: without a copy where that can be, read-only, never
// nil without an error, and valid as the package comment says. The value of a
// deleted item is ErrKeyNotFound.
func (it *Item) Value() ([]byte, error) {
	if it.txn == nil {
		return nil, ErrTxnDone
	}
	if err := it.txn.usable(); err != nil {
		return nil, err
	}
	if it.e == nil {
		return nil, errIteratorClosed
	}
	v, err := it.value()
	if debug && err == nil {
		v = it.txn.lend(v)
	}
	return v, err
}

func (it *Item) value() ([]byte, error) {
	switch e := it.e; {
	case e.Kind == entry.Delete:
		return nil, ErrKeyNotFound
	case it.ahead != nil:
		return it.ahead.wait(it.txn.pin)
	case e.Separated:
		if e != &it.own {
			it.fetched++
		}
		return it.txn.value(e)
	case e.Value == nil:
		return empty, nil
	default:
		return e.Value[:len(e.Value):len(e.Value)], nil
	}
}

// empty is every empty value: found, so not nil.
var empty = []byte{}

// ValueCopy appends the value to dst[:0] and returns it; it is the caller's.
func (it *Item) ValueCopy(dst []byte) ([]byte, error) {
	v, err := it.Value()
	if err != nil {
		return nil, err
	}
	if dst == nil {
		dst = empty
	}
	return append(dst[:0], v...), nil
}

// ValueFunc calls fn with the value, which is valid until fn returns.
func (it *Item) ValueFunc(fn func(value []byte) error) error {
	v, err := it.Value()
	if err != nil {
		return err
	}
	return fn(v)
}

// ValueSize is the length of the value, known without reading it.
func (it *Item) ValueSize() int64 {
	if it.e == nil {
		return 0
	}
	return int64(it.e.ValueLen())
}

// Version is the number of the commit that wrote the item; 0 for a write of this
// transaction, which has none yet.
func (it *Item) Version() uint64 {
	if it.e == nil {
		return 0
	}
	return uint64(it.e.Version)
}

// ExpiresAt is when the item vanishes; zero is never.
func (it *Item) ExpiresAt() time.Time {
	if it.e == nil || it.e.Expires == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(it.e.Expires))
}

// Meta is the application's byte.
func (it *Item) Meta() byte {
	if it.e == nil {
		return 0
	}
	return it.e.Meta
}

// Deleted reports whether the item marks a delete; only Versions and
// IteratorOptions.AllVersions show those.
func (it *Item) Deleted() bool { return it.e != nil && it.e.Kind == entry.Delete }

// OnlyLatest reports whether the item was written with Entry.OnlyLatest.
func (it *Item) OnlyLatest() bool { return it.e != nil && it.e.Kind == entry.SetLatest }

// place makes e, which belongs to an iterator of txn, the item.
func (it *Item) place(txn *transaction, e *entry.Entry) { it.txn, it.e, it.ahead = txn, e, nil }
