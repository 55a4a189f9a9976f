package view

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// NoteEmptied notes an emptied range: an iterator at the Pin's version has found nothing visible
// in [lo, hi), and only because of deletes (not of expiry, say). Later iterators skip the
// range. lo and hi are copied.
func (p *Pin) NoteEmptied(lo, hi []byte) {
	r := rangedel.Emptied(bytes.Clone(lo), bytes.Clone(hi), p.version)
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	p.view.noteEmptied(r)
	if now := p.set.current.Load(); now != p.view {
		now.noteEmptied(r)
	}
}

// ForgetEmptied forgets emptied ranges in which the current View has few entries left, as after a
// compaction that has dropped the deleted ones.
func (s *Set) ForgetEmptied() {
	hold, err := s.Hold()
	if err != nil {
		return // closed
	}
	defer hold.Release()
	v := hold.View()
	was := v.emptied.Load()
	if was == nil {
		return
	}
	remain := rangedel.EmptiedSet(slices.DeleteFunc(was.All(), func(r rangedel.Delete) bool { return v.EstimateEntries(r.Lo, r.Hi) < fewEntries })...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Load().emptied.CompareAndSwap(was, remain) // unless others were noted meanwhile
}
