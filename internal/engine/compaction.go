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
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
)

// compactor replaces runs that follow each other in age by one.
type compactor struct {
	*state
	flusher *flusher

	turn jobs.Turn // of one compaction after the other; taken before that of flusher
}

// compactPlanned compacts until policy plans no more, and reports whether it has compacted anything.
// At idle it flushes first. On request it goes on until no handle leads through a forwarding table.
func (c *compactor) compactPlanned(ctx context.Context, o occasion) (did bool, err error) {
	if err := c.turn.Take(ctx); err != nil {
		return false, err
	}
	defer c.turn.Leave()
	if o == atIdle {
		// Flush with the turn held. A compaction that policy plans for a busy store after the flush
		// would be wasted, as the idle one rewrites its output.
		if err := c.flusher.flushSealed(ctx); err != nil {
			return false, err
		}
	}
	did, err = c.carryOutPlans(ctx, o)
	// Who has asked gets the error: background work has not failed.
	if err != nil && o != onRequest {
		c.disk.judgeFailure(ctx, err)
	}
	return did, err
}

// carryOutPlans is compactPlanned with the turn held. It passes by files that are damaged.
func (c *compactor) carryOutPlans(ctx context.Context, o occasion) (did bool, err error) {
	for c.lifetime.stopReason() == nil {
		plan := c.planWork(c.views.Current(), o).Compaction
		if plan == nil {
			return did, nil
		}
		err := c.carryOut(ctx, plan)
		c.jumped.Add(-plan.Price) // a clustering that fails has paid, too: so work in vain is bounded
		var damage *compact.Damaged
		switch {
		case err == nil:
			did = true
		case plan.Rekey && errors.Is(err, errs.ErrCorrupt):
			c.leaveDamaged(plan.Runs[0], err)
		case len(plan.Cluster) > 0 && errors.As(err, &damage):
			// The next plan leaves this segment out. So one damaged segment does not keep all
			// others from being clustered.
			c.damaged.add(damage.Segment)
		// No failure: the idle task runs again once writers are silent.
		case errors.Is(err, errWritersAreBack):
			return did, nil
		default:
			return did, err
		}
	}
	return did, nil // the failure was reported, and other work would fail, too
}

// leaveDamaged tells policy not to rewrite a damaged run under a new data key, until the next Open.
// Work goes on, so the damage is reported here: nobody may wait for the rewriting (tryFinishRewriting).
func (c *compactor) leaveDamaged(id layout.RunID, err error) {
	if r := c.views.Current().Layout.Run(id); r != nil {
		c.damaged.add(r.Files[0].Num)
	}
	if d := (*errs.Corruption)(nil); errors.As(err, &d) {
		c.views.Current().NameKeys(d)
		c.cfg.OnDamage(d)
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
	// Before anything is written: otherwise pruneKeys could remove the key of the new files.
	defer c.keys.endWork(c.keys.beginWork())
	hold, err := c.views.Hold()
	if err != nil {
		return err
	}
	// Deferred before release, so it runs after it: only then this work holds no input any more.
	defer c.views.ReclaimViews() // what this replaces
	part, release := hold.HoldPart(func(part *view.View) {
		// Memtables, and segments that no handle leads to, may be removed meanwhile.
		part.Tables = nil
		if len(plan.Cluster) == 0 {
			part.Segments = part.Segments.Without(part.Unmoved())
		}
	})
	defer release()
	// The inputs must follow each other in age. If a run between two of them were left out, the
	// output would be above it, and old versions in the output would hide newer ones of that run: a
	// read stops at its first hit.
	inputs, bottom, err := part.FindConsecutive(plan.Runs)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	work := Work{Kind: "compaction", Work: report.Work{Reason: plan.Reason, Runs: int64(len(inputs))}}
	begin := time.Now()
	defer func() { c.reportWork(work, begin, err) }()
	rangeDeletes, done := view.RangeDeletesOf(inputs)
	defer done()
	rules := c.retentionRules(bottom)
	rules.RangeDeletes, rules.Older = rangeDeletes, part.ListOlder(inputs)
	input, unread, err := c.makeInput(plan, inputs, &rules, part, &work)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	// Until the edit, inputs and output are both on the disk. Sets must not take the space
	// meanwhile.
	defer c.disk.promiseBytes(int64(plan.Writes(part.Layout, nil)))()
	if len(plan.Cluster) > 0 {
		work.Segments = int64(len(plan.Cluster))
		c.moveValues(ctx, &input, plan.Cluster, part)
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
	if err := c.applyEdit(edit, &out, change); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	work.setResults(&out)
	return nil
}

// makeInput returns what a compaction reads and writes, and the inputs that need not be read, as
// nothing of them survives.
func (c *compactor) makeInput(plan *policy.Compaction, inputs []*view.Run, rules *compact.Rules, part *view.View, work *Work) (in compact.Input, unread []*view.Run, err error) {
	expiries := make([][]entry.Expiring, len(inputs))
	for i, r := range inputs {
		expiries[i] = r.Meta().Expiry
	}
	unneeded, err := compact.FindUnneeded(plan.Runs, rules, part.Layout)
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
	// The steps of expiry come from the inputs. If they were counted anew, entries in their last
	// minutes would look short-lived, and policy would compact them again each minute.
	return compact.Input{
		Entries:       view.NewCopier(read),
		Run:           c.files.NewRunWriter(rules.Bottom, entry.NewExpiries(rules.Now, expiries...), manifest.Describe(part.Layout, plan.Runs)),
		Rules:         *rules,
		RewriteHandle: part.HandleRewriter(),
	}, unread, nil
}

// stillReplaced estimates what the new run has replaced in older ones: what the inputs had, less
// what the compaction has found, which is dead now or counted as history of the new run.
func stillReplaced(inputs, unread []*view.Run, out *compact.Output, bottom bool) []layout.Superseded {
	if bottom {
		// Nothing is below the bottom run. The list is empty and not nil, as nil says that it is
		// unknown.
		return []layout.Superseded{}
	}
	var still layout.Account
	var had, found float64
	for _, r := range inputs {
		// What a replayed memtable has replaced is not known. A sum without it would look exact.
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
		// Nobody knows which of the lines the compaction has found, so all shrink alike. At most to
		// zero: the estimates may be below what was found.
		list[i].Shrink(1 - min(1, max(0, found)/max(had, 1)))
	}
	return list
}

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
	in.Move = v.MoveValue
	in.Values, in.ValueBytes = c.files.NewValueWriter, c.budget.segmentLimit()
}
