package tree

import (
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
)

// The journal segments that are not yet in runs: those that Open found, and those
// written since.

// journalSegments describes the segments that are not yet in runs, in order.
func (t *Tree) journalSegments() []journal.SegmentInfo {
	t.mu.Lock()
	replayed := t.replayed
	t.mu.Unlock()
	if t.journal == nil {
		return replayed
	}
	return append(replayed[:len(replayed):len(replayed)], t.journal.Segments()...)
}

// journalSize is the length of a journal segment up to its last frame.
func (t *Tree) journalSize(num entry.FileNum) int64 {
	for _, s := range t.journalSegments() {
		if s.Num == num {
			return s.End
		}
	}
	return 0
}

// forget drops the segments up to number last, whose records are in runs.
func (t *Tree) forget(last entry.FileNum) {
	t.journal.Forget(last)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replayed = slices.DeleteFunc(slices.Clone(t.replayed), func(s journal.SegmentInfo) bool { return s.Num <= last })
}

// endOf is the end of a segment that is durable as a whole.
func endOf(s journal.SegmentInfo) layout.JournalEnd {
	return layout.JournalEnd{Segment: s.Num, Offset: uint64(s.End), Frame: s.LastFrame, Chain: s.Chain}
}

// pointAfter is the place in the journal where a replayed segment ends.
func (t *Tree) pointAfter(num entry.FileNum) journal.Point {
	for _, s := range t.replayed {
		if s.Num == num {
			return journal.Point{NextFrame: s.LastFrame + 1, Chain: s.Chain, LastVersion: s.Max, LastSegment: num}
		}
	}
	return journal.Point{}
}

// startOf says where the part of the journal begins that is not yet in runs, and
// which of its frames are known to have been durable.
func startOf(layout *layout.Layout) (begin journal.Point, durable uint64) {
	begin.LastSegment = layout.FlushedTo()
	begin.LastVersion = layout.LastVersion()
	for _, e := range layout.JournalEnds() {
		durable = max(durable, e.Frame)
		if e.Segment == layout.FlushedTo() {
			begin.NextFrame, begin.Chain = e.Frame+1, e.Chain
		}
	}
	return begin, durable
}

// knownAfter lists the journal segments that are not in runs and had durable
// frames, as far as the manifest knows.
func knownAfter(layout *layout.Layout) (nums []entry.FileNum) {
	for _, e := range layout.JournalEnds() {
		if e.Segment > layout.FlushedTo() {
			nums = append(nums, e.Segment)
		}
	}
	return nums
}

// journalOwner is the tree as its journal knows it.
type journalOwner struct{ *Tree }

func (o journalOwner) NextNum() entry.FileNum { return o.nextFile() }

func (o journalOwner) SegmentLimit() int64 { return o.segmentLimit() }

func (o journalOwner) Recycle() (name string, ok bool) { return o.spares.take() }

func (o journalOwner) DiskFull() { o.journalFull() }

// Register has the manifest know that a journal segment has durable frames. Only the
// frame is told, as by durableEnds, and it does without the mutex recording: other
// edits say no less of the segment, whichever comes first, and rely on nothing
// that this one says. So the leader waits for no more than an edit under way.
func (o journalOwner) Register(s journal.SegmentInfo) error {
	return o.log.Register(s.Num, s.LastFrame)
}

// newestWithFrames is the last of the segments that a replay found that has
// frames; without one it is zero.
func newestWithFrames(segments []journal.SegmentInfo) journal.SegmentInfo {
	for _, s := range slices.Backward(segments) {
		if s.LastFrame >= s.FirstFrame {
			return s
		}
	}
	return journal.SegmentInfo{}
}

// durableEnds says how far the journal after a segment is known to be durable.
// Of a segment that still grows only the frame is told, not its place: that may
// lie before the end by the next time, and an end never goes back.
func (t *Tree) durableEnds(after entry.FileNum) []layout.JournalEnd {
	var ends []layout.JournalEnd
	durable := t.journal.End().Durable
	t.mu.Lock()
	replayed := t.replayed
	t.mu.Unlock()
	for _, s := range replayed {
		if s.Num > after && s.FirstFrame <= durable {
			ends = append(ends, endOf(s))
		}
	}
	for _, s := range t.journal.Segments() {
		switch {
		case s.Num <= after || s.FirstFrame > durable:
		case s.Sealed && s.LastFrame <= durable:
			ends = append(ends, endOf(s))
		default:
			ends = append(ends, layout.JournalEnd{Segment: s.Num, Frame: min(durable, s.LastFrame)})
		}
	}
	return ends
}
