package view

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/emptied"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/memtable"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

var _ emptied.Source = (*View)(nil)

// Memtables returns the memtables of all Tables, newest first.
func (v *View) Memtables() []*memtable.Table {
	tables := make([]*memtable.Table, len(v.Tables))
	for i, t := range v.Tables {
		tables[i] = t.Table
	}
	return tables
}

// RunsUpTo is the greatest version of an entry in a run.
func (v *View) RunsUpTo() (upTo entry.Version) {
	for _, r := range v.Runs {
		upTo = max(upTo, r.MaxVersion())
	}
	return upTo
}

// Below returns an iterator over everything older than the i-th memtable, and the cover of
// range deletes and emptied ranges up to a version, which hide parts of it. A pageio.Guard
// must be on while the iterator moves.
func (v *View) Below(i int, upTo entry.Version) (iterator.Iterator, *rangedel.Cover) {
	older := &View{Tables: v.Tables[i+1:], Runs: v.Runs}
	older.Known.Inherit(&v.Known)
	return older.Iterator(), older.Cover(upTo, true)
}

// Emptied notes an emptied range: an iterator at the Pin's version has found nothing visible in
// [lo, hi), and only because of deletes (not of expiry, say). Later iterators skip the range. lo
// and hi are copied.
func (p *Pin) Emptied(lo, hi []byte) {
	r := rangedel.Emptied(bytes.Clone(lo), bytes.Clone(hi), p.version)
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	// In the current View, too: the next iterators will use that one. It holds nothing older than
	// what the iterator has seen.
	p.view.Known.Note(r)
	if now := p.set.current.Load(); now != p.view {
		now.Known.Note(r)
	}
}

// Learn changes the emptied ranges of the current View.
func (s *Set) Learn(c emptied.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Load().Known.Apply(c)
}
