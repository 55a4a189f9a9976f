package policy

import "github.com/brockdb/brock/internal/version/layout"

// leveling chooses the compaction that keeps runs few and garbage known; nil if
// none is worth it.
func (v *survey) leveling() *Compaction {
	runs := v.layout.Runs()
	uppers, base := split(runs)
	if len(uppers) == 0 {
		return v.aged()
	}
	weight, size, share := uint64(0), uint64(0), v.options.BaseShare
	for _, r := range uppers {
		weight += weigh(r, base)
	}
	if base != nil {
		size = base.FileBytes()
	}
	many := len(uppers) >= v.options.UpperRuns
	switch {
	case many && (base == nil || atLeast(weight, size, share)):
		return compact(runs, layout.Base, "the upper runs weigh as much as the base")
	// Before the next case: upper runs that were compacted alone would be written twice.
	case v.state.Idle && v.worthAll(weight, size):
		return compact(runs, layout.Base, "idle")
	case many:
		return compact(cheapest(uppers, v.options.UpperRuns), layout.Upper, "too many upper runs")
	case base != nil && len(uppers) > 1 && atLeast(weight, size, heavyUpperFactor*share):
		return compact(runs, layout.Base, "the upper runs weigh far more than the base")
	case v.stale():
		return compact(runs, layout.Base, "the upper runs hide garbage")
	case v.state.Idle:
		return idleRow(uppers)
	}
	return nil
}

// aged returns the compaction of a base alone, for the history in it that is dead; nil if that is
// not much.
func (v *survey) aged() *Compaction {
	if !v.stale() {
		return nil
	}
	return compact(v.layout.Runs(), layout.Base, "history has aged")
}

// worthAll reports whether an idle store should compact all runs. weight is that of the upper
// runs, base the size of the base.
func (v *survey) worthAll(weight, base uint64) bool {
	return len(v.layout.Runs()) > 1 && (worthIdle(v.runs, weight, base) || v.mayHide())
}

// idleRow returns the compaction of the newest upper runs, for when compacting all runs isn't
// worth it; nil if they are too few.
func idleRow(uppers []*layout.Run) *Compaction {
	if row := alike(uppers); len(row) >= idleRowRuns {
		return compact(row, layout.Upper, "idle, the base is too big")
	}
	return nil
}

// atLeast reports whether a is at least percent of b.
func atLeast(a, b uint64, percent int) bool {
	return a >= b/100*uint64(percent)
}

// weigh returns the size of an upper run plus what its compaction into the base may free in
// segments: the value of each entry deleted, and some of the values that its sets may replace
// (most sets are of new keys). What may be freed is bounded, or runs of handles to large values
// would cause the base to be rewritten all the time.
func weigh(r, base *layout.Run) uint64 {
	size := r.FileBytes()
	if base == nil || base.Entries == 0 {
		return size
	}
	deletes, sets := min(r.Deletes, base.Entries), min(r.Entries-min(r.Deletes, r.Entries), base.Entries)
	perEntry := base.SeparatedBytes / base.Entries
	perDelete := perEntry + base.FileBytes()/base.Entries
	freed := saturatingMul(deletes, perDelete) + saturatingMul(sets, perEntry)/shadowFraction
	return size + min(freed, freedFactor*size)
}

// cheapest returns the neighbouring upper runs whose compaction removes most runs for each byte
// written. They are at least limit/cheapestRunsFraction runs: to compact the two smallest each
// time would rewrite them again and again.
func cheapest(uppers []*layout.Run, limit int) []*layout.Run {
	least := max(2, limit/cheapestRunsFraction)
	best, bestCost := uppers, 0.0
	for i := range uppers {
		var sum uint64
		for j := i; j < len(uppers); j++ {
			sum += uppers[j].FileBytes()
			n := j - i + 1
			if n < least {
				continue
			}
			if cost := float64(sum) / float64(n-1); bestCost == 0 || cost < bestCost {
				best, bestCost = uppers[i:j+1], cost
			}
		}
	}
	return best
}

// worthIdle reports whether an idle store should be compacted into one run: the
// base is rewritten only for upper runs of some weight.
func worthIdle(total, weight, base uint64) bool {
	return weight >= base/idleUpperFraction || total <= idleSmallBytes && weight >= base/idleSmallFraction || total <= idleTinyBytes
}

// alike returns the newest upper runs, up to the first one that is far heavier than all newer
// ones together: it is not worth rewriting for them.
func alike(uppers []*layout.Run) []*layout.Run {
	sum := uint64(0)
	for i, r := range uppers {
		if i > 0 && r.FileBytes() > idleNeighbourFactor*sum {
			return uppers[:i]
		}
		sum += r.FileBytes()
	}
	return uppers
}

// dropping returns the compaction of the one run that holds most of dropped keyspaces; nil if
// none holds enough. It compacts the run alone: no entry of a dropped keyspace needs to stay,
// whatever older runs have.
func (v *survey) dropping() *Compaction {
	share, least := uint64(droppedPercent), uint64(droppedBytes)
	if v.state.atRest() {
		share, least = idleDroppedPercent, idleDroppedBytes
	}
	var worst *layout.Run
	dropped := v.state.Dropped
	for _, r := range v.layout.Runs() {
		n := dropped[r.ID]
		if n >= least && n >= r.FileBytes()/100*share && (worst == nil || n > dropped[worst.ID]) {
			worst = r
		}
	}
	if worst == nil {
		return nil
	}
	return compact([]*layout.Run{worst}, worst.Tier, "keyspaces were dropped")
}
