package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/failure"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
)

// flush writes everything committed so far into runs, and returns when that is done.
func (b *background) flush(ctx context.Context) error {
	if b.cfg.ReadOnly {
		return errs.ErrReadOnly
	}
	var last *view.Table // newest memtable that is sealed now; later ones are not waited for
	err := b.cfg.Exclusive(ctx, func() error {
		err := b.writer.sealAny()
		if tables := b.views.Current().Tables; len(tables) > 1 {
			last = tables[1]
		}
		return err
	})
	if err != nil || last == nil {
		return err
	}
	return b.await(ctx, func(v *view.View) bool { return !slices.Contains(v.Tables, last) })
}

// await waits until done returns true for the current View. It returns an error if background
// work has failed, a flush that began later has failed for now, or ctx has ended.
func (b *background) await(ctx context.Context, done func(v *view.View) bool) error {
	began := b.life.flushing.Load()
	for {
		v, changed := b.views.Await()
		switch err := b.life.failed(); {
		case b.views.Closed():
			return errs.ErrClosed
		case done(v):
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errs.ErrStopped, err)
		}
		if err := b.life.unflushed(); err != nil && b.life.since.Load() > began {
			return err
		}
		b.tasks.flush.Hurry()
		select {
		case <-ctx.Done():
			return errs.Ended(ctx)
		case <-changed:
		}
	}
}

// compact flushes, then compacts all runs into one, and returns when that is done.
func (b *background) compact(ctx context.Context) error {
	if err := b.flush(ctx); err != nil {
		return err
	}
	return b.compactor.all(ctx)
}

// reclaim frees the disk space of what no reader can see any more: it flushes, compacts all
// runs, and collects until garbage is at most a fifth of the live bytes. It returns how many
// bytes the files have shrunk by. If the disk is too full for one of these steps, it goes on
// with the next one; if that has freed space, it begins again.
func (b *background) reclaim(ctx context.Context) (freed int64, err error) {
	before, err := b.fileBytes()
	if err != nil {
		return 0, err
	}
	for again := true; again; {
		full := b.compact(ctx)
		if full != nil && !failure.IsFull(full) {
			return 0, full
		}
		if again, err = b.collectAndHeal(ctx); err != nil && !failure.IsFull(err) {
			return 0, err
		}
		if err = errors.Join(full, err); err == nil {
			break
		}
	}
	if waiting := b.pass(ctx); waiting != nil {
		return 0, waiting
	}
	b.views.Reclaim()
	b.disk.survey()
	after, closed := b.fileBytes()
	if closed != nil {
		return 0, closed
	}
	return max(before-after, 0), err
}

// collectAndHeal is the part of reclaim after the compaction. It reports whether there was
// anything to do.
func (b *background) collectAndHeal(ctx context.Context) (did bool, err error) {
	for again := true; again; {
		if again, err = b.collector.all(ctx, onRequest); err != nil {
			return did || again, err
		}
		healed, err := b.compactor.heal(ctx)
		again = again || healed
		if err != nil {
			return did || again, err
		}
		did = did || again
		// Background work may have healed the remaps that a collection had to wait for: then
		// neither has found anything, and there is more to do.
		again = again || b.wasteful()
	}
	return did, nil
}

// wasteful reports whether policy plans more work for a reclaim now.
func (b *background) wasteful() bool {
	plan := b.planner.decide(b.views.Current(), func(s *policy.State) { s.Reclaim = true })
	return b.life.failed() == nil && (plan.Collect != nil || plan.Compaction != nil)
}

// pass waits until the background work of this moment has ended. That work holds older Views,
// whose files can't be removed before.
func (b *background) pass(ctx context.Context) error {
	for _, work := range []jobs.Turn{b.compactor.turn, b.flusher.turn, b.collector.turn} {
		if err := work.Take(ctx); err != nil {
			return err
		}
		work.Leave()
	}
	b.searcher.mu.Lock() // briefly: a search reads memory
	defer b.searcher.mu.Unlock()
	return nil
}

// fileBytes returns the length of all files of runs, segments and remaps.
func (b *background) fileBytes() (int64, error) {
	hold, err := b.views.Hold()
	if err != nil {
		return 0, err
	}
	defer hold.Release()
	var m Metrics
	m.addView(hold.View(), &b.cfg.Policy, 0)
	m.addJournal(b.unflushed.segments())
	return m.RunBytes + m.SegmentBytes + m.RemapBytes, nil
}
