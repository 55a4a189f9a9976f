package policy

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
)

// balance is what all decisions know of a store: its state, and how much of its
// files is live and how much is garbage.
type balance struct {
	layout  *layout.Layout
	state   State
	options Options

	victims   []segment // that could be collected, the best first
	unsorted  []segment // that the journal left: values in the order of their arrival; the oldest first
	live      uint64    // bytes of segments' files that hold live values
	garbage   uint64    // the rest of them
	died      uint64    // of that, in segments of which something was live once
	runs      uint64    // bytes of the files of runs
	hidden    uint64    // bytes of live that runs surely hide
	deadOwn   uint64    // of that, in their own history
	relocated int       // number of relocated segments
	moved     uint64    // bytes of their targets' files
}

// segment is what a balance knows of one segment.
type segment struct {
	num     entry.FileNum
	records uint64 // live ones
	live    uint64 // bytes of the file that hold them
	garbage uint64 // the rest of the file
	died    bool   // some of it was live once
	score   float64
}

func newBalance(l *layout.Layout, s State, o Options) *balance {
	v := &balance{layout: l, state: s, options: o, runs: fileBytes(l.Runs())}
	targets := make(map[entry.FileNum]bool)
	for _, m := range l.Segments() {
		if st := m.State(); st.Status == layout.Relocated {
			v.relocated++
			// Several sources may have one target, whose bytes must count once.
			if !targets[st.Target] {
				targets[st.Target] = true
				v.moved += l.Segment(st.Target).FileBytes
			}
			continue
		}
		g := weighSegment(m)
		v.live += g.live
		v.garbage += g.garbage
		if g.died {
			v.died += g.garbage
		}
		// Old segments come first: in new ones more records may die soon.
		g.score = float64(g.garbage) / float64(g.live+1) * float64(l.NextFile()-m.Num)
		if v.isCollectable(m, g) {
			v.victims = append(v.victims, g)
		}
		if m.Kind == filename.Journal && g.records > 0 && !slices.Contains(s.Damaged, m.Num) {
			v.unsorted = append(v.unsorted, g)
		}
	}
	// Dead records of segments are garbage already. What runs hide still counts as live there.
	for _, r := range l.Runs() {
		dead := o.Dead(l, r.Superseded, s.Now)
		v.deadOwn += dead.Separated
		v.hidden += s.Hidden[r.ID] + dead.Separated
	}
	slices.SortStableFunc(v.victims, func(a, b segment) int { return cmp.Compare(b.score, a.score) })
	return v
}

// isCollectable reports whether a segment has enough garbage to be collected, and may be.
func (v *balance) isCollectable(m *layout.Segment, g segment) bool {
	return g.garbage*100 >= m.FileBytes*victimLeastPercent && v.isMovable(m, g)
}

// isMovable reports whether what is live in a segment may move. The target of a relocated segment
// waits until no run needs the forwarding table, so that a read follows one forwarding table only.
// A segment without live records is not collected but dropped.
func (v *balance) isMovable(m *layout.Segment, g segment) bool {
	return v.layout.Usage(m.Num).Sources == 0 && g.records > 0 && !slices.Contains(v.state.Damaged, m.Num)
}

// weighSegment returns what is live in a segment's file. All records of a value segment are of
// separated values; a journal segment also has records whose values are in runs.
func weighSegment(m *layout.Segment) segment {
	g := segment{num: m.Num, records: m.Records - min(m.DeadRecords(), m.Records), died: m.DeadRecords() > 0}
	overhead := uint64(0)
	if m.Records > 0 {
		overhead = (m.FileBytes - min(m.Bytes, m.FileBytes)) / m.Records
	}
	// Between the values of a journal segment lie records that are in runs now: not overhead, garbage.
	if m.Kind == filename.Journal {
		overhead = min(overhead, recordOverheadBytes)
	}
	g.live = min(m.Bytes-min(m.DeadBytes(), m.Bytes)+g.records*overhead, m.FileBytes)
	g.garbage = m.FileBytes - g.live
	return g
}

// neededBytes returns how many bytes of segments and journals the entries need.
func (v *balance) neededBytes() uint64 {
	// Hidden bytes may be estimates that are too high: the difference must not wrap around.
	all := v.live + v.state.Memtables.Values
	return all - min(all, v.hidden+v.state.Memtables.Older)
}

// excessBytes returns the bytes of garbage, known or estimated. Bytes between the values of
// segments without dead records don't count: while data is loaded, they can wait. Nor does all that
// runs hide if they weigh far more than the budget, as it is a small part of their data.
func (v *balance) excessBytes() uint64 {
	most, budget := v.mostHidden(), v.garbageBudget()
	hidden := v.hidden - min(v.hidden, max(most+most/2, budget)-budget)
	return v.died + hidden + v.state.Memtables.Older + min(v.runs, v.neededBytes()/runGarbageFraction)
}

// garbageBudget returns how much excess there may be while clients write, in bytes.
func (v *balance) garbageBudget() uint64 {
	share := v.neededBytes() / 100 * uint64(v.options.GarbageShare)
	return max(share-share/budgetRestFraction, budgetLeastBytes+budgetFixedBytes) - budgetFixedBytes
}

// idleGarbage returns the bytes of garbage that count in an idle store. The first
// IdleHiddenBytes that are hidden don't, as no idle compaction looks for them.
func (v *balance) idleGarbage() uint64 {
	return v.garbage + v.hidden - min(v.hidden, IdleHiddenBytes)
}

// idleBound returns how much idleGarbage may stay.
func (v *balance) idleBound() uint64 {
	slack := uint64(idleGarbageBytes)
	if v.state.Reclaim {
		slack = reclaimGarbageBytes
	}
	return v.live/100*idleGarbagePercent + slack
}

// fileBytes returns the size of all files of runs.
func fileBytes(runs []*layout.Run) (n uint64) {
	for _, r := range runs {
		n += r.FileBytes()
	}
	return n
}

// splitBase divides runs into the upper runs and the base; base is nil if there is none yet.
func splitBase(runs []*layout.Run) (uppers []*layout.Run, base *layout.Run) {
	if n := len(runs); n > 0 && runs[n-1].Tier == layout.Base {
		return runs[:n-1], runs[n-1]
	}
	return runs, nil
}
