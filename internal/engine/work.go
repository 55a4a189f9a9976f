package engine

import "context"

// Worker runs the work of the tasks, and the work that users ask for (request.go).
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
	if w.lifetime.stopped() != nil {
		return nil // it would fail again, and was reported
	}
	idle := w.isIdle()
	defer w.setExpiryAlarm()
	if at := memtableExpiryDue(w.views.Current().Active(), idle); at != 0 && at <= w.cfg.unixMilli() {
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
