package brock

import (
	"bytes"
	"iter"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/internal/txn/scan"
)

// IteratorOptions says which items of its Txn's keyspace an Iterator walks, and how. The
// zero value walks all keys forward. Bounds and prefix are copied.
type IteratorOptions struct {
	Lower, Upper []byte                           // only keys in [Lower, Upper); nil = no bound
	Prefix       []byte                           // only keys that begin with Prefix
	Reverse      bool                             // walk from the greatest key to the least
	KeysOnly     bool                             // read no value before Item.Value asks for it
	Prefetch     int                              // separated values to read ahead, at most 1024; 0 = as many as earlier scans have used; <0 = none
	Limit        int                              // end this many items after Rewind or Seek; 0 = no limit
	AllVersions  bool                             // all retained versions and deletes of each key, newest first (with Reverse: last)
	Since        uint64                           // only items whose version is greater
	Untracked    bool                             // what it walks does not count as read: a Serializable update has no conflict over it, so what it writes must not depend on it
	Filter       func(key []byte, meta byte) bool // only items for which it returns true; called before a value is read, also for keys that are read ahead; each key that it is called for counts as read, unless Untracked; it must not move or close the iterator, nor end an update transaction: that changes nothing, and the move that has called it ends with ErrInvalid
}

// DefaultIteratorOptions is the zero IteratorOptions. Programs written for Badger
// use the name.
var DefaultIteratorOptions = IteratorOptions{}

func (o *IteratorOptions) validateIterator() error {
	switch {
	case o.Limit < 0:
		return &OptionError{Field: "Limit", Reason: "is negative"}
	case o.Prefetch > scan.MaxPrefetch:
		return &OptionError{Field: "Prefetch", Reason: "is above 1024"}
	}
	return nil
}

// Iterator walks the keys that its transaction sees, in order. It sees the writes
// that the transaction itself made before the last Rewind or Seek. It is used by one
// goroutine at a time. A new Iterator is at no item. End it by Close.
type Iterator struct {
	txn      *transaction // nil in a zero Iterator
	keyspace *Keyspace    // whose keys it walks
	scan     *scan.Scan   // nil: it was closed, or could not begin
	reverse  bool         // Next moves to lesser keys
	tracks   bool         // the txn is serializable, and the iterator not Untracked: what is covered counts as read
	plain    bool         // no limit, filter or context: Next may take its fast path

	item     Item                             // the current item
	filter   func(key []byte, meta byte) bool // of the user; nil: none
	asking   bool                             // the filter is being called
	valid    bool                             // it is at an item
	backward bool                             // the last move went to a lesser key
	limit    int                              // IteratorOptions.Limit; 0: none
	left     int                              // items of limit that are left
	err      error                            // the error that stopped the iterator; nil at the end
	covered  scan.Span                        // range of keys walked since the last seek
	scratch  []byte                           // stored form of the key of the last Seek

	firstScratch [32]byte // first memory of scratch, so that a short key allocates nothing
	firstBounds  [80]byte // first memory of the bounds of the scan

	next, prev *Iterator // in the transaction's list of open iterators
	orphan     *orphan   // what it holds once its transaction has ended; guarded by the transaction's mu
}

// NewIterator returns an iterator over what the transaction sees. Close it. If it can't begin,
// as for invalid options, it is at no item, and Err returns the reason.
func (t *Txn) NewIterator(o IteratorOptions) *Iterator {
	it := &Iterator{txn: t.transaction, keyspace: t.keyspace, reverse: o.Reverse, limit: o.Limit, filter: o.Filter}
	it.err = t.beginScan(it, &o)
	return it
}

// beginScan makes an iterator ready for its first move.
func (t *Txn) beginScan(it *Iterator, o *IteratorOptions) error {
	if err := o.validateIterator(); err != nil {
		return err
	}
	if err := t.checkAddressed(); err != nil {
		return err
	}
	lo, hi, err := t.keyspace.storedBounds(it.firstBounds[:0], o.Lower, o.Upper, o.Prefix)
	if err != nil {
		return err
	}
	c := scan.Config{
		Pin: t.pin, Lo: lo, Hi: hi, Clock: (*expiryClock)(t.transaction), At: t.at, Since: entry.Version(o.Since), All: o.AllVersions,
		Prefix: len(t.keyspace.prefix), Prefetch: o.Prefetch, KeysOnly: o.KeysOnly, Limit: o.Limit, Habit: &t.keyspace.habit,
	}
	if o.Filter != nil {
		// Not the user's function itself: it may call the iterator in the middle of a move.
		c.Filter = it.acceptsKey
	}
	if t.writes != nil {
		c.Writes = &t.writes.Writes
		// At other isolations nobody asks what was read, and a read-only transaction is serial as
		// of its version: moves need not keep the covered range.
		if it.tracks = t.isolation == Serializable && !o.Untracked; it.tracks {
			c.Shown = &it.covered
		}
	}
	it.plain = o.Limit == 0 && o.Filter == nil && (t.extra == nil || t.extra.ctx == nil)
	return t.adoptIterator(it, &c)
}

// Rewind moves to the first item in the direction of travel. Valid tells whether there is one,
// and Err why not.
func (it *Iterator) Rewind() { it.moveToKey(nil, it.reverse) }

// Seek moves to the item of key or, without one, to the next item in the direction
// of travel. With an empty key it is Rewind, also in reverse.
func (it *Iterator) Seek(key []byte) {
	if len(key) == 0 || it.scan == nil || it.refuseNested() {
		it.Rewind()
		return
	}
	if err := it.copyKey(key); err != nil {
		it.leaveItem()
		it.err = err
		return
	}
	if it.reverse {
		it.scratch = append(it.scratch, 0) // the least key that is greater
	}
	it.moveToKey(it.scratch, it.reverse)
}

// copyKey copies key into scratch, in its stored form. It has a guard, as key may lie in a
// mapped file.
func (it *Iterator) copyKey(key []byte) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	if it.scratch == nil {
		it.scratch = it.firstScratch[:]
	}
	it.scratch = pending.AppendKey(it.scratch[:0], it.keyspace.prefix, key)
	return nil
}

// moveToKey moves to the first item at or after a stored key or, with turned, to the last
// item before it; nil is the bound where the walk begins.
func (it *Iterator) moveToKey(key []byte, turned bool) {
	if it.refuseNested() || !it.mayMove() {
		return
	}
	lo, hi := it.scan.Bounds()
	if w := it.txn.writes; w != nil {
		if err := w.EachUnseen(lo, hi, it.txn.showResult); err != nil {
			it.leaveItem()
			it.err = err
			return
		}
	}
	// A seek doesn't read the keys that it jumps over: the range covered so far ends here.
	it.finishSpan()
	it.item.lent.poison()
	// The error of an earlier move is forgotten: damage in one place must not keep the user from
	// seeking past it.
	it.err, it.backward, it.left = nil, turned, it.limit
	switch {
	case key == nil && turned:
		key = hi
	case key == nil:
		key = lo
	}
	if it.tracks {
		// Before the move: the scan itself extends the range to each key that it shows to the
		// filter.
		it.covered.Begin(key, lo, hi)
	}
	it.endMove(it.scan.Seek(key, turned))
}

// Next moves to the next item in the direction of travel.
func (it *Iterator) Next() {
	if it.item.asked {
		it.leaveAsked()
	}
	// The fast path: no limit, no context and no change of direction to look at.
	if it.plain && it.valid && it.backward == it.reverse && it.isOpen() {
		it.item.lent.poison()
		if it.scan.Move(it.backward) {
			it.item.e = it.scan.Entry()
			return
		}
		it.endMove(false)
		return
	}
	it.moveChecked(it.reverse)
}

// isOpen reports whether iterator, transaction and store are open. It doesn't look at the
// context.
func (it *Iterator) isOpen() bool {
	return it.scan != nil && it.txn.active.Load() && !it.txn.db.closed.Load()
}

// Prev moves to the previous item, against the direction of travel. If the iterator
// is at no item, for instance past the end, it stays there.
func (it *Iterator) Prev() {
	if it.item.asked {
		it.leaveAsked()
	}
	it.moveChecked(!it.reverse)
}

// leaveAsked tells the scan that the item's value was read, which its readahead needs to
// know. Call it before a move.
func (it *Iterator) leaveAsked() {
	it.item.asked = false
	// If the iterator has ended, the move that follows returns the error.
	if it.valid && !it.asking && it.item.e.Separated && it.isOpen() {
		it.scan.NoteAsked()
		// NoteAsked may have begun to read ahead. Then the walk is ahead of the user, and the entry is
		// a copy elsewhere.
		it.item.placeEntry(it.txn, it.scan.Entry())
	}
}

// moveChecked moves to the next item or, with turned, to the one before.
func (it *Iterator) moveChecked(turned bool) {
	if it.refuseNested() || !it.mayMove() || !it.valid {
		return
	}
	switch {
	case it.limit == 0:
	case turned != it.reverse:
		// A step back is one more item until the limit: that bounds how far the user gets, and not
		// the number of moves.
		it.left++
	case it.left <= 1:
		// The scan does not move: what comes after the limit is not read, so it causes
		// no conflict.
		it.leaveItem()
		return
	default:
		it.left--
	}
	it.item.lent.poison()
	// The walk turns around: the covered range ends at this item, and grows on the other side.
	if turned != it.backward {
		it.coverItem()
		it.backward = turned
	}
	it.endMove(it.scan.Move(turned))
}

// endMove ends a move of the scan: with ok, the scan's entry becomes the item. Otherwise the scan
// is at the end, or at an error.
func (it *Iterator) endMove(ok bool) {
	switch {
	case it.err == errNestedMove:
		ok, it.item.e = false, nil
	case ok:
		it.item.placeEntry(it.txn, it.scan.Entry())
	default:
		// The scan has read all keys up to its bound, so these are covered, too.
		it.err = it.scan.Err()
		if it.tracks {
			lo, hi := it.scan.Bounds()
			it.covered.End(lo, hi, it.backward)
		}
		it.item.e = nil
	}
	it.valid = ok
}

// acceptsKey calls the user's filter. Meanwhile the scan is in the middle of a move, and must not
// begin another, nor end. After a filter that has tried to, the rest of the move is not filtered:
// it ends at once.
func (it *Iterator) acceptsKey(key []byte, meta byte) bool {
	if it.err == errNestedMove {
		return true
	}
	// Reset by a defer: after a filter that panics, every move and Close would be refused, and the
	// iterator could not be ended.
	it.asking = true
	defer func() { it.asking = false }()
	return it.filter(key, meta) || it.err == errNestedMove
}

// refuseNested reports whether the filter asks for a move or the end of the iterator. That is an error,
// which ends the move that has called the filter. The iterator is at no item from now on: a filter
// that moves until Valid is false must come to an end.
func (it *Iterator) refuseNested() bool {
	if it.asking {
		it.err, it.valid = errNestedMove, false
	}
	return it.asking
}

// leaveItem makes the iterator be at no item. What it has covered includes the last item.
func (it *Iterator) leaveItem() {
	if !it.mayMove() || !it.valid {
		return
	}
	it.coverItem()
	it.item.lent.poison()
	it.valid, it.item.e = false, nil
}

// coverItem extends what is covered to the item the iterator is at.
func (it *Iterator) coverItem() {
	if it.tracks {
		it.covered.Extend(it.item.e.Key, it.backward)
	}
}

// finishSpan adds the covered range to what the transaction has read, and ends it.
func (it *Iterator) finishSpan() {
	if !it.tracks || !it.covered.Active {
		return
	}
	// Up to the item and no further: what was only read ahead has not been seen, and must not
	// conflict.
	if it.valid {
		it.coverItem()
	}
	it.txn.writes.reads.AddRange(it.covered.Lo, it.covered.Hi)
	it.covered.Active = false
}

// mayMove reports whether the iterator may still read. If not, it sets err. Each move checks
// it first.
func (it *Iterator) mayMove() bool {
	if it.scan == nil {
		if it.err == nil {
			it.err = errIteratorClosed
		}
		it.valid = false
		return false
	}
	err := it.txn.checkActive()
	if err == nil {
		return true
	}
	it.err = err
	// The end of a read-only transaction leaves that to us, since only the goroutine that uses the
	// iterator may touch its scan.
	it.releaseOnce()
	return false
}

// Valid reports whether the iterator is at an item.
func (it *Iterator) Valid() bool { return it.valid }

// ValidForPrefix reports whether the iterator is at an item whose key begins with
// prefix.
func (it *Iterator) ValidForPrefix(prefix []byte) (valid bool) {
	if !it.valid {
		return false
	}
	var fault error // ignored: prefix lies in a mapped file that can't be read; not valid then
	defer pageio.Guard(pageio.Arm(), &fault, pageio.SomeFile)
	return bytes.HasPrefix(userKey(it.item.e.Key), prefix)
}

// Item returns the item that the iterator is at. It is one and the same Item after each
// move. If the iterator is at no item, Key returns nil and Value an error.
func (it *Iterator) Item() *Item { return &it.item }

// Err returns the error because of which the iterator is at no item. It is nil at an item, and at
// the end of the walk.
func (it *Iterator) Err() error { return it.err }

// Close ends the iterator and returns Err. It may be called twice. A Filter that closes its own
// iterator gets ErrInvalid, and the iterator stays open.
func (it *Iterator) Close() error {
	if !it.refuseNested() {
		it.releaseOnce()
	}
	return it.err
}

// Items yields the items that o asks for. An error is yielded last, with a nil item.
// An item is valid until the next one is yielded.
func (t *Txn) Items(o IteratorOptions) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		it := t.NewIterator(o)
		// A loop may be left by break or panic, and its transaction may live long: the sources
		// would stay open until its end.
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if !yield(&it.item, nil) {
				return
			}
		}
		if it.err != nil {
			yield(nil, it.err)
		}
	}
}

// All yields all items in the order of keys.
func (t *Txn) All() iter.Seq2[*Item, error] { return t.Items(IteratorOptions{}) }

// Prefix yields the items whose keys begin with p.
func (t *Txn) Prefix(p []byte) iter.Seq2[*Item, error] { return t.Items(IteratorOptions{Prefix: p}) }

// Range yields the items with keys in [lo, hi); nil is no bound.
func (t *Txn) Range(lo, hi []byte) iter.Seq2[*Item, error] {
	return t.Items(IteratorOptions{Lower: lo, Upper: hi})
}

// Versions yields the retained versions of key, newest first. They include deletes
// (Item.Deleted) and expired entries that were not yet removed (Item.ExpiresAt). A
// write of this transaction comes first.
func (t *Txn) Versions(key []byte) iter.Seq2[*Item, error] {
	err := checkKey(key)
	if err == nil {
		key, err = cloneKey(key)
	}
	if err != nil {
		return func(yield func(*Item, error) bool) { yield(nil, err) }
	}
	// No key lies between key and key with a zero byte behind it, so the range holds this key
	// alone.
	return t.Items(IteratorOptions{Lower: key, Upper: append(bytes.Clone(key), 0), AllVersions: true})
}
