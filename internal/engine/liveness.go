package engine

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// liveness counts the separated values of a memtable in each of its journal segments,
// and says which of these stay as they are when the memtable is flushed.
type liveness map[entry.FileNum]*liveRecords

// liveRecords is what one journal segment has of a memtable.
type liveRecords struct {
	records uint64 // all, dead or not
	bytes   uint64 // of their values
	live    uint64 // encoded records of those that outlive the flush
	keep    bool   // the segment stays as it is
}

// moves reports whether values leave the segment.
func (c liveness) moves(num entry.FileNum) bool {
	s := c[num]
	return s != nil && !s.keep
}

func (c liveness) addRecord(h entry.Handle) *liveRecords {
	s := c[h.Segment]
	if s == nil {
		s = new(liveRecords)
		c[h.Segment] = s
	}
	s.records++
	s.bytes += h.Length
	return s
}

// measureLiveness counts what the flush of a memtable will leave alive in each journal
// segment, and decides which of them to keep: kept has these as value segments. If the live
// values of the others take more than room, in bytes, it keeps each segment that has any.
func measureLiveness(sealed *view.Table, segments []journal.SegmentInfo, rules compact.Rules, room int64) (c liveness, kept []layout.Segment) {
	c = make(liveness)
	if sealed.Separated.Load() == 0 {
		return c, nil
	}
	// A pass of its own: the flush must know which segments stay before it copies
	// the first value out of one.
	compact.Each(sealed.Sorted(), rules, func(e *entry.Entry, outlives bool) {
		if !e.Separated {
			return
		}
		s := c.addRecord(e.Handle)
		if outlives {
			s.live += uint64(entry.RecordSize(e, true))
		}
	})
	sealed.Shadowed(func(h entry.Handle) { c.addRecord(h) })
	moves := uint64(0)
	for num, s := range c {
		if s.keep = policy.KeepSegment(s.live, uint64(journal.FindSegment(segments, num).Offset)); !s.keep {
			moves += s.live
		}
	}
	for num, s := range c {
		if s.keep = s.keep || s.live > 0 && int64(moves) > room; s.keep {
			file := journal.FindSegment(segments, num)
			kept = append(kept, layout.Segment{Num: num, Kind: filename.Journal, FileBytes: uint64(file.Offset), Records: s.records, Bytes: s.bytes, KeyID: file.KeyID})
		}
	}
	return c, kept
}
