package spill

import (
	"context"
	"errors"

	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/iterator"
)

// fanIn is how many parts of one level become one of the next. A read of pending
// writes looks into fewer than fanIn parts a level, and each key is rewritten
// once a level.
const fanIn = 10

// mergeLevels merges parts while there are enough of one level.
func (s *Spill) mergeLevels(ctx context.Context) error {
	for len(s.parts) > 0 {
		n, level := 0, s.parts[0].level
		for n < len(s.parts) && s.parts[n].level == level {
			n++
		}
		if n < fanIn {
			return nil
		}
		if err := s.merge(ctx, n, level+1, true); err != nil {
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
	s.err = s.finish(ctx)
	if s.err == nil {
		s.err = errFinished
		return nil
	}
	return s.err
}

var errFinished = errors.New("spill is finished")

func (s *Spill) finish(ctx context.Context) error {
	if err := s.finishValues(); err != nil {
		return err
	}
	if s.bytes == 0 {
		return errs.ErrInvalid
	}
	return s.merge(ctx, len(s.parts), 0, false)
}

// merge makes one part of the newest n, without what they have overwritten and
// range deletes cover. The last one has the range deletes.
func (s *Spill) merge(ctx context.Context, n, level int, unsynced bool) error {
	sources := make([]iterator.Iterator, n)
	last := entry.Version(0)
	for i, p := range s.parts[:n] {
		sources[i] = &versioned{Iterator: uncovered(p, s.ranges, s.drop), version: p.last}
		last = max(last, p.last)
	}
	w := s.newRun(unsynced)
	if !unsynced {
		for _, t := range s.Ranges() {
			t.Version = 0
			if err := w.AddTombstone(t); err != nil {
				w.Abort()
				return err
			}
		}
	}
	out, err := compact.Execute(ctx, compact.Input{
		Entries: &versioned{Iterator: iterator.Merge(sources)},
		Rules:   compact.Rules{Watermark: entry.MaxVersion},
		Run:     w,
	})
	if err != nil {
		return err
	}
	for _, list := range out.Dead.Lists() {
		s.dead.Take(list)
	}
	if len(out.Run.Files) == 0 { // all was covered
		s.retire(n)
		return nil
	}
	return s.open(out.Run, n, level, last)
}

// versioned gives all entries of an Iterator a version: parts have one each while
// they are merged, so that the entries of a key come newest first, and none
// afterwards; and entries that are read beside committed ones have another.
type versioned struct {
	iterator.Iterator
	version entry.Version
	copy    entry.Entry
}

// Entry is a copy, as the Iterator's own entry belongs to that.
func (it *versioned) Entry() *entry.Entry {
	it.copy = *it.Iterator.Entry()
	it.copy.Version = it.version
	return &it.copy
}
