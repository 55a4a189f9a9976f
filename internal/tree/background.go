package tree

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/jobs"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// turns are the locks of background work. Several tasks flush or compact; each kind
// of work is done by one at a time.
type turns struct {
	merging    sync.Mutex // taken before flushing
	flushing   sync.Mutex
	collecting sync.Mutex
	searching  sync.Mutex // for what deletes have emptied; taken last
}

// pass returns once all the work that went on has ended, and with it its hold of
// Views that are not the current one.
func (b *turns) pass() {
	for _, work := range []*sync.Mutex{&b.merging, &b.flushing, &b.collecting, &b.searching} {
		func() {
			work.Lock()
			defer work.Unlock()
		}()
	}
}

func (t *Tree) prepareBackground() {
	pool := t.cfg.Jobs
	t.tasks.flush = pool.Task(jobs.Flush, "flush", t.runFlush)
	t.tasks.compact = pool.Task(jobs.Compaction, "compact", func(ctx context.Context) error { return t.runMerge(ctx, false) })
	t.tasks.collect = pool.Task(jobs.Cleanup, "collect", t.runCollect)
	t.tasks.search = pool.Task(jobs.Brief, "search", t.runSearch)
	t.tasks.seal = pool.Task(jobs.Flush, "seal", func(context.Context) error { return t.cfg.Exclusive(t.sealIfAny) })
	t.tasks.poll = pool.Delayed(pool.Task(jobs.Flush, "poll", t.disk.poll), policy.DiskPoll)
	t.tasks.idle = pool.Delayed(pool.Task(jobs.Compaction, "idle", t.runSettle), t.cfg.IdleAfter)
	t.tasks.expiry = pool.Alarm(pool.Task(jobs.Compaction, "expire", t.runExpire))
}

// Start lets background work begin, once whatever cfg.Exclusive needs is there.
func (t *Tree) Start() {
	t.disk.survey()
	if t.emptied.Published(); t.emptied.Behind() { // after a replay
		t.tasks.search.Kick()
	}
	if len(t.unflushed.found()) > policy.ReplayedSegments {
		t.tasks.seal.Kick()
	}
	t.tasks.kick()
	t.expiry.await()
}

func (t *Tree) runFlush(ctx context.Context) error {
	t.turns.flushing.Lock()
	defer t.turns.flushing.Unlock()
	for {
		did, err := t.flushOldest(ctx)
		if err != nil {
			t.ended(ctx, err, true)
			return err
		}
		if !did {
			break
		}
		t.disk.flushed()
		t.tasks.compact.Kick()
		t.tasks.collect.Kick()
	}
	// Flushed or not, sealed segments are made durable here and not by the next
	// commit that wants to be.
	return t.journal.SyncSealed()
}

func (t *Tree) runMerge(ctx context.Context, idle bool) error {
	t.turns.merging.Lock()
	defer t.turns.merging.Unlock()
	for t.life.failed() == nil {
		plan := t.planner.decide(t.views.Current(), func(s *policy.State) { s.Idle = idle })
		if plan.Compaction == nil {
			return nil
		}
		if err := t.merge(ctx, plan.Compaction); err != nil {
			t.ended(ctx, err, false)
			return err
		}
		t.tasks.collect.Kick()
	}
	return nil // what failed was reported, and would fail again
}

// runSettle runs once writers have been silent for a while: what lies in
// memory and in upper runs is folded down, so that reads are as fast as they
// can be and nothing is left to do.
func (t *Tree) runSettle(ctx context.Context) error {
	defer t.expiry.await() // it comes sooner to a store at rest
	if err := t.cfg.Exclusive(t.sealIfHiding); err != nil {
		return err
	}
	if err := t.runFlush(ctx); err != nil {
		return err
	}
	for again := true; again; {
		if err := t.runMerge(ctx, true); err != nil {
			return err
		}
		var err error
		if again, err = t.collectAll(ctx, atIdle); err != nil {
			return err
		}
		again = again || t.cluster(ctx)
	}
	t.files.removeSpares(false)
	return nil
}

// ended notes that background work has failed: for good, as a file cannot be
// written or read, or for now, as there is no space. Reads go on; writers are told
// once memory is full.
func (t *Tree) ended(ctx context.Context, err error, flush bool) {
	switch {
	case ctx.Err() != nil || t.views.Closed():
	case isFull(err):
		t.disk.workFailed(err, flush)
	default:
		t.life.fail(err)
	}
}

// sealIfAny seals the active memtable unless it is empty. It runs in the place
// of a commit leader.
func (t *Tree) sealIfAny() error {
	if t.views.Closed() {
		return errs.ErrClosed
	}
	if t.views.Current().Active().Empty() {
		return nil
	}
	return t.seal()
}

// sealIfHiding is sealIfAny for a memtable of some size, or one that may hide
// much garbage: in its own journal, in the segments of values that its entries
// delete or replace, or below a range tombstone, which frees nothing before it
// is in a run; or to hold keyspaces that were dropped. Before, it has the last deletes
// searched, for as long as they stay in memory.
func (t *Tree) sealIfHiding() error {
	v := t.views.Current()
	active := v.Active()
	if t.emptied.Behind() {
		t.tasks.search.Kick()
	}
	var values, entries uint64
	for _, r := range v.Layout.Runs() {
		values, entries = values+r.SeparatedBytes, entries+r.Entries
	}
	hidden := uint64(active.SeparatedBytes.Load()) + uint64(active.Len())*(values/max(entries, 1))
	small := active.Tombstones() == nil && active.Bytes() < int64(t.cfg.MemtableBytes)/policy.IdleSealFraction
	if small && hidden+droppedFrom(t.views, active) < policy.IdleSealHiddenBytes {
		return nil
	}
	return t.sealIfAny()
}

// Flush writes everything committed so far into runs, and returns when that is done.
func (t *Tree) Flush(ctx context.Context) error {
	if t.cfg.ReadOnly {
		return errs.ErrReadOnly
	}
	var last *view.Table // of those sealed; what is sealed later is not waited for
	err := t.cfg.Exclusive(func() error {
		err := t.sealIfAny()
		if tables := t.views.Current().Tables; len(tables) > 1 {
			last = tables[1]
		}
		return err
	})
	if err != nil || last == nil {
		return err
	}
	return t.await(ctx, func(v *view.View) bool { return !slices.Contains(v.Tables, last) })
}

// Compact flushes, then merges all runs into one, and returns when that is done.
func (t *Tree) Compact(ctx context.Context) error {
	if err := t.Flush(ctx); err != nil {
		return err
	}
	ctx, end := t.life.until(ctx)
	defer end()
	t.turns.merging.Lock()
	defer t.turns.merging.Unlock()
	runs := t.layout().Runs()
	if len(runs) == 0 {
		return nil
	}
	ids := make([]layout.RunID, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	defer t.tasks.collect.Kick()
	return vfs.NoSpace(t.merge(ctx, &policy.Compaction{Runs: ids, Reason: "asked for"}))
}

// await waits until the current View is as wanted, background work has failed,
// a flush finds no space, or ctx has ended.
func (t *Tree) await(ctx context.Context, done func(v *view.View) bool) error {
	failures := t.disk.failures.Load()
	for {
		v, changed := t.views.Await()
		switch err := t.life.failed(); {
		case t.views.Closed():
			return errs.ErrClosed
		case done(v):
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errs.ErrStopped, err)
		case t.disk.failures.Load() > failures:
			if err := t.disk.unable.Load(); err != nil {
				return *err
			}
			failures = t.disk.failures.Load()
		}
		t.tasks.flush.Kick()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// runExpire does what is due. At rest it goes on to collect what that frees;
// while clients write, that comes with their next rest.
func (t *Tree) runExpire(ctx context.Context) error {
	if t.life.failed() != nil {
		return nil // it would fail again, and was reported
	}
	idle := t.expiry.idle()
	defer t.expiry.await()
	if due := t.expiry.due(idle); due == 0 || due > t.cfg.unixMilli() {
		return nil
	}
	if at := tableExpiryDue(t.views.Current().Active(), idle); at != 0 && at <= t.cfg.unixMilli() {
		if err := t.cfg.Exclusive(t.sealIfAny); err != nil {
			return err
		}
	}
	if idle {
		return t.runSettle(ctx)
	}
	if err := t.runFlush(ctx); err != nil {
		return err
	}
	return t.runMerge(ctx, false)
}
