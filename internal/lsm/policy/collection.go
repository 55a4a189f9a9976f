package policy

import "slices"

// planCollection chooses what to collect now; nil if nothing is worth it, or there
// are too many forwarding tables.
func (v *balance) planCollection() *Collection {
	return v.collectFrom(v.victims, "garbage in segments", v.isWanted)
}

// collectFrom returns the collection of as many segments as it may have, those of the list that are
// wanted; nil if there are none. wanted is asked for each segment, and for how much garbage those
// before it have.
func (v *balance) collectFrom(from []segment, reason string, wanted func(g *segment, freed uint64) bool) *Collection {
	c := &Collection{Reason: reason}
	var records, freed uint64
	most := v.batchBytes()
	for i := range from {
		g := &from[i]
		// Each victim leaves a forwarding table, which takes memory until runs are rewritten.
		if len(c.Victims)+v.relocated == maxForwardings {
			break
		}
		if !wanted(g, freed) || v.state.DiskSpace > 0 && c.Bytes+g.live > uint64(v.state.DiskSpace) {
			continue
		}
		// One victim may exceed the bounds, or a large segment would never go.
		if len(c.Victims) > 0 && (c.Bytes+g.live > most || records+g.records > v.options.movedRecords()) {
			continue
		}
		c.Victims = append(c.Victims, g.num)
		c.Bytes, records, freed = c.Bytes+g.live, records+g.records, freed+g.garbage
	}
	if len(c.Victims) == 0 {
		return nil
	}
	slices.Sort(c.Victims)
	return c
}

// isWanted reports whether to collect g, if the collection already has segments with freed bytes
// of garbage.
func (v *balance) isWanted(g *segment, freed uint64) bool {
	atLeast := func(percent uint64) bool { return g.garbage*100 >= (g.live+g.garbage)*percent }
	// Nobody is slowed down, so less garbage is worth a move.
	if v.state.atRest() {
		return atLeast(idleReadyPercent) || v.idleGarbage()-freed > v.idleBound()
	}
	// It moves a quarter of what it frees, or less: worth it whatever the budget says.
	if atLeast(readyPercent) {
		return true
	}
	// While data is loaded, what lies between values in journals can wait. The
	// share of the whole store that is garbage when the budget is used up is
	// share/(100+share): a segment with less than half of that is better left.
	share := uint64(v.options.GarbageShare)
	left := v.excessBytes() - min(freed, v.excessBytes())
	return g.died && atLeast(50*share/(100+share)) && left > v.garbageBudget()/100*collectPercent
}

// batchBytes returns how many live bytes one collection moves at most. While it runs, the store
// takes that number of bytes more.
func (v *balance) batchBytes() uint64 {
	share := v.neededBytes() / segmentFraction
	if !v.state.atRest() { // at rest fewer forwarding tables are better, as fewer compactions remove them
		share /= busyBatchFraction
	}
	return min(max(share, segmentLeastBytes), v.options.SegmentBytes)
}
