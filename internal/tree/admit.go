package tree

import (
	"context"
	"fmt"
	"time"

	"github.com/brockdb/brock/internal/errs"
)

// Admission: how far background work may lag behind writers.
const (
	freeTables  = 1                     // sealed memtables that cost writers nothing
	maxTables   = 4                     // sealed memtables at which writers wait for a flush
	freeRuns    = 12                    // upper runs likewise
	maxDelay    = 20 * time.Millisecond // of one admission below the limits
	admitWindow = 1 << 20               // bytes that one full delay pays for
	steepBrake  = 2                     // delays where the budget of garbage is used up
	maxBrake    = 8                     // delays for garbage at most
)

// Throttle slows a committer of a payload down while background work lags behind,
// the more the further it lags, and lets it wait only where memory would
// otherwise grow without bound. It refuses one that there is no space for. It
// returns early with the context's error. A nil payload stands for a large
// transaction that has none.
func (t *Tree) Throttle(ctx context.Context, payload []byte) error {
	n := len(payload)
	if payload == nil {
		n = admitWindow
	}
	if t.full.refusing.Load() {
		if err := t.askForSpace(ctx, payload); err != nil {
			return err
		}
	}
	v := t.views.Current()
	sealed := len(v.Tables) - 1
	if sealed <= freeTables && len(v.Runs) <= freeRuns && t.space.brake() == 0 {
		return nil
	}
	return t.slow(ctx, n)
}

func (t *Tree) slow(ctx context.Context, n int) error {
	t.slowed.tell(t, true)
	begin := time.Now()
	defer func() {
		t.stats.stalls.Add(1)
		t.stats.stalled.Add(int64(time.Since(begin)))
	}()
	for {
		v, changed := t.views.Await()
		sealed := len(v.Tables) - 1
		if t.views.Closed() {
			return errs.ErrClosed
		}
		if err := t.failed(); err != nil {
			return fmt.Errorf("%w: background work has ended: %w", errs.ErrStopped, err)
		}
		if sealed < maxTables {
			excess := max(float64(sealed-freeTables), float64((len(v.Runs)-freeRuns)/2), min(steepBrake*t.space.brake(), maxBrake))
			if excess <= 0 {
				return nil
			}
			delay := time.Duration(float64(maxDelay) * excess * min(1, float64(n)/admitWindow))
			return wait(ctx, delay, changed)
		}
		if err := t.full.unable.Load(); err != nil {
			return t.refuse(*err)
		}
		if err := wait(ctx, time.Second, changed); err != nil {
			return err
		}
	}
}

// wait returns after d, or when changed is closed, or with the context's error.
func wait(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	case <-changed:
	}
	return nil
}
