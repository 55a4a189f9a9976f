package policy

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/run/meta"
)

const (
	maxRemaps     = 16      // relocated segments at most
	recordBytes   = 64      // more than this around a value in a journal segment is not its record's
	idleGarbage   = 20      // percent of what is live that an idle store keeps as garbage, and
	idleSlack     = 8 << 20 // so much more; less if space is asked for:
	reclaimSlack  = 64 << 10
	idleShare     = 50        // percent of garbage from which on a segment of an idle store is collected in any case
	leastGarbage  = 5         // percent: no segment is worth moving for less
	idleHealBytes = 256 << 20 // runs of this size are healed at idle, larger ones if
	idleHealShare = 2         // times the collected data
)

// Collection moves what is live in some segments to a new one.
type Collection struct {
	Victims []entry.FileNum // ascending
	Reason  string
	Bytes   uint64 // of the files, what is live and moves
}

// wasted is what Decide knows of garbage and remaps.
type wasted struct {
	layout  *manifest.Layout
	state   State
	options Options

	victims   []victim // that could be collected, the best first
	live      uint64   // bytes of all segments' files that hold needed values
	garbage   uint64   // the rest of them
	died      uint64   // of that, in segments of which some was needed once
	keys      uint64   // bytes of the files of runs
	hidden    uint64   // bytes of live that upper runs are thought to hide
	relocated int      // segments
	moved     uint64   // bytes of their targets' files
}

// victim is a segment that could be collected.
type victim struct {
	num     entry.FileNum
	records uint64 // live ones
	live    uint64 // bytes of the file that hold them
	garbage uint64 // the rest of the file
	died    bool   // some of it was needed once
	small   bool   // for clustering
	score   float64
}

// waste looks at all segments of the layout.
func waste(l *manifest.Layout, s State, o Options) *wasted {
	w := &wasted{layout: l, state: s, options: o}
	targets := make(map[entry.FileNum]bool)
	for _, seg := range l.Segments() {
		if st := seg.State(); st.Status == manifest.Relocated {
			w.relocated++
			if !targets[st.Target] {
				targets[st.Target] = true
				w.moved += l.Segment(st.Target).FileBytes
			}
			continue
		}
		v := weighSegment(seg)
		w.live += v.live
		w.garbage += v.garbage
		if v.died {
			w.died += v.garbage
		}
		// Old garbage is preferred: what was written last may yet die by itself.
		v.score = float64(v.garbage) / float64(v.live+1) * float64(l.NextFile()-seg.Num)
		// The target of a relocated segment waits until that is healed, so that
		// a read follows one remap only. One without live records goes as a whole.
		if l.Usage(seg.Num).Sources == 0 && v.records > 0 && v.garbage*100 >= seg.FileBytes*leastGarbage && !slices.Contains(s.Damaged, seg.Num) {
			w.victims = append(w.victims, v)
		}
	}
	for _, r := range l.Runs() {
		w.keys += r.FileBytes()
	}
	w.hidden = hidden(l, s)
	slices.SortStableFunc(w.victims, func(a, b victim) int { return cmp.Compare(b.score, a.score) })
	return w
}

// weighSegment tells what is needed of a segment's file. A value segment has
// nothing but records; a journal segment also has those that are kept in runs.
func weighSegment(s *manifest.Segment) victim {
	v := victim{num: s.Num, records: s.Records - min(s.DeadRecords(), s.Records), died: s.DeadRecords() > 0}
	around := uint64(0)
	if s.Records > 0 {
		around = (s.FileBytes - min(s.Bytes, s.FileBytes)) / s.Records
	}
	if s.Kind == filename.Journal {
		around = min(around, recordBytes)
	}
	v.live = min(s.Bytes-min(s.DeadBytes(), s.Bytes)+v.records*around, s.FileBytes)
	v.garbage = s.FileBytes - v.live
	return v
}

// atRest is the garbage of which an idle store may keep so much as bound says. A
// little that is hidden is not worth a merge (mayHide), and so is not counted.
func (w *wasted) atRest() uint64 { return w.garbage + w.hidden - min(w.hidden, hiddenLeast) }

// bound is how much garbage may stay if nobody writes.
func (w *wasted) bound() uint64 {
	slack := uint64(idleSlack)
	if w.state.Reclaim {
		slack = reclaimSlack
	}
	return w.live/100*idleGarbage + slack
}

// wanted reports whether v is to be collected after so many bytes were freed.
func (w *wasted) wanted(v *victim, freed uint64) bool {
	of := func(percent uint64) bool { return v.garbage*100 >= (v.live+v.garbage)*percent }
	if w.state.Idle || w.state.Reclaim {
		return of(idleShare) || w.atRest()-freed > w.bound()
	}
	if of(readyShare) {
		return true
	}
	// While data is loaded, what lies between values in journals can wait. The
	// share of the whole store that is garbage when the budget is used up is
	// share/(100+share): a segment with less than half of that is better left.
	share := uint64(w.options.GarbageShare)
	return v.died && of(50*share/(100+share)) && w.over(freed, collectFrom)
}

// batch is how much one collection moves at most: for its time the store is larger
// by so much.
func (w *wasted) batch() uint64 {
	share := w.needed() / batchPart
	if w.state.Idle || w.state.Reclaim {
		share *= 2 // where haste costs more, in merges for remaps, than it gains
	}
	return min(max(share, batchLeast), w.options.SegmentBytes)
}

// collection chooses what to collect now; nil if nothing is worth it, or there
// are too many remaps.
func (w *wasted) collection() *Collection {
	c := &Collection{Reason: "garbage in segments"}
	var records, freed uint64
	most := w.batch()
	for i := range w.victims {
		v := &w.victims[i]
		if len(c.Victims)+w.relocated == maxRemaps {
			break
		}
		if !w.wanted(v, freed) || w.state.DiskSpace > 0 && c.Bytes+v.live > uint64(w.state.DiskSpace) {
			continue
		}
		if len(c.Victims) > 0 && (c.Bytes+v.live > most || records+v.records > w.options.MovedRecords) {
			continue
		}
		c.Victims = append(c.Victims, v.num)
		c.Bytes, records, freed = c.Bytes+v.live, records+v.records, freed+v.garbage
	}
	if len(c.Victims) == 0 {
		return nil
	}
	slices.Sort(c.Victims)
	return c
}

// healing chooses a merge that leaves no remap behind: when these stand in the
// way of a collection, or when there is time.
func (w *wasted) healing() *Compaction {
	if w.relocated == 0 {
		return nil
	}
	runs := w.layout.Runs()
	first, last := -1, -1
	var size uint64
	for i, r := range runs {
		if w.refersToRelocated(r) {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return nil
	}
	row := runs[first : last+1]
	for _, r := range row {
		size += r.FileBytes()
	}
	blocked := w.relocated >= maxRemaps && slices.ContainsFunc(w.victims, func(v victim) bool { return w.wanted(&v, 0) })
	quiet := w.state.Idle && (size <= max(idleHealBytes, idleHealShare*w.moved) || w.atRest() > w.bound())
	if !blocked && !quiet && !w.state.Reclaim {
		return nil
	}
	tier := manifest.Upper
	if last == len(runs)-1 {
		tier = manifest.Base
	}
	return into(tier, row, "handles lead through remaps")
}

func (w *wasted) refersToRelocated(r *manifest.Run) bool {
	return slices.ContainsFunc(r.Refs, func(f meta.Ref) bool {
		return w.layout.Segment(f.Segment).State().Status == manifest.Relocated
	})
}
