package compact

import (
	"context"
	"errors"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// fanIn is how many parts of one level become one of the next. A read of pending
// writes looks into fewer than fanIn parts a level, and each key is rewritten
// once a level.
const fanIn = 10

// compactLevels compacts parts while there are fanIn of one level. The newest parts have the lowest
// level.
func (s *Spill) compactLevels(ctx context.Context) error {
	for len(s.parts) > 0 {
		n, level := 0, s.parts[0].level
		for n < len(s.parts) && s.parts[n].level == level {
			n++
		}
		if n < fanIn {
			return nil
		}
		// Not synced: Finish writes everything once more.
		if err := s.compactNewest(ctx, n, level+1, true); err != nil {
			return err
		}
	}
	return nil
}

// Finish makes one durable run of everything, and ends the value segments.
// Nothing can be added afterwards; all else goes on. After an error the Spill can
// only be discarded.
func (s *Spill) Finish(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	s.err = s.finishFiles(ctx)
	if s.err == nil {
		s.err = errFinished
		return nil
	}
	return s.err
}

var errFinished = errors.New("spill is finished")

// finishFiles makes everything durable: first the values, then the run that leads to them.
func (s *Spill) finishFiles(ctx context.Context) error {
	if err := s.values.finishSegment(); err != nil {
		return err
	}
	if s.bytes == 0 {
		return errs.ErrInvalid
	}
	return s.compactNewest(ctx, len(s.parts), 0, false)
}

// compactNewest makes one part of the newest n, without what they have overwritten and range
// deletes cover.
func (s *Spill) compactNewest(ctx context.Context, n, level int, unsynced bool) error {
	sources := make([]iterator.Iterator, n)
	var ranges []rangedel.Source // of newer parts
	for i, p := range s.parts[:n] {
		t := p.RangeDeletes().Copier()
		defer t.Close()
		// Entries have no version yet. For the merge the age of their part is one: newer parts hide
		// older ones.
		sources[i] = &versioned{Iterator: uncovered(p.Copier(), ranges, &s.dead), version: entry.Version(n - i)}
		ranges = append(ranges, t)
	}
	w := s.newRun(unsynced)
	out, err := Execute(ctx, Input{
		Entries: &versioned{Iterator: iterator.Merge(sources)},
		// After the commit only the newest write of a key counts, so older ones go.
		Rules:  Rules{Watermark: entry.MaxVersion},
		Ranges: ranges,
		Run:    w,
	})
	if err != nil {
		return err
	}
	for _, list := range out.Dead.Lists() {
		s.dead.Take(list)
	}
	if len(out.Run.Files) == 0 { // everything was covered
		s.retire(n)
		return nil
	}
	return s.openRun(out.Run, n, level)
}
