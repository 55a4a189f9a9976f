package tree

import (
	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/view"
)

// count is how many separated values of a memtable one journal segment holds.
type count struct {
	num     entry.FileNum
	records uint64 // all, dead or not
	bytes   uint64 // of their values
	live    uint64 // encoded records of those that outlive the flush
	keep    bool   // the segment stays as it is
}

type census map[entry.FileNum]*count

// moves says whether values leave the segment.
func (c census) moves(num entry.FileNum) bool {
	s := c[num]
	return s != nil && !s.keep
}

func (c census) keepsAny() bool {
	for _, s := range c {
		if s.keep {
			return true
		}
	}
	return false
}

func (c census) of(num entry.FileNum) *count {
	s := c[num]
	if s == nil {
		s = &count{num: num}
		c[num] = s
	}
	return s
}

// censusOf counts, in a pass of its own, what the flush of a memtable will leave
// alive in each journal segment, and decides which of them to keep.
func censusOf(sealed *view.Table, rules compact.Rules, journal *files.Unflushed) census {
	c := make(census)
	if sealed.Separated.Load() == 0 {
		return c
	}
	compact.Each(sealed.Sorted(), rules, func(e *entry.Entry, kept bool) {
		if !e.Separated {
			return
		}
		s := c.of(e.Handle.Segment)
		s.records++
		s.bytes += e.Handle.Length
		if kept {
			s.live += uint64(entry.RecordSize(e, true))
		}
	})
	sealed.Shadowed(func(h entry.Handle) {
		s := c.of(h.Segment)
		s.records++
		s.bytes += h.Length
	})
	for _, s := range c {
		s.keep = policy.KeepSegment(s.live, uint64(journal.Size(s.num)))
	}
	return c
}
