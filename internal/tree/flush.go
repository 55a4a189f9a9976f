package tree

import (
	"context"
	"fmt"
	"time"

	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/run/meta"
	"github.com/brockdb/brock/internal/view"
)

// flushOldest writes the oldest sealed memtable into a run, and reports whether
// there was one. What becomes of its journal segments is decided here, while
// handles are being written anyway: one that is mostly live values is kept as
// it is and is a value segment from now on; the values of the others move, in
// key order, to a new one, and the file is free.
func (t *Tree) flushOldest(ctx context.Context) (did bool, err error) {
	hold, err := t.views.Hold()
	if err != nil {
		return false, err
	}
	defer t.views.Reclaim() // what this replaces
	part, release := hold.Narrow(func(part *view.View) {
		part.Tables = part.Tables[max(1, len(part.Tables)-1):]
		part.Segments = part.Segments.Without(func(num entry.FileNum) bool { return part.Layout.Segment(num) != nil })
	})
	defer release()
	if len(part.Tables) == 0 {
		return false, nil
	}
	t.searchIf(t.emptied.Behind) // while the deletes are still in memory
	sealed := part.Tables[0]
	work := Work{Kind: "flush", WorkInfo: WorkInfo{Reason: "memtable sealed", BytesIn: sealed.Bytes()}}
	begin := time.Now()
	defer func() { t.count.report(work, begin, err) }()
	drops := t.drops.Load()
	rules := t.retention.rules(len(part.Runs) == 0)
	rules.Tombstones = sealed.Tombstones()
	census := t.census(sealed, rules)
	if census.keepsAny() {
		// The manifest must not name what a power loss would take.
		if err := t.journal.SyncSealed(); err != nil {
			return false, fmt.Errorf("flush: %w", err)
		}
	}
	out, err := compact.Execute(ctx, compact.Input{
		Entries: sealed.Sorted(),
		Rules:   rules,
		Extract: census.moves,
		Value:   part.Stored,
		Run:     t.files.newRunWriter(rules.Bottom, entry.NewExpiries(rules.Now)),
		Values:  t.files.newValueWriter, ValueBytes: t.budget.segmentLimit(),
	})
	if err != nil {
		return false, fmt.Errorf("flush: %w", err)
	}
	sealed.Shadowed(out.Dead.Add)
	edit := &layout.Edit{
		FlushedTo:   sealed.Last,
		JournalEnds: []layout.JournalEnd{{Segment: sealed.Last, Offset: uint64(t.unflushed.size(sealed.Last)), Frame: sealed.End.NextFrame - 1, Chain: sealed.End.Chain}},
		AddRuns:     newRuns(out.Run, layout.Upper),
	}
	for _, s := range census {
		if s.keep {
			edit.AddSegments = append(edit.AddSegments, layout.Segment{
				Num: s.num, Kind: filename.Journal, FileBytes: uint64(t.unflushed.size(s.num)), Records: s.records, Bytes: s.bytes,
			})
		}
	}
	change := change{tables: []*view.Table{sealed}, hidden: t.sampler.hiddenBy(sealed), drops: drops}
	if err := t.conclude(edit, &out, change); err != nil {
		return false, fmt.Errorf("flush: %w", err)
	}
	work.done(&out)
	return true, nil
}

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

// census counts, in a pass of its own, what the flush of a memtable will leave
// alive in each journal segment, and decides which of them to keep.
func (t *Tree) census(sealed *view.Table, rules compact.Rules) census {
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
		s.keep = policy.KeepSegment(s.live, uint64(t.unflushed.size(s.num)))
	}
	return c
}

// newRuns makes a run of what a writer finished, none if it is empty.
func newRuns(m meta.Run, tier layout.Tier) []layout.Run {
	if len(m.Files) == 0 {
		return nil
	}
	return []layout.Run{{ID: layout.RunID(m.Files[0].Num), Tier: tier, Run: m}}
}
