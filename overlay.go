package brock

import (
	"bytes"
	"sort"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tombstone"
)

// overlay shows a transaction's pending writes over a walk of the store, in key
// order. A pending write hides what the store has of its key; with all it is
// shown before that, as the newest version, and hides nothing.
//
// Going forward, whichever of the two sides is not current is at its first
// entry after the current one, or past its end; going back, the mirror of it.
type overlay struct {
	*walk
	writes *writes
	cover  *tombstone.Cover // of the store alone
	memory *pending         // those in memory as of the last refresh
	order  []uint32         // of these, what is within the bounds
	i      int              // position in order, from -1 to its length
	files  *spilledSide     // instead of order and i, once there are writes in files

	current *entry.Entry
	mine    bool // current is the pending write at i
	reverse bool
	pending entry.Entry
}

// refresh takes up what was written since the last time; a seek must follow.
func (o *overlay) refresh() {
	o.memory = o.writes.pending
	o.memory.lent = true
	if o.writes.ranges != nil {
		o.walk.setCover(o.cover.WithPending(o.writes.ranges))
	}
	if o.writes.spill != nil {
		o.files = o.files.refresh(o.writes, o.lo, o.hi, o.walk.marks != nil)
		return
	}
	all := o.memory.order()
	from := sort.Search(len(all), func(i int) bool { return bytes.Compare(o.pendingKey(all[i]), o.lo) >= 0 })
	to := sort.Search(len(all), func(i int) bool { return bytes.Compare(o.pendingKey(all[i]), o.hi) >= 0 })
	o.order = all[from:max(from, to)]
}

func (o *overlay) pendingKey(rec uint32) []byte { return o.memory.record(int(rec)).Key }

// from is the first index in order whose key is key or greater.
func (o *overlay) from(key []byte) int {
	return sort.Search(len(o.order), func(i int) bool { return bytes.Compare(o.pendingKey(o.order[i]), key) >= 0 })
}

// has reports whether there is a pending write of the stored key.
func (o *overlay) has(key []byte) bool {
	if o.files != nil {
		return o.files.has(key)
	}
	i := o.from(key)
	return i < len(o.order) && bytes.Equal(o.pendingKey(o.order[i]), key)
}

func (o *overlay) seekGE(key []byte) bool {
	o.reverse = false
	if o.files != nil {
		o.files.seekGE(key)
	} else {
		o.i = o.from(key)
	}
	o.walk.seekGE(key)
	return o.pick()
}

func (o *overlay) seekLT(key []byte) bool {
	o.reverse = true
	if o.files != nil {
		o.files.seekLT(key)
	} else {
		o.i = o.from(key) - 1
	}
	o.walk.seekLT(key)
	return o.pick()
}

func (o *overlay) next() bool { return o.step(false) }
func (o *overlay) prev() bool { return o.step(true) }

func (o *overlay) step(reverse bool) bool {
	if o.current == nil {
		return false
	}
	if reverse != o.reverse {
		o.turn()
	}
	if o.mine {
		o.moveMine()
	} else {
		o.moveStore()
	}
	return o.pick()
}

// turn changes the direction: the side that is not current goes to the other
// side of the current entry.
func (o *overlay) turn() {
	o.reverse = !o.reverse
	if !o.mine {
		o.moveMine()
		return
	}
	if o.walk.entry == nil {
		if o.reverse {
			o.walk.last()
		} else {
			o.walk.first()
		}
	} else {
		o.moveStore()
	}
	o.skipHidden()
}

func (o *overlay) moveMine() {
	switch {
	case o.files != nil:
		o.files.move(o.reverse)
	case o.reverse:
		o.i--
	default:
		o.i++
	}
}

// fillMine makes pending the write that its side is at, and reports whether there is one.
func (o *overlay) fillMine() bool {
	if o.files != nil {
		return o.files.fill(&o.pending)
	}
	if o.i < 0 || o.i >= len(o.order) {
		return false
	}
	o.memory.fill(int(o.order[o.i]), &o.pending)
	return true
}

// err says why a move failed, nil at the end.
func (o *overlay) err() error {
	if o.files != nil && o.files.err() != nil {
		return o.files.err()
	}
	return o.walk.src.Err()
}

func (o *overlay) moveStore() {
	if o.reverse {
		o.walk.prev()
	} else {
		o.walk.next()
	}
}

// skipHidden moves the store past the key of the current pending write.
func (o *overlay) skipHidden() {
	if !o.all && o.walk.entry != nil && bytes.Equal(o.walk.entry.Key, o.pending.Key) {
		o.moveStore()
	}
}

// pick makes the nearer side current.
func (o *overlay) pick() bool {
	for {
		haveMine := o.fillMine()
		if o.walk.entry == nil && (!haveMine || o.walk.src.Err() != nil) || o.files != nil && o.err() != nil {
			o.current = nil
			return false
		}
		if !haveMine || o.walk.entry != nil && !o.mineFirst() {
			o.current, o.mine = o.walk.entry, false
			return true
		}
		o.skipHidden()
		if o.all || o.pending.Kind != entry.Delete && o.pending.Live(o.now()) {
			o.current, o.mine = &o.pending, true
			return true
		}
		o.moveMine()
	}
}

func (o *overlay) now() uint64 {
	if o.pending.Expires == 0 {
		return 0
	}
	return o.txn.now()
}

// mineFirst reports whether the pending write comes before the store's entry in
// the direction of travel, or hides it.
func (o *overlay) mineFirst() bool {
	c := bytes.Compare(o.pending.Key, o.walk.entry.Key)
	switch {
	case c == 0:
		return !o.all || !o.reverse
	case o.reverse:
		return c > 0
	}
	return c < 0
}
