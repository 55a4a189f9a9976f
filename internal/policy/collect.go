package policy

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/manifest"
)

const (
	maxRemaps     = 16      // relocated segments at most
	recordBytes   = 64      // more than this around a value in a journal segment is not its record's
	idleGarbage   = 20      // percent of what is live that an idle store keeps as garbage, and
	idleSlack     = 8 << 20 // so much more; less if space is asked for:
	reclaimSlack  = 64 << 10
	busySlack     = 2 << 20
	busyGarbage   = 40        // percent of GarbageShare, of what is live: more is too much in all segments together
	lagGarbage    = 60        // likewise: from here on collection lags behind writers
	urgentGarbage = 25        // percent of what is live
	leastGarbage  = 5         // percent: no segment is worth moving for less
	idleHealBytes = 256 << 20 // runs of this size are healed at idle, larger ones if
	idleHealShare = 2         // times the collected data
)

// Collection moves what is live in some segments to a new one.
type Collection struct {
	Victims []entry.FileNum // ascending
	Reason  string
	Urgent  bool // there is so much garbage that clients may notice the work
}

// wasted is what Decide knows of garbage and remaps.
type wasted struct {
	layout  *manifest.Layout
	state   State
	options Options

	victims   []victim // that could be collected, the best first
	live      uint64   // bytes of all segments' files that hold needed values
	garbage   uint64   // the rest of them
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
		// Old garbage is preferred: what was written last may yet die by itself.
		v.score = float64(v.garbage) / float64(v.live+1) * float64(l.NextFile()-seg.Num)
		// The target of a relocated segment waits until that is healed, so that
		// a read follows one remap only. One without live records goes as a whole.
		if l.Usage(seg.Num).Sources == 0 && v.records > 0 && v.garbage*100 >= seg.FileBytes*leastGarbage && !slices.Contains(s.Damaged, seg.Num) {
			w.victims = append(w.victims, v)
		}
	}
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

// bound is how much garbage may stay if nobody writes.
func (w *wasted) bound() uint64 {
	slack := uint64(idleSlack)
	if w.state.Reclaim {
		slack = reclaimSlack
	}
	return w.live/100*idleGarbage + slack
}

// wanted reports whether v is to be collected while so much garbage is left.
func (w *wasted) wanted(v *victim, left uint64) bool {
	share := uint64(w.options.GarbageShare)
	of := func(percent uint64) bool { return v.garbage*100 >= (v.live+v.garbage)*percent }
	switch {
	case of(share):
		return true
	case w.state.Idle || w.state.Reclaim:
		return left > w.bound()
	}
	// While data is loaded, what lies between values in journals can wait.
	return v.died && of(share/2) && left > w.live/100*share*busyGarbage/100+busySlack
}

// collection chooses what to collect now; nil if nothing is worth it, or there
// are too many remaps.
func (w *wasted) collection() *Collection {
	c := &Collection{Reason: "garbage in segments"}
	var live, records uint64
	left := w.garbage
	for i := range w.victims {
		v := &w.victims[i]
		if len(c.Victims)+w.relocated == maxRemaps {
			break
		}
		if !w.wanted(v, left) || w.state.Room > 0 && live+v.live > uint64(w.state.Room) {
			continue
		}
		if len(c.Victims) > 0 && (live+v.live > w.options.SegmentBytes || records+v.records > w.options.MovedRecords) {
			continue
		}
		c.Victims = append(c.Victims, v.num)
		live, records, left = live+v.live, records+v.records, left-v.garbage
	}
	if len(c.Victims) == 0 {
		return nil
	}
	slices.Sort(c.Victims)
	c.Urgent = w.garbage >= w.live/100*urgentGarbage
	return c
}

// Lag says by how much collection lags behind writers, from 1 to 4; 0 if it does
// not: garbage that it could move away is more than Options wants, and more than
// two segments.
func Lag(l *manifest.Layout, s State, o Options) int {
	o = o.withDefaults()
	w := waste(l, s, o)
	limit := w.live/100*uint64(o.GarbageShare)*lagGarbage/100 + 2*o.SegmentBytes
	if w.garbage <= limit || w.collection() == nil {
		return 0
	}
	return 1 + int(min(3, (w.garbage-limit)/(w.live/8+1)))
}

// healing chooses a merge that leaves no remap behind: when these stand in the
// way of a collection, or when there is time.
func (w *wasted) healing() *Merge {
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
	blocked := w.relocated >= maxRemaps && slices.ContainsFunc(w.victims, func(v victim) bool { return w.wanted(&v, w.garbage) })
	quiet := w.state.Idle && size <= max(idleHealBytes, idleHealShare*w.moved)
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
	return slices.ContainsFunc(r.Refs, func(f manifest.Ref) bool {
		return w.layout.Segment(f.Segment).State().Status == manifest.Relocated
	})
}
