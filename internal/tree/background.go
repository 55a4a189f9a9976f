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

// background is the tree's work: what there is, and when it runs. Tasks run
// themselves again as long as they find something to do, so that one kick after
// every change is enough.
type background struct {
	flush   *jobs.Task
	merge   *jobs.Task
	collect *jobs.Task
	fold    *jobs.Task    // seals the memtable, so that it is flushed
	search  *jobs.Task    // finds what deletes have emptied
	idle    *jobs.Delayed // folds down what is left once writers are silent
	expiry  *jobs.Alarm   // rings when what has expired is to leave the files

	// Several tasks flush or merge; each kind of work is done by one at a time.
	flushing sync.Mutex
	merging  sync.Mutex // taken before flushing

	collecting sync.Mutex
	searching  sync.Mutex // for what deletes have emptied; taken last
}

// pass returns once all the work that went on has ended, and with it its hold of
// Views that are not the current one.
func (b *background) pass() {
	for _, work := range []*sync.Mutex{&b.merging, &b.flushing, &b.collecting, &b.searching} {
		func() {
			work.Lock()
			defer work.Unlock()
		}()
	}
}

func (t *Tree) prepareBackground() {
	pool := t.cfg.Jobs
	t.work.flush = pool.Task(jobs.Flush, "flush", t.runFlush)
	t.work.merge = pool.Task(jobs.Compaction, "merge", func(ctx context.Context) error { return t.runMerge(ctx, false) })
	t.work.collect = pool.Task(jobs.Cleanup, "collect", t.runCollect)
	t.work.search = pool.Task(jobs.Brief, "search", t.runSearch)
	t.work.fold = pool.Task(jobs.Flush, "fold", func(context.Context) error { return t.cfg.Exclusive(t.sealIfAny) })
	settle := pool.Task(jobs.Compaction, "settle", t.runSettle)
	t.full.poll = pool.Delayed(pool.Task(jobs.Flush, "space", t.runPoll), pollEvery)
	t.work.idle = pool.Delayed(settle, t.cfg.IdleAfter)
	t.work.expiry = pool.Alarm(pool.Task(jobs.Compaction, "expire", t.runExpire))
}

// maxReplayed is how many journal segments an Open may leave in memory: a
// store that is opened again and again for a few writes must not collect them.
const maxReplayed = 4

// Start lets background work begin, once whatever cfg.Exclusive needs is there.
func (t *Tree) Start() {
	t.survey()
	if t.emptied.Published(); t.emptied.Behind() { // after a replay
		t.work.search.Kick()
	}
	if len(t.replayed) > maxReplayed {
		t.work.fold.Kick()
	}
	t.kick()
	t.awaitExpiry()
}

// kick looks for work after a change.
func (t *Tree) kick() {
	if t.cfg.ReadOnly {
		return
	}
	t.work.flush.Kick()
	t.work.merge.Kick()
	t.work.collect.Kick()
	t.work.idle.Touch()
}

func (t *Tree) runFlush(ctx context.Context) error {
	t.work.flushing.Lock()
	defer t.work.flushing.Unlock()
	for {
		did, err := t.flushOldest(ctx)
		if err != nil {
			t.ended(ctx, err, true)
			return err
		}
		if !did {
			break
		}
		t.foundRoom()
		t.work.merge.Kick()
		t.work.collect.Kick()
	}
	// Flushed or not, sealed segments are made durable here and not by the next
	// commit that wants to be.
	return t.journal.SyncSealed()
}

func (t *Tree) runMerge(ctx context.Context, idle bool) error {
	t.work.merging.Lock()
	defer t.work.merging.Unlock()
	for t.failed() == nil {
		v := t.views.Current()
		state := t.state(v)
		state.Idle = idle
		plan := policy.Decide(v.Layout, state, t.cfg.Policy)
		if plan.Compaction == nil {
			return nil
		}
		if err := t.merge(ctx, plan.Compaction); err != nil {
			t.ended(ctx, err, false)
			return err
		}
		t.work.collect.Kick()
	}
	return nil // what failed was reported, and would fail again
}

// runSettle runs once writers have been silent for a while: what lies in
// memory and in upper runs is folded down, so that reads are as fast as they
// can be and nothing is left to do.
func (t *Tree) runSettle(ctx context.Context) error {
	defer t.awaitExpiry() // it comes sooner to a store at rest
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
	t.removeSpares(false)
	return nil
}

// ended notes that background work has failed: for good, as a file cannot be
// written or read, or for now, as there is no space. Reads go on; writers are told
// once memory is full.
func (t *Tree) ended(ctx context.Context, err error, flush bool) {
	switch {
	case ctx.Err() != nil || t.views.Closed():
	case outOfSpace(err):
		t.noRoom(err, flush)
	default:
		t.fail(err)
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

const (
	idleHidden = 16 << 20 // garbage that a memtable may hide in an idle store
	idleShare  = 16       // a memtable filled to less than 1/idleShare may stay in memory
)

// sealIfHiding is sealIfAny for a memtable of some size, or one that may hide
// much garbage: in its own journal, in the segments of values that its entries
// delete or replace, or below a range tombstone, which frees nothing before it
// is in a run; or to hold keyspaces that were dropped. Before, it has the last deletes
// searched, for as long as they stay in memory.
func (t *Tree) sealIfHiding() error {
	v := t.views.Current()
	active := v.Active()
	if t.emptied.Behind() {
		t.work.search.Kick()
	}
	var values, entries uint64
	for _, r := range v.Layout.Runs() {
		values, entries = values+r.SeparatedBytes, entries+r.Entries
	}
	hidden := uint64(active.SeparatedBytes.Load()) + uint64(active.Len())*(values/max(entries, 1))
	small := active.Tombstones() == nil && active.Bytes() < int64(t.cfg.MemtableBytes)/idleShare
	if small && hidden+t.droppedFrom(active) < idleHidden {
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.closing, func() { cancel(errs.ErrClosed) })()
	t.work.merging.Lock()
	defer t.work.merging.Unlock()
	runs := t.layout().Runs()
	if len(runs) == 0 {
		return nil
	}
	ids := make([]layout.RunID, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	defer t.work.collect.Kick()
	return vfs.NoSpace(t.merge(ctx, &policy.Compaction{Runs: ids, Reason: "asked for"}))
}

// await waits until the current View is as wanted, background work has failed,
// a flush finds no space, or ctx has ended.
func (t *Tree) await(ctx context.Context, done func(v *view.View) bool) error {
	failures := t.full.failures.Load()
	for {
		v, changed := t.views.Await()
		switch err := t.failed(); {
		case t.views.Closed():
			return errs.ErrClosed
		case done(v):
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errs.ErrStopped, err)
		case t.full.failures.Load() > failures:
			if err := t.full.unable.Load(); err != nil {
				return *err
			}
			failures = t.full.failures.Load()
		}
		t.work.flush.Kick()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}
