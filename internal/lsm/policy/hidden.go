package policy

// Garbage that upper runs hide becomes known when a compaction meets the new and the old entry
// of a key. State.Hidden tells how much a run hides, for runs that were flushed since Open. For
// the others, the unknown runs, it is estimated here.

// hidesMuch reports whether upper runs hide so much that it is worth a compaction to
// find it.
func (v *balance) hidesMuch() bool {
	runs := v.layout.Runs()
	uppers, _ := splitBase(runs)
	// One run alone hides nothing, but the history that it retains may have died.
	if v.deadOwn == 0 && (len(runs) < 2 || len(uppers) == 0) {
		return false
	}
	// If clients overwrite now, perhaps they did before Open, too. This compaction finds out.
	overwrites := v.hidden+v.state.Memtables.Older > 0
	return v.hidden+v.hiddenByUnknown(overwrites) >= v.mostHidden()
}

// mostHidden returns how many bytes upper runs may hide before a compaction looks for them: as
// many as it reads, but no less than 1/upperHiddenFraction and no more than 1/mostHiddenFraction
// of the budget. Large runs may hide up to 1/mostHiddenFactor of their size, so that the
// compaction reads at most mostHiddenFactor bytes for each one that it finds.
func (v *balance) mostHidden() uint64 {
	budget := v.garbageBudget()
	least := max(budget/upperHiddenFraction, hiddenLeastBytes)
	return max(least, min(v.runs, max(budget/mostHiddenFraction, v.runs/mostHiddenFactor)))
}

// mayHide reports whether upper runs at worst hide more than an idle store should keep.
func (v *balance) mayHide() bool {
	runs := v.layout.Runs()
	oldest := runs[len(runs)-1]
	least := (oldest.SeparatedBytes + oldest.FileBytes()) / 100 * idleHiddenPercent
	if !v.state.Full {
		least = max(least, IdleHiddenBytes)
	}
	return v.hidden+v.hiddenByUnknown(true) >= least
}

// hiddenByUnknown returns how many bytes the unknown runs hide if each of their deletes, and of
// their sets if they overwrite, replaces a value of the base's average size. A range delete of
// which nothing is known may hide everything. The oldest run hides nothing.
func (v *balance) hiddenByUnknown(overwrites bool) uint64 {
	runs := v.layout.Runs()
	base := runs[len(runs)-1]
	all, entries, ranged := base.SeparatedBytes+base.FileBytes(), uint64(0), uint64(0)
	for _, r := range runs[:len(runs)-1] {
		// It is in v.hidden already.
		if _, known := v.state.Hidden[r.ID]; known {
			continue
		}
		if overwrites {
			entries += min(r.Entries, base.Entries)
		} else {
			entries += min(r.Deletes, base.Entries)
		}
		if r.RangeDeletes > 0 {
			n, known := v.state.Ranged[r.ID]
			if !known {
				return all
			}
			ranged += n
		}
	}
	// Both are estimates of bytes in older runs: together they can't be more than these have.
	values := saturatingMul(entries, base.SeparatedBytes/max(base.Entries, 1))
	return min(min(values, base.SeparatedBytes)+ranged, all)
}

// saturatingMul multiplies, at most to 2^62: counts in a damaged or strange
// layout must not wrap around.
func saturatingMul(a, b uint64) uint64 {
	const most = 1 << 62
	if a != 0 && b > most/a {
		return most
	}
	return a * b
}
