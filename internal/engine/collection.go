package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
)

// collector moves the live records of segments with much garbage (the victims) to a new segment,
// the target. It changes nothing in runs: their handles still name the victims, and Views lead them
// through forwarding tables to the target, until compactions have rewritten the handles.
//
// Compactions run at the same time. Records of a victim that die while it is copied are
// recorded as dead in the target, by the collection's edit. A compaction that began before
// that edit and ends after it reports handles of a victim as dead; its own edit translates
// them to the target (view.Change.ListDead). So no record is both needed and dead. A collection
// writes no entry, so nothing that was deleted comes back.
type collector struct {
	*state

	turn jobs.Turn // of collections
}

// collectShare is the share of Config.Memory that a collection may take for the keys that it sorts:
// 1/16. view.OpenerConfig has what files may take.
const collectShare = 16

// collectPlanned collects until nothing more is worth it, and reports whether it has collected
// anything. After an error the store is as it was before that collection, background work goes on,
// and the collection is tried again after the next change.
func (c *collector) collectPlanned(ctx context.Context, o occasion) (did bool, err error) {
	if err := c.turn.Take(ctx); err != nil {
		return false, err
	}
	defer c.turn.Leave()
	for {
		found, err := c.collectNext(ctx, o)
		if !found {
			return did, err
		}
		if d := (*compact.Damaged)(nil); errors.As(err, &d) {
			// Policy passes by a damaged segment from now on. What can still be read in it stays,
			// and other segments are collected.
			c.damaged.add(d.Segment)
			continue
		}
		if err != nil {
			if errs.IsFull(err) {
				// Without this the collection would be tried again only after the next edit, and a
				// full disk may see no more edits.
				c.disk.markWaiting()
			}
			return did, err
		}
		did = true
	}
}

// collectNext does the next collection, and reports whether there was one to do.
func (c *collector) collectNext(ctx context.Context, o occasion) (found bool, err error) {
	defer c.keys.endWork(c.keys.beginWork())
	hold, err := c.views.Hold()
	if err != nil {
		return false, err
	}
	defer c.views.ReclaimViews() // what this replaces
	l := hold.View().Layout
	plan := c.planWork(hold.View(), o).Collect
	if plan == nil || c.lifetime.stopReason() != nil {
		hold.Release()
		return false, nil
	}
	// A collection is paced, so it may last long. The whole View would keep all memtables and files
	// that others replace meanwhile.
	part, release := hold.HoldPart(func(part *view.View) {
		// Only the victims are read: flushes and compactions go on beside it.
		part.Tables, part.Runs = nil, nil
		part.Segments = part.Segments.Without(func(num entry.FileNum) bool { return !slices.Contains(plan.Victims, num) })
	})
	defer release()
	work := Work{Kind: "collection", Work: report.Work{Reason: plan.Reason, Segments: int64(len(plan.Victims))}}
	begin := time.Now()
	defer func() { c.reportWork(work, begin, err) }()
	job := compact.Collection{Files: c.files.SegmentConfig(), NextNum: c.files.NextNum, Memory: int(c.cfg.Memory / collectShare), Pace: c.makePacer(o)}
	for _, num := range plan.Victims {
		job.Victims = append(job.Victims, compact.Victim{Reader: part.Segments.Find(num).Reader, Segment: l.Segment(num)})
	}
	// Until the victims are removed there are two copies of what is live. The second counts as
	// garbage, and sets may not use its disk space.
	c.budget.copying.Store(int64(plan.Bytes))
	defer c.budget.copying.Store(0)
	defer c.disk.promiseBytes(int64(plan.Bytes))()
	out, err := compact.Collect(ctx, job)
	if err != nil {
		return true, fmt.Errorf("collect: %w", err)
	}
	// Since lets the edit find the records that have died while they were copied. They must count
	// as dead in the target from its first View on.
	if err := c.applyEdit(new(layout.Edit), &out, view.Change{Since: l}); err != nil {
		return true, fmt.Errorf("collect: %w", err)
	}
	work.setResults(&out)
	work.BytesIn = int64(out.Bytes)
	return true, nil
}

// makePacer returns a function that slows a collection down, so that writers are not disturbed;
// nil if somebody waits for the collection. It lets flushes go first, and bounds the rate while
// something is committed. The nearer garbage is to its budget, the faster the collection goes.
func (c *collector) makePacer(o occasion) func(context.Context, int) error {
	if o == onRequest {
		return nil
	}
	written := c.count.journalBytes.Load()
	var owed time.Duration
	return func(ctx context.Context, n int) error {
		now := c.count.journalBytes.Load()
		quiet := now == written
		written = now
		// Ask at each call: a collection that began at leisure must become fast when garbage grows.
		leisure := 1 - policy.CollectionPace(c.budget.fillShare())
		if leisure == 0 { // the budget is nearly used up: writers wait for this
			return nil
		}
		if err := c.yieldToFlush(ctx); quiet || err != nil {
			return err
		}
		// Very short waits last longer than asked for, so they are summed up to one that is worth
		// it.
		if owed += time.Duration(leisure * float64(n) / policy.CollectionRate * float64(time.Second)); owed < policy.CollectionLeastWait {
			return nil
		}
		defer func() { owed = 0 }()
		// Close ends the pause: the pool ends ctx only later.
		return waitFor(ctx, owed, c.lifetime.closing.Done())
	}
}

// yieldToFlush lets a flush go first, for some time.
func (c *collector) yieldToFlush(ctx context.Context) error {
	v, changed := c.views.WatchView()
	switch {
	case c.views.Closed():
		return errs.ErrClosed
	// So many sealed memtables slow no writer.
	case len(v.Tables)-1 <= policy.ThrottleTables:
		return nil
	}
	c.tasks.flush.Kick()
	// Only for some time: a flush may have no disk space until a collection has freed some.
	return waitFor(ctx, policy.CollectionFlushWait, changed)
}
