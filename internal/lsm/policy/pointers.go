package policy

import (
	"slices"

	"github.com/brockdb/brock/internal/version/layout"
)

// pointers chooses a compaction after which no run needs a forwarding table. It is worth it if a
// collection has to wait as there are too many forwarding tables, if a forwarding table has an old
// data key, or if the store is idle and it is cheap.
func (v *balance) pointers() *Compaction {
	if v.relocated == 0 {
		return nil
	}
	runs := v.layout.Runs()
	first := slices.IndexFunc(runs, v.refersToRelocated)
	if first < 0 {
		return nil
	}
	// Runs in between are rewritten, too: a compaction takes runs that follow each other.
	end := len(runs)
	for !v.refersToRelocated(runs[end-1]) {
		end--
	}
	blocked := v.relocated >= maxForwardings && slices.ContainsFunc(v.victims, func(g segment) bool { return v.wanted(&g, 0) })
	cheap := fileBytes(runs[first:end]) <= max(tinyBytes, idlePointerFactor*v.moved)
	quiet := v.state.Idle && (cheap || v.idleGarbage() > v.idleBound())
	if !blocked && !quiet && !v.state.Reclaim && !v.oldForwardings() {
		return nil
	}
	tier := layout.Upper
	if end == len(runs) {
		tier = layout.Base
	}
	return compact(runs[first:end], tier, "handles lead through forwarding tables")
}

func (v *balance) refersToRelocated(r *layout.Run) bool {
	return slices.ContainsFunc(r.Refs, func(f layout.SegmentRef) bool {
		return v.layout.Segment(f.Segment).State().Status == layout.Relocated
	})
}
