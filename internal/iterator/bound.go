package iterator

import (
	"bytes"

	"github.com/brockdb/brock/internal/entry"
)

// Bound walks the entries of src, which it owns from now on, whose keys are in
// [lo, hi). A nil bound is none; the bounds are not copied.
func Bound(src Iterator, lo, hi []byte) Iterator {
	if lo == nil && hi == nil {
		return src
	}
	return &bound{src: src, lo: lo, hi: hi}
}

type bound struct {
	src    Iterator
	lo, hi []byte
	at     bool // at an entry
	asked  bool // src made the last move, so its Err is ours
}

func (b *bound) First() bool {
	if b.lo == nil {
		return b.below(b.src.First())
	}
	return b.SeekGE(b.lo)
}

func (b *bound) Last() bool {
	if b.hi == nil {
		return b.above(b.src.Last())
	}
	return b.SeekLT(b.hi)
}

func (b *bound) SeekGE(key []byte) bool {
	if bytes.Compare(key, b.lo) < 0 {
		key = b.lo
	}
	if b.hi != nil && bytes.Compare(key, b.hi) >= 0 {
		b.at, b.asked = false, false
		return false
	}
	return b.below(b.src.SeekGE(key))
}

func (b *bound) SeekLT(key []byte) bool {
	if b.hi != nil && bytes.Compare(key, b.hi) > 0 {
		key = b.hi
	}
	if bytes.Compare(key, b.lo) <= 0 {
		b.at, b.asked = false, false
		return false
	}
	return b.above(b.src.SeekLT(key))
}

func (b *bound) Next() bool { return b.at && b.below(b.src.Next()) }

func (b *bound) Prev() bool { return b.at && b.above(b.src.Prev()) }

// below ends a move forward: ok if the entry is before hi.
func (b *bound) below(ok bool) bool {
	b.asked = true
	b.at = ok && (b.hi == nil || bytes.Compare(b.src.Entry().Key, b.hi) < 0)
	return b.at
}

// above ends a move backward: ok if the entry is not before lo.
func (b *bound) above(ok bool) bool {
	b.asked = true
	b.at = ok && bytes.Compare(b.src.Entry().Key, b.lo) >= 0
	return b.at
}

func (b *bound) Entry() *entry.Entry { return b.src.Entry() }

func (b *bound) Err() error {
	if !b.asked {
		return nil
	}
	return b.src.Err()
}

func (b *bound) Close() {
	b.at = false
	b.src.Close()
}
