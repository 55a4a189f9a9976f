package policy

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
)

// Unclustered says which segments hold values in the order of their arrival, so that a scan
// in key order jumps among them, and how much scans must jump before clustering is worth it.
type Unclustered struct {
	Segments []entry.FileNum // ascending
	// Price is how many bytes of them scans must have jumped to before the next
	// clustering is worth its work; Whole is the price of all that are to come.
	// Both are 0 if nothing is unclustered.
	Price, Whole uint64
}

// FindUnclustered returns which of a layout's segments are unclustered.
func FindUnclustered(l *layout.Layout, s State, o Options) Unclustered {
	u, _ := unclustered(l, s, o.withDefaults())
	return u
}

// clustering chooses a compaction of all runs that also moves values into key
// order; nil if scans have not jumped enough to make it worth it.
func (v *survey) clustering() *Compaction {
	if !v.state.Idle || v.state.JumpedBytes == 0 {
		return nil
	}
	u, batch := unclustered(v.layout, v.state, v.options)
	if u.Price == 0 || v.state.JumpedBytes < u.Price {
		return nil
	}
	c := compact(v.layout.Runs(), layout.Base, "scans jump")
	c.Cluster, c.Price = batch, u.Price
	return c
}

// unclustered also chooses the segments that the next clustering moves.
func unclustered(l *layout.Layout, s State, o Options) (u Unclustered, batch []entry.FileNum) {
	if o.NoClustering {
		return u, nil
	}
	var all, moved uint64
	runs := fileBytes(l.Runs())
	for _, g := range unclusteredSegments(l, s, o) {
		u.Segments = append(u.Segments, g.num)
		all += g.live
		if len(batch) == 0 || moved+g.live <= max(clusterBytes, runs) {
			batch, moved = append(batch, g.num), moved+g.live
		}
	}
	if moved > 0 {
		// Each pass rewrites all runs besides the values that it moves.
		passes := (all + moved - 1) / moved
		u.Price = max(1, (moved+runs)/clusterFactor)
		u.Whole = max(1, (all+passes*runs)/clusterFactor)
	}
	return u, batch
}

// unclusteredSegments lists the segments that the journal left and, if they are
// many, small value segments: values of one key range lie in all of them.
func unclusteredSegments(l *layout.Layout, s State, o Options) []segment {
	var journals, small []segment
	live := uint64(0)
	for _, m := range l.Segments() {
		if m.State().Status == layout.Live {
			live += weighSegment(m).live
		}
	}
	whole := uint64(SegmentBytes(live, int64(o.SegmentBytes)))
	for _, m := range l.Segments() {
		g := weighSegment(m)
		switch {
		case g.live == 0 || g.records == 0 || m.State().Status != layout.Live || slices.Contains(s.Damaged, g.num):
		case m.Kind == filename.Journal:
			journals = append(journals, g)
		case g.live < whole/unclusteredFraction:
			small = append(small, g)
		}
	}
	if len(small) < unclusteredCount {
		return journals
	}
	list := append(journals, small...)
	slices.SortFunc(list, func(a, b segment) int { return cmp.Compare(a.num, b.num) })
	return list
}
