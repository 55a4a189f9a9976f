package policy

import (
	"slices"

	"github.com/brockdb/brock/internal/version/layout"
)

// planPointers chooses a compaction after which no run needs a forwarding table. It is worth it if
// a collection has to wait as there are too many forwarding tables, if a forwarding table has an
// old data key, or if the store is idle and it is cheap.
func (v *balance) planPointers() *Compaction {
	runs := v.layout.Runs()
	first, end := findRow(runs, v.refersToRelocated)
	if end == 0 {
		return nil
	}
	blocked := v.relocated >= maxForwardings && slices.ContainsFunc(v.victims, func(g segment) bool { return v.isWanted(&g, 0) })
	cheap := fileBytes(runs[first:end]) <= max(tinyBytes, idlePointerFactor*v.moved)
	quiet := v.state.Idle && (cheap || v.idleGarbage() > v.idleBound())
	if !blocked && !quiet && !v.state.Reclaim && !v.awaitsForwardings() {
		return nil
	}
	return newCompaction(runs[first:end], "handles lead through forwarding tables")
}

func (v *balance) refersToRelocated(r *layout.Run) bool {
	return slices.ContainsFunc(r.Refs, func(f layout.SegmentRef) bool {
		return v.layout.Segment(f.Segment).State().Status == layout.Relocated
	})
}
