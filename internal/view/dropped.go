package view

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// What a dropped keyspace has left behind is estimated once, for each run that exists then:
// later runs have nothing of it. What is in the memtable is estimated when the store is idle,
// because counting sorts the memtable, and a caller that drops a keyspace should not wait for
// that.

// WeighDropped estimates what is left of a keyspace.
func (s *Set) WeighDropped(id entry.KeyspaceID) {
	hold, err := s.Hold()
	if err != nil {
		return // closed: the next Open does it
	}
	defer hold.Release()
	addDropped(hold.View().Runs, entry.AppendKeyspace(nil, id), entry.AfterKeyspace(id))
}

// WeighAllDropped estimates what runs have of all keyspaces that were dropped.
func WeighAllDropped(runs []*Run, l *layout.Layout) {
	eachDropped(l, func(lo, hi []byte) { addDropped(runs, lo, hi) })
}

// eachDropped calls fn for the ranges of stored keys that are of dropped keyspaces.
func eachDropped(layout *layout.Layout, fn func(lo, hi []byte)) {
	next := uint64(entry.DefaultKeyspace) + 1 // the first that may be
	gap := func(end uint64) {
		if next < end {
			fn(entry.AppendKeyspace(nil, entry.KeyspaceID(next)), entry.AfterKeyspace(entry.KeyspaceID(end-1)))
		}
		next = end + 1
	}
	for _, k := range layout.Keyspaces() {
		gap(uint64(k.ID))
	}
	gap(layout.NextKeyspace())
}

func addDropped(runs []*Run, lo, hi []byte) {
	for _, r := range runs {
		r.Dropped.Add(r.EstimateBytes(lo, hi))
	}
}

// DroppedFrom estimates what a memtable has of keyspaces that were dropped.
func (s *Set) DroppedFrom(m *Table) (n uint64) {
	hold, err := s.Hold()
	if err != nil {
		return 0 // closed
	}
	defer hold.Release()
	if m.Len() == 0 || !slices.Contains(hold.View().Tables, m) {
		return 0
	}
	// Size sorts the memtable: that is why this waits until the store is idle.
	eachDropped(hold.View().Layout, func(lo, hi []byte) {
		_, inline, separated := m.Size(lo, hi)
		n += inline + separated
	})
	return n
}

// DroppedBytes is what policy wants to know of dropped keyspaces: bytes in runs.
func (v *View) DroppedBytes() map[layout.RunID]uint64 {
	left := make(map[layout.RunID]uint64)
	for _, r := range v.Runs {
		if n := r.Dropped.Load(); n > 0 {
			left[r.ID] = uint64(n)
		}
	}
	return left
}
