package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
)

// A clustering is a compaction of all runs that also moves values out of some segments, in the
// order in which it meets their keys, as a flush does. So dead records are counted exactly, no
// forwarding table is needed, and a View has either the old run and the old segments, or the new
// ones. Scans pay for it by the bytes that they jump to. Without it a scan of 1 KB values that were
// loaded in random order takes twice the processor's time, and a seek with 50 values as well.

var errWritersAreBack = errors.New("clustering gave way to writers")

// AddJumped adds bytes that iterators had to jump to (Pin.Jump), and has an idle store look
// whether clustering is worth it by now.
func (w *Worker) AddJumped(bytes uint64) {
	if !w.cfg.ReadOnly && !w.cfg.NoClustering {
		w.jumped.Add(bytes)
		// Arm and not Touch: readers must not put off work that waits for silent writers.
		w.tasks.idle.Arm()
	}
}

// moveValues sets up a compaction so that it also moves the live values of some segments of v.
func (c *compactor) moveValues(ctx context.Context, in *compact.Input, segments []entry.FileNum, v *view.View) {
	begun := c.count.journalBytes.Load()
	// A few commits do not end it: the values that it has moved so far would be moved in vain.
	patience := int64(c.cfg.MemtableBytes) / policy.IdleSealFraction
	busy := func() bool { return c.count.journalBytes.Load()-begun > patience }
	for _, num := range segments {
		// Read each segment from front to back now, not value by value later. (A collection
		// may have replaced the segment since the plan was made.)
		if f := v.Segments.Find(num); f != nil && f.Moved == nil {
			_ = f.Preload(func() bool { return ctx.Err() != nil || busy() }) // Move returns the same errors
		}
	}
	in.Extract = func(num entry.FileNum) bool {
		_, found := slices.BinarySearch(segments, num)
		return found
	}
	in.Yield = func() error {
		if busy() {
			return errWritersAreBack
		}
		return nil
	}
	in.Move = v.Move
	in.Values, in.ValueBytes = c.files.NewValueWriter, c.budget.segmentLimit()
}
