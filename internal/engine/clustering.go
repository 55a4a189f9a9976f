package engine

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/failure"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// clustering puts values in the order of keys, after scans have jumped among them. It is a
// compaction of all runs that moves values from some segments to new ones, in the order in
// which it meets their keys, as a flush does. So dead records are counted exactly, no remap
// is needed, and a View has either the old run and the old segments, or the new ones.
//
// Scans pay for it. Iterators count the bytes that they jump to (jumped), and each clustering
// subtracts its price from them, also one that fails. So it writes at most a few times the
// bytes that were scanned, and nothing if nobody scans.
type clustering struct {
	*state
	planner   *planner
	compactor *compactor

	failed atomic.Bool   // one has failed, for instance on a full disk: none begins until the next Open
	jumped atomic.Uint64 // bytes of unclustered values that iterators jumped to; each clustering takes its price off
}

// AddJumped adds bytes that iterators had to jump to (Pin.Jump). If clustering is worth it by now,
// the store does it when it is idle.
func (c *clustering) AddJumped(bytes uint64) {
	total := c.jumped.Add(bytes)
	if u := &c.views.Current().Unclustered; u.Price > 0 && total >= u.Price && !c.cfg.ReadOnly && !c.failed.Load() {
		c.tasks.idle.Arm()
	}
}

// run does one clustering if it is worth it, and reports whether to look for more work. It
// returns no error: after a failure the store is as it was before.
func (c *clustering) run(ctx context.Context) (again bool) {
	if c.compactor.turn.Take(ctx) != nil {
		return false
	}
	defer c.compactor.turn.Leave()
	plan := c.planner.planWork(c.views.Current(), func(s *policy.State) { s.Idle, s.JumpedBytes = true, c.jumped.Load() }).Compaction
	if plan == nil || len(plan.Cluster) == 0 || c.life.failed() != nil || c.failed.Load() {
		return false
	}
	err := c.compactor.carryOut(ctx, plan, c.move)
	c.pay(plan.Price)
	var damage *compact.Damaged
	switch {
	case err == nil:
		return true
	case errors.As(err, &damage):
		c.damaged.add(damage.Segment)
		return true
	case errors.Is(err, errWritersAreBack) || ctx.Err() != nil || failure.IsRefused(err):
	default:
		c.failed.Store(true) // a full disk must not be filled again and again
	}
	return false
}

// pay subtracts the price of a clustering from the jumped bytes. What is left is at most the
// price of all that is still unclustered: values that are written later were not scanned.
func (c *clustering) pay(price uint64) {
	for {
		had := c.jumped.Load()
		left := min(had-min(price, had), c.views.Current().Unclustered.Whole)
		if c.jumped.CompareAndSwap(had, left) {
			return
		}
	}
}

var errWritersAreBack = errors.New("clustering gave way to writers")

// move sets up a compaction so that it also moves the live values of some segments of v.
func (c *clustering) move(ctx context.Context, in *compact.Input, segments []entry.FileNum, v *view.View) {
	begun := c.count.journalBytes.Load()
	patience := int64(c.cfg.MemtableBytes) / policy.IdleSealFraction
	p := pace{reads: c.cfg.Reads, sleep: time.Sleep, now: time.Now}
	busy := func() bool {
		if c.cfg.Reads != nil {
			p.step()
		}
		return c.count.journalBytes.Load()-begun > patience
	}
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
	in.Entries = c.scout(in.Extract, v).Ahead(in.Entries)
	in.Move = func(to *segment.ValueWriter, key []byte, e *entry.Entry) (entry.Handle, error) {
		if busy() {
			return entry.Handle{}, errWritersAreBack
		}
		moved, err := v.Move(to, key, e)
		if err != nil && errors.Is(err, errs.ErrCorrupt) {
			err = &compact.Damaged{Segment: e.Handle.Segment, Err: err}
		}
		return moved, err
	}
	in.Values, in.ValueBytes = c.files.NewValueWriter, c.budget.segmentLimit()
}

// scout returns a scout that walks the runs of v and asks the disk for the values that move:
// Preload has read them, but some may have left memory since.
func (c *clustering) scout(moves func(entry.FileNum) bool, v *view.View) compact.Scout {
	sources := make([]iterator.Iterator, len(v.Runs))
	for i, r := range v.Runs {
		sources[i] = r.Copier()
	}
	reads, seen := v.Reads(), int64(0)
	return compact.Scout{
		Entries: iterator.Merge(sources),
		Near:    reads.Add,
		Start:   func() { reads.Start() },
		Moves:   func(e *entry.Entry) bool { return e.Separated && moves(e.Handle.Segment) },
		Busy:    func() bool { return c.files.Open.Busy(&seen) },
	}
}
