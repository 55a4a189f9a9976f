package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
)

// throttle slows writers down while background work lags behind. It tells Config.OnStall when
// a time of throttling begins and ends: the first writer that meets the limits begins it, and
// it ends when the work has caught up to well below them. So one such time covers the waits
// of many writers.
type throttle struct {
	*state

	mu      sync.Mutex // held over Config.OnStall, so that calls come in order, and guards:
	since   time.Time  // zero while writers are not throttled
	reason  string     // as OnStall was told
	garbage bool       // the reason is garbage
}

// Throttle delays the committer of a payload. The further work lags behind, the longer is the
// delay. It makes the committer wait until work has been done only where memory would
// otherwise grow without bound. It returns ErrNoSpace if there is no disk space for the
// payload, and the context's error if ctx ends. payload is nil for a large transaction, whose
// writes are in files already.
func (t *throttle) Throttle(ctx context.Context, payload []byte) error {
	n := len(payload)
	if payload == nil {
		// Its size is not at hand. It pays as much as the largest payload: one full delay.
		n = policy.ThrottleDelayBytes
	}
	if err := t.disk.admitPayload(ctx, payload); err != nil {
		return err
	}
	if !t.lagsBehind(t.views.Current()) {
		return nil
	}
	return t.slowCommitter(ctx, n)
}

// lagsBehind reports whether work lags so far behind that writers are slowed.
func (t *throttle) lagsBehind(v *view.View) bool {
	return len(v.Tables)-1 > policy.ThrottleTables || len(v.Runs) > policy.ThrottleRuns || t.budget.throttleDelays() > 0
}

func (t *throttle) slowCommitter(ctx context.Context, n int) error {
	t.beginStall()
	// A flush that begins and fails after this moment ends the wait. Older failures may be over.
	begin, began := time.Now(), t.lifetime.flushing.Load()
	defer func() { t.count.stalled.Add(int64(time.Since(begin))) }()
	for {
		v, changed := t.views.WatchView()
		if t.views.Closed() {
			return errs.ErrClosed
		}
		if err := t.lifetime.stopReason(); err != nil {
			return err
		}
		// So few memtables fit in memory. The commit goes on after one delay: to wait until runs or
		// garbage are gone might take minutes.
		if len(v.Tables)-1 < policy.ThrottleMostTables {
			delays := t.countDelays(v)
			if delays <= 0 {
				return nil
			}
			// Small payloads pay for their bytes only. Otherwise many small commits would be slowed
			// far more than a few large ones that write the same.
			share := min(1, float64(n)/policy.ThrottleDelayBytes)
			return waitFor(ctx, time.Duration(float64(policy.ThrottleDelay)*delays*share), changed)
		}
		// Don't wait for a flush that is refused: a full disk stays full for longer.
		if f := t.lifetime.unable.Load(); f != nil && (f.attempt > began || errs.IsFull(f.err)) {
			return t.disk.refuseCommit(fmt.Errorf("memory is full and can't be flushed: %w", f.err))
		}
		if err := waitFor(ctx, time.Second, changed); err != nil {
			return err
		}
	}
}

// countDelays returns how many times policy.ThrottleDelay a payload of ThrottleDelayBytes costs: the
// most that memtables, runs or garbage ask for.
func (t *throttle) countDelays(v *view.View) float64 {
	tables := float64(len(v.Tables) - 1 - policy.ThrottleTables)
	runs := float64(min((len(v.Runs)-policy.ThrottleRuns)/2, policy.ThrottleRunsDelays))
	garbage := min(policy.ThrottleBudgetDelays*t.budget.throttleDelays(), policy.ThrottleGarbageDelays)
	return max(tables, runs, garbage)
}

// beginStall begins a time of throttling for a writer that meets the limits, unless one has begun.
func (t *throttle) beginStall() {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.views.Current()
	// Look again under the lock: work may have caught up since the writer looked, and then perhaps
	// no edit comes to end what begins here.
	if !t.since.IsZero() || !t.lagsBehind(v) {
		return
	}
	t.since, t.garbage = time.Now(), false
	switch sealed, runs := len(v.Tables)-1, len(v.Runs); {
	case sealed > policy.ThrottleTables:
		t.reason = fmt.Sprintf("%d memtables wait to be flushed", sealed)
	case runs > policy.ThrottleRuns:
		t.reason = fmt.Sprintf("%d runs wait to be compacted", runs)
	default:
		t.garbage = true
		t.reason = "garbage waits to be collected"
	}
	t.cfg.OnStall(report.Stall{Begin: true, Reason: t.reason})
}

// endStall ends the time of throttling if work has caught up, or the store closes.
func (t *throttle) endStall() {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Look at since first: a follower closes, too, and has never measured a budget. Close ends the
	// time in any case, so that OnStall hears an end after each beginning.
	if t.since.IsZero() || !t.views.Closed() && !t.hasCaughtUp(t.views.Current()) {
		return
	}
	t.cfg.OnStall(report.Stall{Reason: t.reason, Took: time.Since(t.since)})
	t.since = time.Time{}
}

// hasCaughtUp reports whether work is well below where writers are slowed.
func (t *throttle) hasCaughtUp(v *view.View) bool {
	// Not just below the limits: a load that stays at them would be told of with each memtable.
	return !t.lagsBehind(v) && len(v.Tables)-1 < policy.ThrottleTables && (!t.garbage || t.budget.isCalm())
}
