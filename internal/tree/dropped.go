package tree

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/pageio"
)

// What a dropped keyspace has left behind is estimated once, for each memtable
// and run there is: those made later have nothing of it. So the estimate need
// not be good, and is never asked for twice.

// noteDropped estimates what is left of the keyspaces from one number to another.
func (t *Tree) noteDropped(first, last entry.KeyspaceID) {
	hold, err := t.hold()
	if err != nil {
		return // closed: the next Open does it
	}
	defer hold.Release()
	noteDropped(hold.view.tables, hold.view.runs, entry.AppendKeyspace(nil, first), entry.AfterKeyspace(last))
}

// noteDroppedBefore estimates what is left of all keyspaces that were dropped.
func (t *Tree) noteDroppedBefore() {
	v := t.views.current.Load()
	eachDropped(v.layout, func(lo, hi []byte) { noteDropped(v.tables, v.runs, lo, hi) })
}

// eachDropped calls fn for the ranges of stored keys that are of dropped keyspaces.
func eachDropped(layout *manifest.Layout, fn func(lo, hi []byte)) {
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

func noteDropped(tables []*table, runs []*sortedRun, lo, hi []byte) {
	for _, m := range tables {
		if n, _ := m.Size(lo, hi); n > 0 {
			part := float64(n) / float64(max(m.Len(), 1))
			m.dropped.Add(int64(part * float64(m.bytes.Load()+m.separatedBytes.Load())))
		}
	}
	for _, r := range runs {
		r.dropped.Add(r.leftBy(lo, hi))
	}
}

// leftBy estimates the bytes that a range has; 0 if it can't be told.
func (r *sortedRun) leftBy(lo, hi []byte) (n int64) {
	var fault error
	defer pageio.Guard(pageio.Arm(), &fault, mapped)
	_, size, separated := r.Size(lo, hi)
	return int64(size + separated)
}

// dropped is what policy wants to know of dropped keyspaces.
func (t *Tree) dropped() map[manifest.RunID]uint64 {
	var left map[manifest.RunID]uint64
	for _, r := range t.views.current.Load().runs {
		if n := r.dropped.Load(); n > 0 {
			if left == nil {
				left = make(map[manifest.RunID]uint64)
			}
			left[r.id] = uint64(n)
		}
	}
	return left
}
