package badger

import (
	"fmt"

	"github.com/brockdb/brock"
)

// Item is one version of one key. That of a Get is valid until its transaction ends, that of an iterator
// until the iterator moves; but values that it has handed out stay valid until the transaction ends.
type Item struct {
	txn    *Txn
	source *brock.Item // where the value is; nil: val is the value

	shared bool // it is of a Get in a read-only transaction, which several goroutines may use

	// The rest is set if fixed is: else source tells all.
	fixed     bool
	flags     byte
	userMeta  byte
	known     bool // expiresAt and userMeta are those of the version; else flags say that its header has them
	key       []byte
	val       []byte
	version   uint64
	expiresAt uint64
}

// String describes the item, without its value.
func (item *Item) String() string {
	return fmt.Sprintf("key=%q, version=%d, meta=%x", item.Key(), item.Version(), item.flags)
}

// Key returns the key. Don't modify it.
func (item *Item) Key() []byte {
	if item.fixed || item.source == nil {
		return item.key
	}
	return item.source.Key()
}

// KeyCopy returns a copy of the key, in dst if it has room.
func (item *Item) KeyCopy(dst []byte) []byte { return copyTo(dst, item.Key()) }

// copyTo copies b to dst, if it has room. It never returns nil, which would mean that there is nothing.
func copyTo(dst, b []byte) []byte {
	if dst == nil {
		dst = []byte{}
	}
	return append(dst[:0], b...)
}

// Version returns the version of the commit that wrote the item. A write of the transaction itself has
// that which the transaction reads.
func (item *Item) Version() uint64 {
	if item.fixed || item.source == nil {
		return item.version
	}
	if v := item.source.Version(); v != 0 {
		return v
	}
	return item.txn.readTs
}

// Value calls fn with the value, and returns its error. The value is valid until the transaction ends;
// don't modify it. It returns ErrDiscardedTxn, ErrDBClosed, and Brock's errors for what can't be read.
func (item *Item) Value(fn func(val []byte) error) error {
	value, err := item.read()
	if err != nil {
		return err
	}
	if fn == nil {
		return nil
	}
	return fn(value)
}

// ValueCopy returns a copy of the value, in dst if it has room; without an error it is never nil. Its
// errors are those of Value.
func (item *Item) ValueCopy(dst []byte) ([]byte, error) {
	if item.source != nil && !item.fixed {
		switch {
		case item.txn.brock == nil: // CommitWith has given it away
			return nil, ErrDiscardedTxn
		case item.source.Deleted():
			return copyTo(dst, nil), nil
		}
		if item.shared {
			item.txn.point.Lock()
			defer item.txn.point.Unlock()
		}
		value, err := item.source.ValueCopy(dst)
		return value, readError(err)
	}
	value, err := item.read()
	if err != nil {
		return nil, err
	}
	return copyTo(dst, value), nil
}

// read returns the value, which is valid until the transaction ends; nil for a delete.
func (item *Item) read() ([]byte, error) {
	switch {
	case item.source == nil:
		return item.val, nil
	case item.fixed && item.flags&flagDeleted != 0, !item.fixed && item.source.Deleted():
		return nil, nil
	}
	if item.shared {
		item.txn.point.Lock()
		defer item.txn.point.Unlock()
	}
	if item.txn.brock == nil {
		return nil, ErrDiscardedTxn
	}
	value, err := item.source.Value()
	if err != nil {
		return nil, readError(err)
	}
	if !item.fixed {
		return value, nil
	}
	n := headerLen(item.flags)
	if len(value) < n {
		return nil, errCutVersion
	}
	return value[n:], nil
}

// IsDeletedOrExpired reports whether the item has no value any more.
func (item *Item) IsDeletedOrExpired() bool {
	deleted := item.flags&flagDeleted != 0
	if !item.fixed && item.source != nil {
		deleted = item.source.Deleted()
	}
	return deleted || isExpired(item.ExpiresAt())
}

// DiscardEarlierVersions reports whether the item was written by WithDiscard.
func (item *Item) DiscardEarlierVersions() bool {
	if item.fixed || item.source == nil {
		return item.flags&flagDiscard != 0
	}
	return item.source.OnlyLatest()
}

// EstimatedSize returns the length of key and value.
func (item *Item) EstimatedSize() int64 { return item.KeySize() + item.ValueSize() }

// KeySize returns the length of the key.
func (item *Item) KeySize() int64 { return int64(len(item.Key())) }

// ValueSize returns the length of the value, without reading it.
func (item *Item) ValueSize() int64 {
	switch {
	case item.source == nil:
		return int64(len(item.val))
	case item.fixed:
		return max(item.source.ValueSize()-int64(headerLen(item.flags)), 0)
	}
	return item.source.ValueSize()
}

// UserMeta returns the byte that the application has stored with the entry.
func (item *Item) UserMeta() byte {
	if item.fixed || item.source == nil {
		item.needHeader(flagUserMeta)
		return item.userMeta
	}
	return item.source.Meta()
}

// ExpiresAt returns when the item expires, as Unix time in seconds; 0 is never.
func (item *Item) ExpiresAt() uint64 {
	if item.fixed || item.source == nil {
		item.needHeader(flagExpires)
		return item.expiresAt
	}
	at := item.source.ExpiresAt()
	if at.IsZero() {
		return 0
	}
	return uint64(at.Unix())
}
