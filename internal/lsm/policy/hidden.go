package policy

import "github.com/brockdb/brock/internal/version/layout"

// Garbage that upper runs hide becomes known when a compaction meets the new and the old entry
// of a key. State.Hidden tells how much a run hides, for runs that were flushed since Open. For
// the others, the unknown runs, it is estimated here.

// stale reports whether upper runs hide so much that it is worth a compaction to
// find it.
func (v *survey) stale() bool {
	runs := v.layout.Runs()
	uppers, base := split(runs)
	if v.deadOwn == 0 && (len(runs) < 2 || len(uppers) == 0) {
		return false
	}
	hidden := v.hidden
	if hidden+v.state.Memtables.Older > 0 {
		// Clients overwrite now, so perhaps they did before Open, too. This compaction finds out.
		hidden += v.hiddenAtWorst()
	}
	if hidden >= v.mostHidden() {
		return true
	}
	return base != nil && v.staleUnknown(v.unknown(), base)
}

// mostHidden returns how many bytes upper runs may hide before a compaction looks for them: as
// many as it reads, but no less than 1/upperHiddenFraction and no more than 1/mostHiddenFraction
// of the budget. Large runs may hide up to 1/mostHiddenFactor of their size, so that the
// compaction reads at most mostHiddenFactor bytes for each one that it finds.
func (v *survey) mostHidden() uint64 {
	budget := v.budget()
	least := max(budget/upperHiddenFraction, hiddenLeastBytes)
	return max(least, min(v.runs, max(budget/mostHiddenFraction, v.runs/mostHiddenFactor)))
}

// staleUnknown reports whether unknown runs surely hide far more than a compaction costs. Each
// delete hides a value. The share of sets that overwrite is estimated from the share of records
// that are known to be dead, of which a store that is only added to has none.
func (v *survey) staleUnknown(unknown []*layout.Run, base *layout.Run) bool {
	var records, dead uint64
	for _, s := range v.layout.Segments() {
		if s.State().Status == layout.Live {
			records, dead = records+s.Records, dead+s.DeadRecords()
		}
	}
	hidden := v.hides(unknown, base, min(100, overwrittenFactor*100*dead/max(records, 1)))
	return hidden >= max(base.SeparatedBytes/100*unknownHiddenPercent, hiddenLeastBytes, unknownGainFactor*v.runs)
}

// mayHide reports whether upper runs at worst hide more than an idle store should keep.
func (v *survey) mayHide() bool {
	runs := v.layout.Runs()
	oldest := runs[len(runs)-1]
	return v.hidden+v.hiddenAtWorst() >= max((oldest.SeparatedBytes+oldest.FileBytes())/100*idleHiddenPercent, IdleHiddenBytes)
}

// hiddenAtWorst returns how many bytes the unknown runs hide if each of their entries replaces
// another.
func (v *survey) hiddenAtWorst() uint64 {
	unknown := v.unknown()
	if len(unknown) == 0 {
		return 0
	}
	runs := v.layout.Runs()
	return v.hides(unknown, runs[len(runs)-1], 100)
}

// unknown lists the runs of which State doesn't say what they hide, but not the oldest run, which
// hides nothing.
func (v *survey) unknown() (unknown []*layout.Run) {
	runs := v.layout.Runs()
	for _, r := range runs[:max(len(runs), 1)-1] {
		if _, known := v.state.Hidden[r.ID]; !known {
			unknown = append(unknown, r)
		}
	}
	return unknown
}

// hides estimates how many bytes of the base's values upper runs hide, if percent
// of their sets replace others. A range tombstone of which nothing is known may
// hide everything.
func (v *survey) hides(uppers []*layout.Run, base *layout.Run, percent uint64) uint64 {
	if base.Entries == 0 {
		return 0
	}
	// Entries are taken to have values of the base's average size.
	all := base.SeparatedBytes + base.FileBytes()
	sum, ranged, perEntry := uint64(0), uint64(0), base.SeparatedBytes/base.Entries
	for _, r := range uppers {
		deletes := min(r.Deletes, r.Entries)
		sum += saturatingMul(deletes, perEntry) + saturatingMul(r.Entries-deletes, perEntry)/100*percent
		if r.Tombstones > 0 {
			n, known := v.state.Ranged[r.ID]
			if !known {
				return all
			}
			ranged += n
		}
	}
	return min(min(sum, base.SeparatedBytes)+ranged, all)
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
