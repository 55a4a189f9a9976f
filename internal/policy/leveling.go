package policy

import "github.com/brockdb/brock/internal/manifest"

const (
	// At idle, upper runs lighter than a share of the base stay where they are:
	// rewriting the base for them would write far more than was ever put in.
	foldShare      = 10 // base / 10, and
	idleSmallShare = 64 // base / 64 if all runs together are at most
	idleSmall      = 256 << 20
	idleTiny       = 16 << 20 // so small a store is always collapsed
	idleNeighbour  = 4        // times heavier than the newer runs: not merged with them
	idleRow        = 3        // so many upper runs are merged if the base stays

	idleHides   = 5        // percent of the oldest run and its values that others may hide at idle,
	hiddenLeast = 16 << 20 // bytes at least; and of runs of which nothing is known
	hiddenShare = 10       // percent, while clients write, but
	staleLeast  = 1 << 20  // bytes are enough if they are surely there
	staleGain   = 2        // times what the merge writes
	staleSample = 4        // the share of overwrites is thought so many times that of dead records

	droppedIdle = 10 // percent of a run that dropped keyspaces free, for it to be written again at idle
	droppedBusy = 50 // while clients write
)

// merge chooses a merge, nil if none is worth it.
func (w *wasted) compaction() *Compaction {
	s, o := w.state, w.options
	runs := w.layout.Runs()
	if m := expired(runs, s); m != nil && s.fits(w.layout, m) {
		return m
	}
	uppers, base := split(runs)
	if len(uppers) == 0 {
		return nil
	}
	weight, size := uint64(0), baseSize(base)
	for _, r := range uppers {
		weight += weigh(r, base)
	}
	switch {
	case len(uppers) >= o.UpperRuns && (base == nil || atLeast(weight, size, o.BaseShare)):
		return into(manifest.Base, runs, "the upper runs weigh as much as the base")
	case len(uppers) >= o.UpperRuns:
		return into(manifest.Upper, cheapest(uppers, o.UpperRuns), "too many upper runs")
	case base != nil && len(uppers) > 1 && atLeast(weight, size, 3*o.BaseShare):
		return into(manifest.Base, runs, "the upper runs weigh far more than the base")
	case w.stale():
		return into(manifest.Base, runs, "the upper runs hide garbage")
	case s.Idle && len(runs) > 1 && (worthCollapsing(runs, weight, size) || w.mayHide()):
		return into(manifest.Base, runs, "idle")
	case s.Idle:
		if alike := alike(uppers); len(alike) >= idleRow {
			return into(manifest.Upper, alike, "idle, the base is too big")
		}
	}
	return nil
}

// split tells the base from the upper runs; base is nil if there is none yet.
func split(runs []*manifest.Run) (uppers []*manifest.Run, base *manifest.Run) {
	if n := len(runs); n > 0 && runs[n-1].Tier == manifest.Base {
		return runs[:n-1], runs[n-1]
	}
	return runs, nil
}

func baseSize(base *manifest.Run) uint64 {
	if base == nil {
		return 0
	}
	return base.FileBytes()
}

// atLeast reports whether a is at least percent of b.
func atLeast(a, b uint64, percent int) bool {
	return a >= b/100*uint64(percent)
}

func into(t manifest.Tier, runs []*manifest.Run, reason string) *Compaction {
	m := &Compaction{Into: t, Reason: reason}
	for _, r := range runs {
		m.Runs = append(m.Runs, r.ID)
	}
	return m
}

// weigh is the size of an upper run, and with it what a merge into the base may
// free in segments: the value of each entry deleted, and an eighth of the values
// that its other entries may shadow (most are new keys). It's at most three
// times the size, so that runs of handles to large values don't have the base
// rewritten all the time.
func weigh(r, base *manifest.Run) uint64 {
	size := r.FileBytes()
	if base == nil || base.Entries == 0 {
		return size
	}
	deletes, sets := min(r.Deletes, base.Entries), min(r.Entries-min(r.Deletes, r.Entries), base.Entries)
	perEntry := base.SeparatedBytes / base.Entries
	perDelete := perEntry + base.FileBytes()/base.Entries
	freed := saturatingMul(deletes, perDelete) + saturatingMul(sets, perEntry)/8
	return size + min(freed, 2*size)
}

func saturatingMul(a, b uint64) uint64 {
	const most = 1 << 62
	if a != 0 && b > most/a {
		return most
	}
	return a * b
}

// hides estimates how many bytes of the base's values upper runs hide, if so many
// percent of their entries that are no deletes replace others. A range tombstone
// of which nothing is known may hide everything.
func (w *wasted) hides(uppers []*manifest.Run, base *manifest.Run, percent uint64) uint64 {
	if base.Entries == 0 {
		return 0
	}
	all := base.SeparatedBytes + base.FileBytes()
	sum, ranged, perEntry := uint64(0), uint64(0), base.SeparatedBytes/base.Entries
	for _, r := range uppers {
		deletes := min(r.Deletes, r.Entries)
		sum += saturatingMul(deletes, perEntry) + saturatingMul(r.Entries-deletes, perEntry)/100*percent
		if r.Tombstones > 0 {
			n, known := w.state.Ranged[r.ID]
			if !known {
				return all
			}
			ranged += n
		}
	}
	return min(min(sum, base.SeparatedBytes)+ranged, all)
}

// mayHide reports whether upper runs, at worst, hide more than an idle store should keep.
func (w *wasted) mayHide() bool {
	runs := w.layout.Runs()
	oldest := runs[len(runs)-1]
	return w.hidden+w.atWorst() >= max((oldest.SeparatedBytes+oldest.FileBytes())/100*idleHides, hiddenLeast)
}

// staleUnknown reports whether upper runs of which nobody knows what they hide
// surely hide much, far more than the cost of finding it: as much as deletes say,
// and as the records that are known to be dead tell of the others. In a store that
// is only added to there are none.
func (w *wasted) staleUnknown(uppers []*manifest.Run, base *manifest.Run, cost uint64) bool {
	var records, dead uint64
	for _, s := range w.layout.Segments() {
		if s.State().Status == manifest.Live {
			records, dead = records+s.Records, dead+s.DeadRecords()
		}
	}
	hidden := w.hides(uppers, base, min(100, staleSample*100*dead/max(records, 1)))
	return hidden >= max(base.SeparatedBytes/100*hiddenShare, staleLeast, staleGain*cost)
}

// cheapest is the row of upper runs that frees most places for each byte
// written. It removes at least a third of them: ever merging the two smallest
// would rewrite them again and again.
func cheapest(uppers []*manifest.Run, limit int) []*manifest.Run {
	least := max(2, limit/2)
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

// worthCollapsing bounds what an idle store rewrites: the base is written again
// only for upper runs of some weight.
func worthCollapsing(runs []*manifest.Run, weight, base uint64) bool {
	total := uint64(0)
	for _, r := range runs {
		total += r.FileBytes()
	}
	return weight >= base/foldShare || total <= idleSmall && weight >= base/idleSmallShare || total <= idleTiny
}

// alike are the newest upper runs, up to one that is far heavier than all
// before it: that is not rewritten for them.
func alike(uppers []*manifest.Run) []*manifest.Run {
	sum := uint64(0)
	for i, r := range uppers {
		if i > 0 && r.FileBytes() > idleNeighbour*sum {
			return uppers[:i]
		}
		sum += r.FileBytes()
	}
	return uppers
}

// dropping is the run with the most that is of dropped keyspaces, to be written
// again by itself: nothing of them needs to stay, whatever lies below.
func dropping(l *manifest.Layout, s State) *Compaction {
	share, least := uint64(droppedBusy), uint64(hiddenLeast)
	if s.Idle || s.Reclaim {
		share, least = droppedIdle, staleLeast
	}
	var worst *manifest.Run
	for _, r := range l.Runs() {
		n := s.Dropped[r.ID]
		if n >= least && n >= r.FileBytes()/100*share && (worst == nil || n > s.Dropped[worst.ID]) {
			worst = r
		}
	}
	if worst == nil {
		return nil
	}
	return into(worst.Tier, []*manifest.Run{worst}, "keyspaces were dropped")
}
