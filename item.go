package brock

import (
	"bytes"
	"runtime"
	"sync"
	"time"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/pending"
)

// Item is one version of one key, as a transaction or iterator found it. Its value is
// read when it is asked for.
type Item struct {
	txn  *transaction // that has found it; nil in a zero Item
	lent lentKeys     // copies of an iterator's item to poison when it moves on
	e    *entry.Entry // nil when the iterator is at no item

	found  bool // it is of a point read: e stays until the transaction ends
	asked  bool // it is of an iterator, and its value was read: tell the scan (leaveAsked)
	copies bool // Options.CopyValues
}

// noEntry is what an item is at when it is at none. It is only read.
var noEntry entry.Entry

// currentEntry returns the entry that the item is at, or noEntry.
func (it *Item) currentEntry() *entry.Entry {
	if it.e == nil {
		return &noEntry
	}
	return it.e
}

// Key returns the item's key, which is valid as long as the item is.
func (it *Item) Key() []byte {
	key := userKey(it.currentEntry().Key)
	switch {
	case key == nil:
		return nil
	// That of a point read lies in the transaction, not in a file (Txn.Get), so it is safe without
	// a copy.
	case it.copies && !it.found:
		return bytes.Clone(key)
	case it.found:
		return it.txn.lent.lend(key)
	}
	return it.lent.lend(key)
}

// KeyCopy appends the key to dst[:0] and returns it. The copy belongs to the caller.
func (it *Item) KeyCopy(dst []byte) []byte {
	return append(dst[:0], userKey(it.currentEntry().Key)...)
}

// Value returns the item's value. Don't modify it. It is never nil without an error, and
// valid as long as the package comment says. For a delete it returns ErrKeyNotFound. It also
// returns ErrTxnDone, ErrClosed, the error of the transaction's context, ErrInvalid if the
// iterator is at no item, a *CorruptionError for damage, and ErrRefused if the disk can't be read.
//
// If possible the value is not copied. It may then lie in a mapped file: if the disk fails
// later, reading it ends the process. ValueCopy is safe, and so is Value with
// Options.CopyValues.
//
// A value that has to be read from the disk, decoded or decrypted lies in memory that is used
// again when the transaction has ended. A transaction gets up to 256 KB of it, and new memory
// beyond that. ValueCopy and ValueFunc reuse memory at once, so scans of compressed or
// encrypted values with them take about half as long.
func (it *Item) Value() ([]byte, error) {
	if err := it.checkReadable(); err != nil {
		return nil, err
	}
	if it.copies {
		return it.ValueCopy(nil)
	}
	// A value that has to be decoded lies in memory that a leaked pin leaves to the user, so it
	// does not need the View (view.Pin.ReleaseLeaked).
	if it.e.Raw == 0 {
		it.txn.noteLent()
	}
	return it.borrowValue()
}

// borrowValue is Value, without a copy. The item must be readable, and the caller must keep its
// transaction alive.
func (it *Item) borrowValue() ([]byte, error) {
	v, _, err := it.readValue(nil, true)
	if err != nil {
		return nil, err
	}
	if e := it.e; e.Raw != 0 && it.found {
		// The item keeps what was decoded, as an inline value.
		// So a second Value decodes nothing. Only for point reads, whose entry is ours: that of an
		// iterator is the scan's, which goes on to read it.
		e.Value, e.Codec, e.Separated, e.Raw = v, codec.None, false, 0
	}
	return it.txn.lent.lend(v), nil
}

// checkReadable returns nil while the item's value can be read, else the error for the caller.
func (it *Item) checkReadable() error {
	if err := it.txn.checkActive(); err != nil {
		return err
	}
	if it.e == nil {
		return errIteratorClosed
	}
	return nil
}

// readValue returns the value. If own, it lies in dst (if cap(dst) is enough) or in new memory;
// else it lies in memory of the pin or the transaction. With lent, a value that has to be read
// or decoded may lie there, too.
func (it *Item) readValue(dst []byte, lent bool) (value []byte, own bool, err error) {
	switch e := it.e; {
	case e.Kind == entry.Delete:
		return nil, false, ErrKeyNotFound
	case e.Separated:
		it.asked = true
		return it.txn.readSeparated(e, dst, lent)
	case e.Raw != 0: // compressed in the pending writes
		value, err = it.txn.db.compression.Decode(dst, e.Codec, e.Value, int(e.Raw))
		return value, true, err
	case e.Value == nil:
		return empty, false, nil
	default:
		// Without spare capacity: an append by the user would write into the entry behind it.
		v := e.Value[:len(e.Value):len(e.Value)]
		if len(v) > onePage {
			return v, false, touchPages(v)
		}
		return v, false, nil
	}
}

// onePage is the length up to which an inline value needs no touch. The call that found it
// has read its key and its last byte; a short value lies on the same one or two pages.
const onePage = 4 << 10

// touchPages reads one byte of each page of b, and returns a fault as an error. Without it the
// fault would end the process when the user reads b.
func touchPages(b []byte) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	pageio.Touch(b)
	return nil
}

// empty is returned for every empty value, since nil would mean that there is none.
var empty = []byte{}

// ValueCopy appends the value to dst[:0] and returns it. The copy belongs to the
// caller. Its errors are those of Value; then the bytes of dst may have changed.
func (it *Item) ValueCopy(dst []byte) (value []byte, err error) {
	if err := it.checkReadable(); err != nil {
		return nil, err
	}
	// Not only for the read: the copy below touches each page, while the disk may be failing.
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	// A value that was decoded or decrypted is in dst already, and needs no second copy.
	v, own, err := it.readValue(dst, false)
	if err != nil || own {
		return v, err
	}
	if dst == nil {
		dst = empty
	}
	dst = append(dst[:0], v...)
	runtime.KeepAlive(it) // and with it the transaction, should that have leaked
	return dst, nil
}

// needsDecoding reports whether value needs memory to decode or decrypt into, or may need some to read
// into that the pin doesn't lend any more.
func (it *Item) needsDecoding() bool {
	return it.e.Raw != 0 || it.e.Separated && (it.txn.db.opts.Keys != nil || it.txn.pin.HasLentAll())
}

// valuePool has memory for decoded values that are needed for a short time only.
var valuePool = sync.Pool{New: func() any { return new([]byte) }}

func recycleValue(buf *[]byte) {
	invariant.Poison(*buf)
	if cap(*buf) <= pending.MaxPooled {
		valuePool.Put(buf)
	}
}

// ValueFunc calls fn with the value, and returns the error of fn. The value is read-only, and
// valid until fn returns. If it returns an error of Value, it has not called fn.
func (it *Item) ValueFunc(fn func(value []byte) error) error {
	if err := it.checkReadable(); err != nil {
		return err
	}
	if fn == nil {
		return errNilFunction
	}
	// No guard is on while fn runs: it would turn a fault in the user's own memory into damage of
	// the store.
	var v []byte
	var err error
	if it.needsDecoding() || it.copies {
		// fn must not use the value after it has returned, so the memory can be pooled.
		buf := valuePool.Get().(*[]byte)
		defer recycleValue(buf)
		v, err = it.pooledValue(buf)
	} else {
		v, err = it.borrowValue()
	}
	if err != nil {
		return err
	}
	err = fn(v)
	runtime.KeepAlive(it) // and with it the transaction, should that have leaked
	return err
}

// pooledValue returns the value. If it is not in the pin's or the transaction's memory, it is in buf.
func (it *Item) pooledValue(buf *[]byte) (value []byte, err error) {
	own := true
	if it.copies || invariant.Poisons {
		value, err = it.ValueCopy(*buf)
	} else {
		value, own, err = it.readValue(*buf, false)
	}
	if err == nil && own {
		*buf = value
	}
	return value, err
}

// ValueSize returns the length of the value in bytes, before compression, without reading it.
func (it *Item) ValueSize() int64 { return int64(it.currentEntry().ValueLen()) }

// Version returns the version of the commit that wrote the item. It is 0 for a write
// of this transaction, which is not committed yet.
func (it *Item) Version() uint64 {
	version := it.currentEntry().Version
	if version == rangedel.Pending {
		return 0
	}
	return uint64(version)
}

// ExpiresAt returns when the item expires; the zero time is never.
func (it *Item) ExpiresAt() time.Time { return expiryTime(it.currentEntry().Expires) }

// Meta returns the byte that the application has stored with the entry.
func (it *Item) Meta() byte { return it.currentEntry().Meta }

// Deleted reports whether the item is a delete. Only Txn.Versions and
// IteratorOptions.AllVersions show deletes.
func (it *Item) Deleted() bool { return it.currentEntry().Kind == entry.Delete }

// OnlyLatest reports whether the item was written with Entry.OnlyLatest.
func (it *Item) OnlyLatest() bool { return it.currentEntry().Kind == entry.SetLatest }

// placeEntry makes e, an entry that txn has found, the item.
func (it *Item) placeEntry(txn *transaction, e *entry.Entry) {
	it.txn, it.e, it.copies = txn, e, txn.db.opts.CopyValues
}

// result is the item of a point read, and its entry.
type result struct {
	item  Item
	entry entry.Entry
}

// results are the items that a transaction has handed out after its first, and
// their keys. They come in blocks that only their users keep alive.
type results struct {
	items []result // free items of the last block
	keys  []byte   // the last block of keys; it is free from its length to its capacity
	block int      // number of items in the last block

	firstItems [4]result
	firstKeys  [256]byte
}

// The sizes of the later blocks.
const (
	maxItems = 64
	maxKeys  = 8 << 10
)

// scratchItem returns a free item, and the stored form of key in free memory. The next call
// returns the same memory, unless keep is called first.
func (t *Txn) scratchItem(key []byte) (*result, []byte) {
	n := len(t.keyspace.prefix) + len(key)
	// Most transactions get one item with a short key: that allocates nothing more.
	if !t.taken && n <= len(t.firstKey) {
		return &t.first, pending.AppendKey(t.firstKey[:0:n], t.keyspace.prefix, key)
	}
	if t.more == nil {
		t.more = new(results)
		t.more.block = len(t.more.firstItems)
		t.more.items, t.more.keys = t.more.firstItems[:], t.more.firstKeys[:0]
	}
	return t.more.nextScratch(t.keyspace.prefix, key)
}

func (r *results) nextScratch(prefix, key []byte) (*result, []byte) {
	if len(r.items) == 0 {
		// Blocks, not one slice that grows: items that were handed out never move.
		r.block = min(2*r.block, maxItems)
		r.items = make([]result, r.block)
	}
	n := len(prefix) + len(key)
	if cap(r.keys)-len(r.keys) < n {
		r.keys = make([]byte, 0, max(n, min(2*cap(r.keys), maxKeys)))
	}
	end := len(r.keys)
	return &r.items[0], pending.AppendKey(r.keys[end:end:end+n], prefix, key)
}

// markUsed marks what scratchItem returned as used, until the transaction ends.
func (t *transaction) markUsed(r *result, stored []byte) {
	if r == &t.first {
		t.taken = true
		return
	}
	m := t.more
	m.items, m.keys = m.items[1:], m.keys[:len(m.keys)+len(stored)]
}
