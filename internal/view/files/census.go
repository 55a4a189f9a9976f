package files

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// Census counts the separated values of a memtable in each of its journal segments,
// and says which of these stay as they are when the memtable is flushed.
type Census map[entry.FileNum]*count

// count is what one journal segment has of a memtable.
type count struct {
	records uint64 // all, dead or not
	bytes   uint64 // of their values
	live    uint64 // encoded records of those that outlive the flush
	keep    bool   // the segment stays as it is
}

// Moves reports whether values leave the segment.
func (c Census) Moves(num entry.FileNum) bool {
	s := c[num]
	return s != nil && !s.keep
}

func (c Census) add(h entry.Handle) *count {
	s := c[h.Segment]
	if s == nil {
		s = new(count)
		c[h.Segment] = s
	}
	s.records++
	s.bytes += h.Length
	return s
}

// CensusOf counts what the flush of a memtable will leave alive in each journal
// segment, and decides which of them to keep: kept has these as value segments. If the live
// values of the others take more than room, in bytes, it keeps each segment that has any.
func (u *Unflushed) CensusOf(sealed *view.Table, rules compact.Rules, room int64) (c Census, kept []layout.Segment) {
	c = make(Census)
	if sealed.Separated.Load() == 0 {
		return c, nil
	}
	// A pass of its own: the flush must know which segments stay before it copies
	// the first value out of one.
	compact.Each(sealed.Sorted(), rules, func(e *entry.Entry, outlives bool) {
		if !e.Separated {
			return
		}
		s := c.add(e.Handle)
		if outlives {
			s.live += uint64(entry.RecordSize(e, true))
		}
	})
	sealed.Shadowed(func(h entry.Handle) { c.add(h) })
	moves := uint64(0)
	for num, s := range c {
		if s.keep = policy.KeepSegment(s.live, uint64(u.Segment(num).Offset)); !s.keep {
			moves += s.live
		}
	}
	for num, s := range c {
		if s.keep = s.keep || s.live > 0 && int64(moves) > room; s.keep {
			file := u.Segment(num)
			kept = append(kept, layout.Segment{Num: num, Kind: filename.Journal, FileBytes: uint64(file.Offset), Records: s.records, Bytes: s.bytes, Life: file.Life})
		}
	}
	return c, kept
}
