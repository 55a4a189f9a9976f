package files

import (
	"cmp"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/journal"
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

// Segment returns the journal segment of this number; zero if there is none.
func (u *Unflushed) Segment(num entry.FileNum) journal.SegmentInfo {
	for _, s := range u.Segments() {
		if s.File == num {
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
	u.replayed = slices.DeleteFunc(slices.Clone(u.replayed), func(s journal.SegmentInfo) bool { return s.File <= last })
}

// PointAfter returns the point in the journal where a replayed segment ends.
func (u *Unflushed) PointAfter(num entry.FileNum) journal.Point {
	for _, s := range u.Found() {
		if s.File == num {
			return journal.Point{End: s.End, LastVersion: s.Max}
		}
	}
	return journal.Point{}
}

// Known returns what the layout says of the journal behind the part that is in runs.
func Known(l *layout.Layout) journal.Known {
	k := journal.Known{Version: l.LastVersion(), Last: LastPossible(l), Closed: l.CleanClose()}
	k.Begin = journal.Point{End: frame.End{Name: frame.Name{File: l.FlushedTo()}}, LastVersion: l.LastVersion()}
	for _, s := range l.Sessions() {
		k.Found = append(k.Found, s.Found)
		// The session has made durable what it found before it recorded that.
		if s.Found.File > l.FlushedTo() {
			k.Durable = append(k.Durable, s.Found)
		}
	}
	for _, e := range l.JournalEnds() {
		if e.File == l.FlushedTo() {
			k.Begin.End = e
		} else if e.File > l.FlushedTo() {
			k.Durable = append(k.Durable, e)
		}
	}
	slices.SortFunc(k.Durable, func(a, b frame.End) int { return cmp.Compare(a.Number, b.Number) })
	return k
}

// DurableEnds returns how far each journal segment behind number after is known to be durable.
func (u *Unflushed) DurableEnds(after entry.FileNum) (ends []frame.End) {
	durable := u.Journal.DurableEnd()
	for _, s := range u.Found() {
		if s.File > after && s.FirstFrame <= durable.Number {
			ends = append(ends, s.End)
		}
	}
	for _, s := range u.Journal.Segments() {
		switch {
		case s.File <= after || s.FirstFrame > durable.Number:
		case s.Number <= durable.Number:
			ends = append(ends, s.End)
		default: // the last one that has durable frames
			ends = append(ends, durable)
		}
	}
	return ends
}
