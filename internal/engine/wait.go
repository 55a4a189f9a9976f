package engine

import (
	"context"
	"time"

	"github.com/brockdb/brock/internal/base/errs"
)

// wait returns after d, or when changed is closed, or with the context's error.
func wait(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errs.Ended(ctx)
	case <-timer.C:
	case <-changed:
	}
	return nil
}
