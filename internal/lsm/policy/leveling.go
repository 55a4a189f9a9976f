package policy

import "github.com/brockdb/brock/internal/version/layout"

// planLeveling chooses the compaction that keeps runs few and garbage known; nil if
// none is worth it.
func (v *balance) planLeveling() *Compaction {
	runs := v.layout.Runs()
	uppers, base := splitBase(runs)
	if len(uppers) == 0 {
		if v.hidesMuch() { // much of the history in a base alone is dead
			return newCompaction(runs, "history has aged")
		}
		return nil
	}
	weight, size := uint64(0), uint64(0)
	for _, r := range uppers {
		weight += weighRun(r, base)
	}
	if base != nil {
		size = base.FileBytes()
	}
	// Each upper run costs a get one filter probe, whatever its size.
	many := len(uppers) >= upperRuns
	switch {
	case many && (base == nil || weight >= size):
		return newCompaction(runs, "the upper runs weigh as much as the base")
	// Before the next case: upper runs that were compacted alone would be written twice.
	case v.state.Idle && v.worthAll(weight, size):
		return newCompaction(runs, "idle")
	case many:
		return newCompaction(newestRow(uppers, leastRuns), "too many upper runs")
	case base != nil && len(uppers) > 1 && weight >= heavyUpperFactor*size:
		return newCompaction(runs, "the upper runs weigh far more than the base")
	case v.hidesMuch():
		return newCompaction(runs, "the upper runs hide garbage")
	case v.state.Idle:
		return idleRow(uppers)
	}
	return nil
}

// worthAll reports whether an idle store should compact all runs: the base is rewritten only for
// upper runs of some weight. weight is that of the upper runs, base the size of the base.
func (v *balance) worthAll(weight, base uint64) bool {
	return len(v.layout.Runs()) > 1 && (weight >= base/idleUpperFraction || v.runs <= tinyBytes || v.mayHide())
}

// weighRun returns the size of an upper run plus what its deletes free in the base. That is
// bounded, or runs of handles to large values would cause the base to be rewritten all the time.
func weighRun(r, base *layout.Run) uint64 {
	size := r.FileBytes()
	// Deletes free nothing where nothing is.
	if base == nil || base.Entries == 0 {
		return size
	}
	freed := saturatingMul(min(r.Deletes, base.Entries), (base.SeparatedBytes+base.FileBytes())/base.Entries)
	return size + min(freed, freedFactor*size)
}

// idleRow returns the compaction of the newest upper runs, for when compacting all runs isn't worth
// it; nil if they are too few.
func idleRow(uppers []*layout.Run) *Compaction {
	row := newestRow(uppers, 0)
	if len(row) < leastRuns {
		return nil
	}
	return newCompaction(row, "idle, the base is too big")
}

// newestRow returns the newest upper runs, at least some number of them, up to the first one that
// is heavier than all newer ones together: it is not worth rewriting for them. Of 100 flushes of
// one size each entry is so written 2.4 times, before an idle store makes one run of all
// (testdata/write_amplification.txt).
func newestRow(uppers []*layout.Run, least int) []*layout.Run {
	sum := uint64(0)
	// Newest first: these are the smallest, as older ones were compacted already.
	for i, r := range uppers {
		if i >= max(least, 1) && r.FileBytes() > sum {
			return uppers[:i]
		}
		sum += r.FileBytes()
	}
	return uppers
}

// planDropping returns the compaction of the one run that holds most of dropped keyspaces; nil if
// none holds enough. It compacts the run alone: no entry of a dropped keyspace needs to stay,
// whatever older runs have.
func (v *balance) planDropping() *Compaction {
	share := uint64(droppedPercent)
	if v.state.atRest() {
		share = idleDroppedPercent
	}
	var worst *layout.Run
	dropped := v.state.Dropped
	for _, r := range v.layout.Runs() {
		n := dropped[r.ID]
		if n >= droppedBytes && n >= r.FileBytes()/100*share && (worst == nil || n > dropped[worst.ID]) {
			worst = r
		}
	}
	if worst == nil {
		return nil
	}
	return newCompaction([]*layout.Run{worst}, "keyspaces were dropped")
}
