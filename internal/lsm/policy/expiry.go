package policy

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// What has expired stays in its run until a compaction passes. A store at rest
// compacts a run for it when a step of expiry has been in it for as long as Late
// allows. That is a share of the time to live, so a run is rewritten some dozen
// times within that at most. A run of which much has expired is compacted sooner,
// also while clients write; the rest then waits a day for other compactions.

// expiryDue returns when, in Unix milliseconds, what has expired in a run, or was retained and is
// dead, will be worth a compaction of the run; 0 = never.
func (o *Options) expiryDue(l *layout.Layout, r *layout.Run, s State) (due uint64) {
	cost := r.FileBytes()
	much := max(cost/expiryMuchFraction, (cost+r.SeparatedBytes)/expiryMuchDataFraction)
	steps := r.Expiry
	if steps == nil && r.MinExpiry != 0 { // steps are not recorded: there is at least this one
		steps = []entry.Expiring{{At: r.MinExpiry}}
	}
	// History that ages is dead like what expires, so one rule decides for both.
	if aging := o.agingSteps(l, r); len(aging) > 0 {
		steps = append(aging, steps...)
		slices.SortFunc(steps, func(a, b entry.Expiring) int { return cmp.Compare(a.At, b.At) })
	}
	var freed uint64
	// The more has expired before a step, the less that step has to wait.
	for _, x := range steps {
		freed += x.Bytes
		due = EarlierTime(due, addWait(x.At, s.waitingTime(x.Late, cost, freed >= much)))
	}
	return due
}

// waitingTime is how long what is dead waits for its compaction, which costs some bytes, in
// milliseconds. Much is freed by then, or it may be late. Writers that are refused don't wait.
func (s *State) waitingTime(late, cost uint64, much bool) uint64 {
	switch {
	case s.Full:
		return 0
	case much:
		return expiryGraceMillis
	case s.Idle || cost <= tinyBytes:
		return max(expiryGraceMillis, late)
	default:
		return max(expiryGraceMillis, late, expiryBusyMillis)
	}
}

// addWait adds wait to a time. The sum stops at the greatest time, and does not overflow.
func addWait(at, wait uint64) uint64 {
	if at+wait < at {
		return ^uint64(0)
	}
	return at + wait
}

// EarlierTime returns the first of two times, of which 0 is never.
func EarlierTime(a, b uint64) uint64 { return min(a-1, b-1) + 1 }

// ExpiryDue returns the first time, in Unix milliseconds, at which Decide plans a compaction
// because of what has expired or was retained; 0 = never.
func ExpiryDue(l *layout.Layout, s State, o Options) (due uint64) {
	for _, r := range l.Runs() {
		due = EarlierTime(due, o.expiryDue(l, r, s))
	}
	return due
}

// MemtableExpiryDue returns when to flush a memtable because of expiry. least is when its first
// entry expires. Both are in Unix milliseconds; 0 = never.
func MemtableExpiryDue(least uint64, idle bool) uint64 {
	if least == 0 {
		return 0
	}
	// While clients write, the memtable is soon full in any case.
	if idle {
		return addWait(least, memtableExpiryMillis)
	}
	return addWait(least, memtableExpiryBusyMillis)
}

// planExpiry chooses the compaction that is due because of what has expired by now, or was retained
// until now; nil if none is.
// It includes all runs down to the base if these weigh little more: then what it drops need not
// be replaced by deletes.
func (v *balance) planExpiry() *Compaction {
	runs := v.layout.Runs()
	due := func(r *layout.Run) bool {
		at := v.options.expiryDue(v.layout, r, v.state)
		return at != 0 && at <= v.state.Now
	}
	first, end := findRow(runs, due)
	if end == 0 {
		return nil
	}
	// Below the base nothing is left to hide, so deletes go as well.
	row, rest := fileBytes(runs[first:end]), fileBytes(runs[first:])
	if rest <= max(expiryReachFactor*row, tinyBytes) {
		end = len(runs)
	}
	return newCompaction(runs[first:end], "entries have expired or aged")
}
