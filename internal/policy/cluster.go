package policy

import (
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/manifest"
)

const (
	clusterShare = 4       // what is rewritten is at most so many times what was scanned scattered
	clusterBytes = 2 << 30 // of values that one clustering moves, and no less than the runs it rewrites
	clusterSmall = 2       // a value segment shorter than 1/clusterSmall of SegmentBytes is small
	clusterMany  = 8       // so many small ones are as good as unsorted
)

// Unclustered says which segments hold values in the order in which they arrived,
// so that a scan jumps from one to the next, and what it takes to have them
// sorted.
type Unclustered struct {
	Segments []entry.FileNum // ascending
	// Price is how many bytes of them must have been scanned, jumping, before
	// the next clustering is worth its work; Whole is that of all that are to
	// come. Both are 0 if nothing is unsorted.
	Price, Whole uint64
}

// FindUnclustered tells what of a layout's values is unsorted.
func FindUnclustered(l *manifest.Layout, s State, o Options) Unclustered {
	u, _ := findUnclustered(l, s, o.withDefaults())
	return u
}

// findUnclustered also chooses what the next clustering moves.
func findUnclustered(l *manifest.Layout, s State, o Options) (u Unclustered, batch []entry.FileNum) {
	if o.NoClustering {
		return u, nil
	}
	var all, moved, runs uint64
	for _, r := range l.Runs() {
		runs += r.FileBytes()
	}
	for _, v := range unclusteredSegments(l, s, o) {
		u.Segments = append(u.Segments, v.num)
		all += v.live
		if len(batch) == 0 || moved+v.live <= max(clusterBytes, runs) {
			batch, moved = append(batch, v.num), moved+v.live
		}
	}
	if moved > 0 {
		passes := (all + moved - 1) / moved
		u.Price = max(1, (moved+runs)/clusterShare)
		u.Whole = max(1, (all+passes*runs)/clusterShare)
	}
	return u, batch
}

// unsorted lists the segments whose values lie as they arrived: what the journal
// left, and small value segments if there are many.
func unclusteredSegments(l *manifest.Layout, s State, o Options) []victim {
	var list []victim
	small, live := 0, uint64(0)
	for _, seg := range l.Segments() {
		if seg.State().Status == manifest.Live {
			live += weighSegment(seg).live
		}
	}
	whole := uint64(SegmentBytes(live, int64(o.SegmentBytes)))
	for _, seg := range l.Segments() {
		v := weighSegment(seg)
		if v.live == 0 || v.records == 0 || seg.State().Status != manifest.Live || slices.Contains(s.Damaged, v.num) {
			continue
		}
		switch {
		case seg.Kind == filename.Journal:
		case v.live < whole/clusterSmall:
			v.small = true
			small++
		default:
			continue
		}
		list = append(list, v)
	}
	if small < clusterMany {
		list = slices.DeleteFunc(list, func(v victim) bool { return v.small })
	}
	return list
}

// clustering chooses a merge of all runs that also moves values to where the
// order of keys wants them; nil if too little was scanned to make it worth it.
func (w *wasted) clustering() *Compaction {
	if !w.state.Idle || w.state.JumpedBytes == 0 {
		return nil
	}
	u, batch := findUnclustered(w.layout, w.state, w.options)
	if u.Price == 0 || w.state.JumpedBytes < u.Price {
		return nil
	}
	m := into(manifest.Base, w.layout.Runs(), "scans jump")
	m.Cluster, m.Price = batch, u.Price
	return m
}
