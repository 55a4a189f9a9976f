package compact

import (
	"iter"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// Liveness counts the separated values of a memtable in each of its journal segments,
// and says which of these stay as they are when the memtable is flushed.
type Liveness map[entry.FileNum]*liveRecords

// liveRecords is what one journal segment has of a memtable.
type liveRecords struct {
	records uint64 // all, dead or not
	bytes   uint64 // of their values
	live    uint64 // encoded records of those that outlive the flush
	keep    bool   // the segment stays as it is
}

// Moves reports whether values leave the segment.
func (c Liveness) Moves(num entry.FileNum) bool {
	s := c[num]
	return s != nil && !s.keep
}

func (c Liveness) addRecord(h entry.Handle) *liveRecords {
	s := c[h.Segment]
	if s == nil {
		s = new(liveRecords)
		c[h.Segment] = s
	}
	s.records++
	s.bytes += h.Length
	return s
}

// MeasureLiveness counts what the flush of a memtable will leave alive in each journal
// segment, and decides which of them to keep: kept has these as value segments. If the live
// values of the others take more than room, in bytes, it keeps each segment that has any. entries
// are those of the memtable, and shadowed is what they have shadowed.
func MeasureLiveness(entries iterator.Iterator, shadowed iter.Seq[entry.Handle], segments []journal.SegmentInfo, rules Rules, room int64) (c Liveness, kept []layout.Segment) {
	c = make(Liveness)
	// A pass of its own: the flush must know which segments stay before it copies
	// the first value out of one.
	r := newRetention(rules)
	defer entries.Close()
	defer r.closeCovers()
	for ok := entries.First(); ok; ok = entries.Next() {
		e := entries.Entry()
		outlives := r.judge(e) == keep
		if !e.Separated {
			continue
		}
		s := c.addRecord(e.Handle)
		if outlives {
			s.live += uint64(entry.RecordSize(e, true))
		}
	}
	for h := range shadowed {
		c.addRecord(h)
	}
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
