package brock

import (
	"bytes"
	"iter"
	"math"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/pending"
)

// IteratorOptions bounds and shapes an iteration over the keyspace that its Txn
// addresses. The zero value walks every key of that forward. Bounds and prefix are copied.
type IteratorOptions struct {
	Lower, Upper []byte                           // keys in [Lower, Upper); nil = open
	Prefix       []byte                           // and with this prefix
	Reverse      bool                             // from the greatest key to the least
	KeysOnly     bool                             // never read a value, unless Item.Value asks for it
	Prefetch     int                              // separated values read ahead; 0 = as many as pays, none if few are asked for; <0 = none
	Limit        int                              // stop after this many items from Rewind or Seek; 0 = never
	AllVersions  bool                             // every retained version and delete, newest first (in Reverse: last)
	Since        uint64                           // only items of versions after this
	Filter       func(key []byte, meta byte) bool // only items it accepts; the value is not read for it
}

// DefaultIteratorOptions is the zero IteratorOptions.
var DefaultIteratorOptions = IteratorOptions{}

func (o *IteratorOptions) validate() error {
	switch {
	case o.Limit < 0:
		return &OptionError{Field: "Limit", Reason: "is negative"}
	case o.Prefetch > maxPrefetch:
		return &OptionError{Field: "Prefetch", Reason: "is above 1024"}
	}
	return nil
}

// bounds are the stored bounds in a keyspace.
func (o *IteratorOptions) bounds(s *space) (lo, hi []byte) {
	lo, hi = s.bounds(o.Lower, o.Upper)
	if len(o.Prefix) > 0 {
		lo, hi = s.within(o.Prefix, lo, hi)
	}
	return lo, hi
}

// Iterator walks keys in order, each with what its transaction sees of it: the
// transaction's own writes too, up to the last Rewind or Seek. It is used by one
// goroutine at a time, and ended by Close. A new Iterator is at no item.
type Iterator struct {
	txn    *transaction // nil in a zero Iterator
	space  *space
	opts   IteratorOptions
	walk   walk
	tracks bool // what is covered counts as read
	plain  bool // nothing stands between walk and item: Next may take the short way

	item    Item
	valid   bool
	turned  bool // the last move went backward, in keys
	left    int  // of Limit
	err     error
	covered span
	filters bool    // the filter is being called
	window  *window // values read ahead, if asked for, or if jumps are many
	jumps   jumps
	asked   int32 // item.fetched when it was looked at last
	far     int32 // values that a window would have helped with; below zero: not yet
	scratch []byte

	firstKey, firstScratch [32]byte // where walk.key and scratch begin

	closed     atomic.Bool
	next, prev *Iterator // in the transaction's list of open iterators
	listed     bool
	orphan     *orphan
}

// NewIterator returns an iterator of what the transaction sees. Close it.
func (t *Txn) NewIterator(o IteratorOptions) *Iterator {
	it := &Iterator{txn: t.transaction, space: t.space, opts: o}
	if it.err = o.validate(); it.err == nil {
		it.err = t.usable()
	}
	if it.err != nil || !t.adopt(it) {
		it.closed.Store(true)
		return it
	}
	w := &it.walk
	w.key = it.firstKey[:0]
	w.txn, w.at, w.since, w.all = t.transaction, t.at, min(entry.Version(o.Since), entry.MaxVersion), o.AllVersions
	w.lo, w.hi = o.bounds(t.space)
	w.store, w.storeCover = t.pin.Iterator(), t.pin.Cover(!w.all)
	w.source(nil, w.storeCover)
	it.tracks = t.writes != nil && t.isolation == Serializable
	if o.Prefetch > 0 && !o.KeysOnly {
		it.window = newWindow(it, o.Prefetch)
	}
	if o.Prefetch != 0 || o.KeysOnly {
		it.far = math.MinInt32 // never adapts
	}
	it.plain = it.isPlain()
	return it
}

func (it *Iterator) isPlain() bool {
	return it.window == nil && it.opts.Filter == nil && it.opts.Limit == 0 && it.txn.ctx() == nil
}

// Rewind moves to the first item in the direction of travel.
func (it *Iterator) Rewind() {
	if it.opts.Reverse {
		it.position(it.walk.hi, true)
	} else {
		it.position(it.walk.lo, false)
	}
}

// Seek moves to the first item whose key is key or comes after it in the
// direction of travel. An empty key is Rewind.
func (it *Iterator) Seek(key []byte) {
	if len(key) == 0 || it.txn == nil || it.closed.Load() {
		it.Rewind()
		return
	}
	if it.scratch == nil {
		it.scratch = it.firstScratch[:]
	}
	it.scratch = pending.AppendKey(it.scratch[:0], it.space.prefix, key)
	if it.opts.Reverse {
		it.scratch = append(it.scratch, 0) // the least key that is greater
	}
	it.position(it.scratch, it.opts.Reverse)
}

// position moves to the first item from the stored key on or, with turned, to
// the last before it.
func (it *Iterator) position(key []byte, turned bool) {
	if !it.usable() {
		return
	}
	it.finishSpan()
	it.item.lent.poison()
	it.err, it.turned, it.left = nil, turned, it.opts.Limit
	if it.tracks {
		it.covered.begin(key, it.walk.lo, it.walk.hi)
	}
	if w := it.txn.writes; w != nil {
		it.walk.refresh(&w.Writes)
	}
	ok := it.seekRaw(key, turned)
	if it.window != nil {
		ok = it.window.begin(ok, turned)
	}
	it.land(ok)
}

// Next moves to the next item in the direction of travel.
func (it *Iterator) Next() {
	if it.item.fetched != it.asked {
		it.passed()
	}
	if it.plain && it.valid && it.turned == it.opts.Reverse && it.open() {
		it.item.lent.poison()
		if it.step() {
			it.item.e = it.walk.entry
			return
		}
		it.land(false)
		return
	}
	if it.valid && it.opts.Limit > 0 {
		if it.left--; it.left <= 0 {
			it.leave()
			return
		}
	}
	it.move(it.opts.Reverse)
}

// open is usable for a transaction without a context.
func (it *Iterator) open() bool {
	return !it.closed.Load() && it.txn.state.Load() == txnOpen && !it.txn.db.closed.Load()
}

// mapped is the file that a memory fault is blamed on where nothing below
// knows better.
const mapped = "a mapped file"

// step moves the walk on in the direction of the last move.
func (it *Iterator) step() bool {
	defer pageio.Guard(pageio.Arm(), &it.err, mapped)
	switch w := &it.walk; {
	case it.turned:
		return w.prev()
	case w.backward:
		return w.next()
	default:
		return w.forwards(w.src.Next())
	}
}

// Prev moves to the item before, against the direction of travel. At no item,
// also past the end, it stays there.
func (it *Iterator) Prev() {
	if it.item.fetched != it.asked {
		it.passed()
	}
	if it.valid && it.opts.Limit > 0 {
		it.left++
	}
	it.move(!it.opts.Reverse)
}

func (it *Iterator) move(turned bool) {
	if !it.usable() || !it.valid {
		return
	}
	it.item.lent.poison()
	if turned != it.turned {
		it.cover()
		it.turned = turned
	}
	if w := it.window; w != nil {
		if w.adaptive && w.idle() {
			it.land(it.unadapt(turned))
		} else {
			it.land(w.move(turned))
		}
		return
	}
	it.land(it.moveRaw(turned))
}

// seekRaw moves the sources to the first entry that the filter accepts, from the
// stored key on or, turned, before it.
func (it *Iterator) seekRaw(key []byte, turned bool) bool {
	return it.accepted(it.seekSources(key, turned), turned)
}

// moveRaw moves the sources to the next entry that the filter accepts.
func (it *Iterator) moveRaw(turned bool) bool {
	return it.accepted(it.moveSources(turned), turned)
}

// accepted moves on while the filter refuses what the sources are at.
func (it *Iterator) accepted(ok, turned bool) bool {
	if it.opts.Filter == nil {
		return ok
	}
	for ok {
		e := it.raw()
		it.filters = true
		accepted := it.opts.Filter(userKey(e.Key), e.Meta)
		it.filters = false
		if accepted {
			return !it.closed.Load() // the filter may have ended the transaction
		}
		ok = !it.closed.Load() && it.moveSources(turned)
	}
	return false
}

func (it *Iterator) seekSources(key []byte, turned bool) (ok bool) {
	defer pageio.Guard(pageio.Arm(), &it.err, mapped)
	if turned {
		return it.walk.seekLT(key)
	}
	return it.walk.seekGE(key)
}

func (it *Iterator) moveSources(turned bool) (ok bool) {
	defer pageio.Guard(pageio.Arm(), &it.err, mapped)
	if turned {
		return it.walk.prev()
	}
	return it.walk.next()
}

// raw is the entry that the sources are at.
func (it *Iterator) raw() *entry.Entry { return it.walk.entry }

// land makes what a move came to the item; ok says that there is something.
func (it *Iterator) land(ok bool) {
	switch {
	case ok && it.window != nil:
		it.window.show(&it.item)
	case ok:
		it.item.place(it.txn, it.raw())
	case it.closed.Load():
	default:
		if it.err == nil {
			it.err = it.walk.src.Err()
		}
		if it.tracks {
			it.covered.end(it.walk.lo, it.walk.hi, it.turned)
		}
		it.item.e, it.item.ahead = nil, nil
	}
	it.valid = ok
}

// leave ends the walk at the item it is at, for Limit.
func (it *Iterator) leave() {
	if !it.usable() {
		return
	}
	it.cover()
	it.item.lent.poison()
	it.valid, it.item.e, it.item.ahead = false, nil, nil
}

// usable checks before every move that the iterator may still read.
func (it *Iterator) usable() bool {
	if it.txn == nil || it.closed.Load() {
		if it.err == nil {
			it.err = errIteratorClosed
		}
		it.valid = false
		return false
	}
	err := it.txn.usable()
	if err == nil {
		return true
	}
	it.err = err
	it.release()
	return false
}

// Valid reports whether the iterator is at an item.
func (it *Iterator) Valid() bool { return it.valid && !it.closed.Load() }

// ValidForPrefix reports whether it is at an item whose key begins with prefix.
func (it *Iterator) ValidForPrefix(prefix []byte) bool {
	return it.Valid() && bytes.HasPrefix(it.item.Key(), prefix)
}

// Item is the item the iterator is at, valid until the next move. At no item
// its value is an error and its key nil.
func (it *Iterator) Item() *Item { return &it.item }

// Err says why Valid turned false: nil at the end.
func (it *Iterator) Err() error { return it.err }

// Close ends the iterator and returns Err. It is safe twice.
func (it *Iterator) Close() error {
	err := it.err
	it.release()
	return err
}

// Items yields the items that o asks for. An error comes last, with a nil item.
// An item is valid until the next is asked for.
func (t *Txn) Items(o IteratorOptions) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		it := t.NewIterator(o)
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

// All yields every item, in the order of keys.
func (t *Txn) All() iter.Seq2[*Item, error] { return t.Items(IteratorOptions{}) }

// Prefix yields the items whose keys begin with p.
func (t *Txn) Prefix(p []byte) iter.Seq2[*Item, error] { return t.Items(IteratorOptions{Prefix: p}) }

// Range yields the items with keys in [lo, hi); nil is open.
func (t *Txn) Range(lo, hi []byte) iter.Seq2[*Item, error] {
	return t.Items(IteratorOptions{Lower: lo, Upper: hi})
}

// Versions yields the retained versions of key, newest first, deletes included, and
// what has expired as long as it is there (Item.ExpiresAt); a write of this
// transaction comes before them.
func (t *Txn) Versions(key []byte) iter.Seq2[*Item, error] {
	if err := checkKey(key); err != nil {
		return func(yield func(*Item, error) bool) { yield(nil, err) }
	}
	return t.Items(IteratorOptions{Lower: key, Upper: append(bytes.Clone(key), 0), AllVersions: true})
}
