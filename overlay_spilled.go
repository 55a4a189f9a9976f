package brock

import (
	"bytes"
	"sort"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/iterator"
)

// spilledSide is the pending writes of an overlay when some are in files: a merge
// of those in memory and those in files, within the overlay's bounds.
type spilledSide struct {
	src    iterator.Iterator
	at     bool // src is at an entry within the bounds
	lo, hi []byte

	memory *pending // what src was made of
	recs   int
	spills int

	look iterator.Iterator // of the same, for has; nil without marks
}

// refresh returns a side that has all that is written; s may be nil. With marks
// it can be asked for what it has.
func (s *spilledSide) refresh(w *writes, lo, hi []byte, marks bool) *spilledSide {
	if s != nil && s.memory == w.pending && s.recs == len(w.recs) && s.spills == w.spills {
		return s
	}
	all := func() iterator.Iterator {
		return iterator.Merge(append([]iterator.Iterator{&pendingIterator{memory: w.pending, order: w.order(), i: -1}}, w.spill.Iterators(w.ranges)...))
	}
	s = &spilledSide{src: all(), lo: lo, hi: hi, memory: w.pending, recs: len(w.recs), spills: w.spills}
	if marks {
		s.look = all()
	}
	return s
}

// err says what could not be read.
func (s *spilledSide) err() error {
	if s.look != nil && s.look.Err() != nil {
		return s.look.Err()
	}
	return s.src.Err()
}

// has reports whether there is a pending write of the stored key.
func (s *spilledSide) has(key []byte) bool {
	return s.look.SeekGE(key) && bytes.Equal(s.look.Entry().Key, key)
}

func (s *spilledSide) seekGE(key []byte) {
	if bytes.Compare(key, s.lo) < 0 {
		key = s.lo
	}
	s.bound(s.src.SeekGE(key))
}

func (s *spilledSide) seekLT(key []byte) {
	if bytes.Compare(key, s.hi) > 0 {
		key = s.hi
	}
	s.bound(s.src.SeekLT(key))
}

// move moves on, from beyond the end that it has run into back to the other side.
func (s *spilledSide) move(reverse bool) {
	switch {
	case !s.at && reverse:
		s.seekLT(s.hi)
	case !s.at:
		s.seekGE(s.lo)
	case reverse:
		s.bound(s.src.Prev())
	default:
		s.bound(s.src.Next())
	}
}

// bound takes up where src is; ok says that it is at an entry.
func (s *spilledSide) bound(ok bool) {
	s.at = ok
	if ok {
		key := s.src.Entry().Key
		s.at = bytes.Compare(key, s.lo) >= 0 && bytes.Compare(key, s.hi) < 0
	}
}

// fill makes e the entry of the write that it is at, if there is one.
func (s *spilledSide) fill(e *entry.Entry) bool {
	if s.at {
		*e = *s.src.Entry()
	}
	return s.at
}

// pendingIterator walks the pending writes in memory as of when it was made.
type pendingIterator struct {
	memory *pending
	order  []uint32
	i      int
	entry  entry.Entry
}

func (it *pendingIterator) to(i int) bool {
	it.i = min(max(i, -1), len(it.order))
	if it.i < 0 || it.i == len(it.order) {
		return false
	}
	it.memory.fill(int(it.order[it.i]), &it.entry)
	return true
}

func (it *pendingIterator) from(key []byte) int {
	return sort.Search(len(it.order), func(i int) bool { return bytes.Compare(it.memory.record(int(it.order[i])).Key, key) >= 0 })
}

func (it *pendingIterator) First() bool            { return it.to(0) }
func (it *pendingIterator) Last() bool             { return it.to(len(it.order) - 1) }
func (it *pendingIterator) SeekGE(key []byte) bool { return it.to(it.from(key)) }
func (it *pendingIterator) SeekLT(key []byte) bool { return it.to(it.from(key) - 1) }
func (it *pendingIterator) Entry() *entry.Entry    { return &it.entry }
func (it *pendingIterator) Err() error             { return nil }
func (it *pendingIterator) Close()                 {}

// Next and Prev stay where there is no entry.
func (it *pendingIterator) Next() bool {
	return it.i >= 0 && it.i < len(it.order) && it.to(it.i+1)
}

func (it *pendingIterator) Prev() bool {
	return it.i >= 0 && it.i < len(it.order) && it.to(it.i-1)
}

func (it *pendingIterator) SkipGE([]byte, entry.Version) bool { return it.Next() }
func (it *pendingIterator) SkipLT([]byte, entry.Version) bool { return it.Prev() }
