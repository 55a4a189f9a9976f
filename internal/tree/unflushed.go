package tree

import (
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
)

// unflushed knows the journal segments that are not yet in runs: those that Open
// found, and those written since.
type unflushed struct {
	journal *journal.Journal // set once it is open; nil if read-only

	mu       sync.Mutex            // guards:
	replayed []journal.SegmentInfo // from before Open; never written to, but replaced
}

func (u *unflushed) found() []journal.SegmentInfo {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.replayed
}

// segments describes them, in order.
func (u *unflushed) segments() []journal.SegmentInfo {
	found := u.found()
	if u.journal == nil {
		return found
	}
	return append(found[:len(found):len(found)], u.journal.Segments()...)
}

// size is the length of a journal segment up to its last frame.
func (u *unflushed) size(num entry.FileNum) int64 {
	for _, s := range u.segments() {
		if s.Num == num {
			return s.End
		}
	}
	return 0
}

// forget drops the segments up to number last, whose records are in runs.
func (u *unflushed) forget(last entry.FileNum) {
	u.journal.Forget(last)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.replayed = slices.DeleteFunc(slices.Clone(u.replayed), func(s journal.SegmentInfo) bool { return s.Num <= last })
}

// endOf is the end of a segment that is durable as a whole.
func endOf(s journal.SegmentInfo) layout.JournalEnd {
	return layout.JournalEnd{Segment: s.Num, Offset: uint64(s.End), Frame: s.LastFrame, Chain: s.Chain}
}

// pointAfter is the place in the journal where a replayed segment ends.
func (u *unflushed) pointAfter(num entry.FileNum) journal.Point {
	for _, s := range u.found() {
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
func (u *unflushed) durableEnds(after entry.FileNum) []layout.JournalEnd {
	var ends []layout.JournalEnd
	durable := u.journal.Durable()
	for _, s := range u.found() {
		if s.Num > after && s.FirstFrame <= durable {
			ends = append(ends, endOf(s))
		}
	}
	for _, s := range u.journal.Segments() {
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
