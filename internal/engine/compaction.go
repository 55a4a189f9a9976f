package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
)

// compactor replaces runs that follow each other in age by one.
type compactor struct {
	*state
	planner *planner
	keys    *keyUse

	turn   jobs.Turn     // of one compaction after the other; taken before that of flusher
	jumped atomic.Uint64 // bytes that iterators jumped to; each clustering takes its price off
}

// compactPlanned compacts what policy plans. idle says that writers are silent.
func (c *compactor) compactPlanned(ctx context.Context, idle bool) error {
	if err := c.turn.Take(ctx); err != nil {
		return err
	}
	defer c.turn.Leave()
	return c.compactPlannedLocked(ctx, idle)
}

// flushAndCompact flushes, and then compacts what policy plans for an idle store. No other
// compaction can come between: one that policy plans for a busy store after the flush would be
// wasted, as the idle one rewrites its output.
func (c *compactor) flushAndCompact(ctx context.Context, flush func(context.Context) error) error {
	if err := c.turn.Take(ctx); err != nil {
		return err
	}
	defer c.turn.Leave()
	if err := flush(ctx); err != nil {
		return err
	}
	return c.compactPlannedLocked(ctx, true)
}

func (c *compactor) compactPlannedLocked(ctx context.Context, idle bool) error {
	for c.lifetime.failed() == nil {
		plan := c.planner.planWork(c.views.Current(), func(s *policy.State) { s.Idle, s.JumpedBytes = idle, c.jumped.Load() })
		if plan.Compaction == nil {
			return nil
		}
		err := c.carryOut(ctx, plan.Compaction)
		c.jumped.Add(-plan.Compaction.Price) // a clustering that fails has paid, too: so work in vain is bounded
		if plan.Compaction.Rekey && errors.Is(err, errs.ErrCorrupt) {
			c.leaveDamaged(plan.Compaction.Runs[0], err)
			continue
		}
		if len(plan.Compaction.Cluster) > 0 {
			var damage *compact.Damaged
			if errors.As(err, &damage) {
				c.damaged.add(damage.Segment)
				continue
			}
			if errors.Is(err, errWritersAreBack) {
				return nil
			}
		}
		if err != nil {
			c.planner.disk.workEnded(ctx, err)
			return err
		}
	}
	return nil // the failure was reported, and other work would fail, too
}

// leaveDamaged tells policy not to rewrite a damaged run under a new data key, until the next Open.
// Work goes on, so the damage is reported here: nobody may wait for the rewriting (tryFinish).
func (c *compactor) leaveDamaged(id layout.RunID, err error) {
	if r := c.views.Current().Layout.Run(id); r != nil {
		c.damaged.add(r.Files[0].Num)
	}
	if d := (*errs.Corruption)(nil); errors.As(err, &d) {
		c.views.Current().NameKeys(d)
		c.cfg.OnDamage(d)
	}
}

// rewritePointers compacts runs until no handle leads through a forwarding table, and reports
// whether there was one.
func (c *compactor) rewritePointers(ctx context.Context) (did bool, err error) {
	if err := c.turn.Take(ctx); err != nil {
		return false, err
	}
	defer c.turn.Leave()
	for {
		plan := c.planner.planWork(c.views.Current(), func(s *policy.State) { s.Reclaim, s.Collecting = true, true }).Compaction
		if plan == nil {
			return did, nil
		}
		if err := c.carryOut(ctx, plan); err != nil {
			return did, err
		}
		did = true
	}
}

// compactAll compacts all runs into one.
func (c *compactor) compactAll(ctx context.Context) error {
	if err := c.turn.Take(ctx); err != nil {
		return err
	}
	defer c.turn.Leave()
	runs := c.views.Current().Layout.Runs()
	if len(runs) == 0 {
		return nil
	}
	ids := make([]layout.RunID, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	return c.carryOut(ctx, &policy.Compaction{Runs: ids, Reason: "asked for"})
}

// carryOut carries out a plan. A compaction rewrites keys and handles, and values stay where they
// are unless it is a clustering.
func (c *compactor) carryOut(ctx context.Context, plan *policy.Compaction) (err error) {
	defer c.keys.endWork(c.keys.beginWork())
	hold, err := c.views.Hold()
	if err != nil {
		return err
	}
	defer c.views.Reclaim() // what this replaces
	part, release := hold.Narrow(func(part *view.View) {
		// Memtables, and segments that no handle leads to, may be removed meanwhile.
		part.Tables = nil
		if len(plan.Cluster) == 0 {
			part.Segments = part.Segments.Without(part.Unmoved())
		}
	})
	defer release()
	inputs, bottom, err := part.Consecutive(plan.Runs)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	work := Work{Kind: "compaction", Work: report.Work{Reason: plan.Reason, Runs: int64(len(inputs))}}
	begin := time.Now()
	defer func() { c.reportWork(work, begin, err) }()
	rangeDeletes, done := view.RangeDeletesOf(inputs)
	defer done()
	rules := c.rules(bottom)
	rules.RangeDeletes, rules.Older = rangeDeletes, part.OlderThan(inputs)
	input, unread, err := c.makeInput(inputs, &rules, part, &work)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	defer c.planner.disk.promiseBytes(int64(plan.Writes(part.Layout)))()
	if len(plan.Cluster) > 0 {
		work.Segments = int64(len(plan.Cluster))
		c.move(ctx, &input, plan.Cluster, part)
	}
	out, err := compact.Execute(ctx, input)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	tier := layout.Upper
	if bottom {
		tier = layout.Base
	}
	edit := &layout.Edit{DropRuns: plan.Runs, AddRuns: layout.NewRuns(out.Run, tier)}
	for i := range edit.AddRuns {
		// The new run is as old as its newest input: newer runs stay above it.
		edit.AddRuns[i].Order = part.Layout.Run(inputs[0].ID).Order
	}
	change := view.Change{Runs: inputs, Unread: unread, Replaced: stillReplaced(inputs, unread, &out, bottom), Since: part.Layout}
	if err := c.apply(edit, &out, change); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	work.done(&out)
	return nil
}

// makeInput returns what a compaction reads and writes, and the inputs that need not be read, as
// nothing of them survives.
func (c *compactor) makeInput(inputs []*view.Run, rules *compact.Rules, part *view.View, work *Work) (in compact.Input, unread []*view.Run, err error) {
	expiries := make([][]entry.Expiring, len(inputs))
	ids := make([]layout.RunID, len(inputs))
	for i, r := range inputs {
		expiries[i], ids[i] = r.Meta().Expiry, r.ID
	}
	unneeded, err := compact.Unneeded(ids, rules, part.Layout)
	if err != nil {
		return in, nil, err
	}
	var read []*view.Run
	for _, r := range inputs {
		if unneeded[r.ID] {
			unread = append(unread, r)
			continue
		}
		read = append(read, r)
		work.BytesIn += int64(r.Meta().FileBytes())
	}
	return compact.Input{
		Entries:       view.Copier(read),
		Run:           c.files.NewRunWriter(rules.Bottom, entry.NewExpiries(rules.Now, expiries...), manifest.Describe(part.Layout, ids)),
		Rules:         *rules,
		RewriteHandle: part.HandleRewriter(),
	}, unread, nil
}

// stillReplaced estimates what the new run has replaced in older ones: what the inputs had, less
// what the compaction has found, which is dead now or counted as history of the new run.
func stillReplaced(inputs, unread []*view.Run, out *compact.Output, bottom bool) []layout.Superseded {
	if bottom {
		return []layout.Superseded{}
	}
	var still layout.Account
	var had, found float64
	for _, r := range inputs {
		if r.Replaced == nil {
			return nil
		}
		for _, s := range r.Replaced {
			had += float64(s.Separated)
			still.Add(s)
		}
		for _, s := range r.Meta().Superseded {
			found -= float64(s.Separated)
		}
	}
	for _, s := range out.Run.Superseded {
		found += float64(s.Separated)
	}
	for _, dead := range out.Dead.Lists() {
		found += float64(dead.Bytes)
	}
	for _, r := range unread {
		found += float64(r.Meta().SeparatedBytes)
	}
	list := still.List()
	for i := range list {
		list[i].Shrink(1 - min(1, max(0, found)/max(had, 1)))
	}
	return list
}
