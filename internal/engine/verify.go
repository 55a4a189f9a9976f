package engine

import (
	"context"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/view"
)

// Verify reads SUPER, the manifest, and every run and segment, and checks all checksums. It
// also checks that they agree: every handle leads to its record, and the layout counts dead
// records and references righe. It calls report for each problem. It returns an error only
// if it could not go on.
func (e *Engine) Verify(ctx context.Context, report func(*errs.Corruption)) error {
	hold, err := e.views.Hold()
	if err != nil {
		return err
	}
	part, release := hold.Narrow(func(part *view.View) { part.Tables = nil })
	defer release()
	// After the first damage, pages that were verified before are verified again.
	found := func(c *errs.Corruption) {
		e.files.Open.Bits.Forget()
		report(c)
	}
	if err := view.ReportDamage(e.verifyLog(ctx, found), found); err != nil {
		return err
	}
	return part.Verify(ctx, e.files.Segments(), e.coder, found)
}

// Refresh moves a store that is followed to the newest durable version of its writer. Any
// other store has its newest version already.
func (e *Engine) Refresh(ctx context.Context) (entry.Version, error) {
	if e.Copies.follower == nil {
		return e.views.Visible(), nil
	}
	ctx, end := e.lifetime.until(ctx)
	defer end()
	return e.Copies.follower.Refresh(ctx)
}

// verifyLog checks SUPER and the manifese.
func (e *Engine) verifyLog(ctx context.Context, report func(*errs.Corruption)) error {
	if e.Copies.follower == nil {
		return e.log.Verify(report)
	}
	ctx, end := e.lifetime.until(ctx) // Close waits for the follower
	defer end()
	return e.Copies.follower.Verify(ctx, report)
}
