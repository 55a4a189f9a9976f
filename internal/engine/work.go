package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
)

// Worker runs the work of the tasks, and the work that users ask for.
type Worker struct {
	*state
	writer    *writer    // seals the memtable; only in the place of a commit leader
	searcher  *searcher  // awaitWork waits for its searches
	flusher   *flusher   // memtables become runs
	compactor *compactor // several runs become one
	collector *collector // segments become smaller
}

// workAtRest runs once writers have been silent for a while. It compacts what is in memory and in
// upper runs into the base, as far as policy finds that worth it, and collects garbage. Then
// reads are as fast as they can be, and no work is left.
func (w *Worker) workAtRest(ctx context.Context) error {
	defer w.setExpiryAlarm() // at rest, expired entries are removed sooner
	// Sealing changes the active memtable, and only a commit leader may do that.
	if err := w.cfg.Exclusive(ctx, w.writer.sealIdle); err != nil {
		return err
	}
	// A compaction finds garbage to collect, and a collection leaves forwarding tables.
	if _, err := w.compactor.compactPlanned(ctx, atIdle); err != nil {
		return err
	}
	_, err := w.collectAndCompact(ctx, atIdle)
	return err
}

// removeExpired removes what has expired from memtable and runs, if that is due. At rest it also
// collects the garbage; while clients write, that waits for the next rest.
func (w *Worker) removeExpired(ctx context.Context) error {
	if w.lifetime.stopReason() != nil {
		return nil // it would fail again, and was reported
	}
	idle := w.isIdle()
	defer w.setExpiryAlarm()
	if at := policy.MemtableExpiryDue(w.views.Current().Active().LeastExpiry.Load(), idle); at != 0 && at <= w.cfg.unixMilli() {
		if err := w.cfg.Exclusive(ctx, w.writer.sealAny); err != nil {
			return err
		}
	}
	if idle {
		return w.workAtRest(ctx)
	}
	if err := w.flusher.flushSealed(ctx); err != nil {
		return err
	}
	_, err := w.compactor.compactPlanned(ctx, whileBusy)
	return err
}

// Flush writes everything committed so far into runs, and returns when that is done.
func (w *Worker) Flush(ctx context.Context) error {
	if w.cfg.ReadOnly {
		return errs.ErrReadOnly
	}
	var last *view.Table // newest memtable that is sealed now; later ones are not waited for
	err := w.cfg.Exclusive(ctx, func() error {
		err := w.writer.sealAny()
		if tables := w.views.Current().Tables; len(tables) > 1 {
			last = tables[1]
		}
		return err
	})
	if err != nil || last == nil {
		return err
	}
	return w.awaitView(ctx, func(v *view.View) bool { return !slices.Contains(v.Tables, last) })
}

// awaitView waits until done returns true for the current View. It returns an error if background
// work has failed, a flush that began later has failed for now, or ctx has ended.
func (w *Worker) awaitView(ctx context.Context, done func(v *view.View) bool) error {
	began := w.lifetime.flushing.Load()
	for {
		v, changed := w.views.WatchView()
		// Order counts: what is done is done, even if background work has ended since.
		stopped, unable := w.lifetime.stopReason(), w.lifetime.unable.Load()
		switch {
		case w.views.Closed():
			return errs.ErrClosed
		case done(v):
			return nil
		case stopped != nil:
			return stopped
		case unable != nil && unable.attempt > began:
			return unable.err
		}
		// The task may pause after a failure that passes. Now somebody waits for it.
		w.tasks.flush.Hurry()
		if err := waitFor(ctx, untilChange, changed); err != nil {
			return err
		}
	}
}

// Compact flushes, then compacts all runs into one, and returns when that is done.
func (w *Worker) Compact(ctx context.Context) error { return w.lifetime.Do(ctx, w.compactStore) }

func (w *Worker) compactStore(ctx context.Context) error {
	if err := w.Flush(ctx); err != nil {
		return err
	}
	return w.compactor.compactAll(ctx)
}

// Reclaim frees the disk space of what no reader can see any more: it flushes, compacts all
// runs, and collects until garbage is at most a fifth of the live bytes. It returns how many
// bytes the files have shrunk by. If the disk is too full for one of these steps, it goes on
// with the next one; if that has freed space, it begins again.
func (w *Worker) Reclaim(ctx context.Context) (freed int64, err error) {
	err = w.lifetime.Do(ctx, func(ctx context.Context) error {
		freed, err = w.reclaimSpace(ctx)
		return err
	})
	return freed, err
}

func (w *Worker) reclaimSpace(ctx context.Context) (freed int64, err error) {
	before, err := w.fileBytes()
	if err != nil {
		return 0, err
	}
	for again := true; again; {
		// A full disk does not end Reclaim here: a collection may find space where a compaction
		// finds none, and free what the compaction needs.
		full := w.compactStore(ctx)
		if full != nil && !errs.IsFull(full) {
			return 0, full
		}
		if again, err = w.collectAndCompact(ctx, onRequest); err != nil && !errs.IsFull(err) {
			return 0, err
		}
		if err = errors.Join(full, err); err == nil {
			break
		}
	}
	// Files are removed only when no View holds them. Without this wait, freed would be too small
	// by what background work still reads.
	if waiting := w.awaitWork(ctx); waiting != nil {
		return 0, waiting
	}
	w.views.ReclaimViews()
	w.disk.measureSpace()
	after, closed := w.fileBytes()
	if closed != nil {
		return 0, closed
	}
	return max(before-after, 0), err
}

// collectAndCompact collects and compacts until there is nothing left to do. It reports whether there
// was anything.
func (w *Worker) collectAndCompact(ctx context.Context, o occasion) (did bool, err error) {
	for again := true; again; {
		collected, err := w.collector.collectPlanned(ctx, o)
		if did = did || collected; err != nil {
			return did, err
		}
		compacted, err := w.compactor.compactPlanned(ctx, o)
		if did = did || compacted; err != nil {
			return did, err
		}
		// Background work may have removed the forwarding tables that a collection had to wait for:
		// then neither has found anything, and there is more to do.
		plan := w.planWork(w.views.Current(), o)
		more := o == onRequest && w.lifetime.stopReason() == nil && (plan.Collect != nil || plan.Compaction != nil)
		again = collected || compacted || more
	}
	return did, nil
}

// awaitWork waits until the background work of this moment has ended. That work holds older Views,
// whose files can't be removed before.
func (w *Worker) awaitWork(ctx context.Context) error {
	for _, work := range []jobs.Turn{w.compactor.turn, w.flusher.turn, w.collector.turn} {
		if err := work.Take(ctx); err != nil {
			return err
		}
		work.Leave()
	}
	w.searcher.mu.Lock() // briefly: a search reads memory
	defer w.searcher.mu.Unlock()
	return nil
}

// fileBytes returns the length of all files of runs, segments and forwarding tables.
func (w *Worker) fileBytes() (int64, error) {
	hold, err := w.views.Hold()
	if err != nil {
		return 0, err
	}
	defer hold.Release()
	var m report.Tree
	addView(&m, hold.View(), &w.cfg.Policy, 0)
	addJournal(&m, w.unflushed.segments())
	return m.RunBytes + m.SegmentBytes + m.ForwardingBytes, nil
}
