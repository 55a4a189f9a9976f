package files

import (
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
)

// Unflushed lists the journal segments whose records are not yet in runs: those that Open found,
// and those written since.
type Unflushed struct {
	Journal *journal.Journal // set once it is open; nil if read-only

	mu       sync.Mutex            // guards:
	replayed []journal.SegmentInfo // segments from before Open; elements are never changed
}

// Found returns the segments from before Open.
func (u *Unflushed) Found() []journal.SegmentInfo {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.replayed
}

// Replay adds a segment that Open has found.
func (u *Unflushed) Replay(s journal.SegmentInfo) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.replayed = append(u.replayed, s)
}

// Segments returns all segments that are not yet in runs, in order.
func (u *Unflushed) Segments() []journal.SegmentInfo {
	found := u.Found()
	if u.Journal == nil {
		return found
	}
	return append(found[:len(found):len(found)], u.Journal.Segments()...)
}

// EndAt returns the end of journal segment num, where to is the point behind its last frame.
func (u *Unflushed) EndAt(num entry.FileNum, to journal.Point) layout.JournalEnd {
	s := u.segment(num)
	return layout.JournalEnd{Segment: num, Offset: uint64(s.End), Frame: to.NextFrame - 1, Chain: to.Chain, Life: s.Life, Tag: to.Tag}
}

// segment returns the journal segment of this number; zero if there is none.
func (u *Unflushed) segment(num entry.FileNum) journal.SegmentInfo {
	for _, s := range u.Segments() {
		if s.Num == num {
			return s
		}
	}
	return journal.SegmentInfo{}
}

// Forget drops the segments up to number last from the list, as their records are now in runs.
func (u *Unflushed) Forget(last entry.FileNum) {
	u.Journal.Forget(last)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.replayed = slices.DeleteFunc(slices.Clone(u.replayed), func(s journal.SegmentInfo) bool { return s.Num <= last })
}

// EndOf returns the end of a segment all of which is durable.
func EndOf(s journal.SegmentInfo) layout.JournalEnd {
	return layout.JournalEnd{Segment: s.Num, Offset: uint64(s.End), Frame: s.LastFrame, Chain: s.Chain, Life: s.Life, Tag: s.Tag}
}

// PointAfter returns the point in the journal where a replayed segment ends.
func (u *Unflushed) PointAfter(num entry.FileNum) journal.Point {
	for _, s := range u.Found() {
		if s.Num == num {
			return journal.Point{NextFrame: s.LastFrame + 1, Chain: s.Chain, Tag: s.Tag, LastVersion: s.Max, LastSegment: num}
		}
	}
	return journal.Point{}
}

// StartOf returns the point where the part of the journal begins that is not yet in runs, and the
// greatest frame number that the layout knows to have been durable.
func StartOf(layout *layout.Layout) (begin journal.Point, durable uint64) {
	begin.LastSegment = layout.FlushedTo()
	begin.LastVersion = layout.LastVersion()
	for _, e := range layout.JournalEnds() {
		durable = max(durable, e.Frame)
		if e.Segment == layout.FlushedTo() {
			begin.NextFrame, begin.Chain, begin.Tag = e.Frame+1, e.Chain, e.Tag
		}
	}
	return begin, durable
}

// KnownAfter returns the journal segments that are not in runs and for which the manifest records
// durable frames. There may be others that it does not know.
func KnownAfter(layout *layout.Layout) (known []journal.Registered) {
	for _, e := range layout.JournalEnds() {
		if e.Segment > layout.FlushedTo() {
			known = append(known, journal.Registered{Num: e.Segment, Life: e.Life})
		}
	}
	return known
}

// NewestWithFrames returns the last segment that has frames; zero if no segment has any.
func NewestWithFrames(segments []journal.SegmentInfo) journal.SegmentInfo {
	for _, s := range slices.Backward(segments) {
		if s.LastFrame >= s.FirstFrame {
			return s
		}
	}
	return journal.SegmentInfo{}
}

// DurableEnds returns how far each journal segment behind number after is known to be durable.
// For a segment that still grows, it tells only the last durable frame and no offset.
func (u *Unflushed) DurableEnds(after entry.FileNum) []layout.JournalEnd {
	var ends []layout.JournalEnd
	durable := u.Journal.Durable()
	for _, s := range u.Found() {
		if s.Num > after && s.FirstFrame <= durable {
			ends = append(ends, EndOf(s))
		}
	}
	for _, s := range u.Journal.Segments() {
		switch {
		case s.Num <= after || s.FirstFrame > durable:
		case s.Sealed && s.LastFrame <= durable:
			ends = append(ends, EndOf(s))
		default:
			ends = append(ends, layout.JournalEnd{Segment: s.Num, Frame: min(durable, s.LastFrame), Life: s.Life})
		}
	}
	return ends
}
