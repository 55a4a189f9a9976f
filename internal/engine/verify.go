package engine

import (
	"context"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/view"
)

// Verify reads SUPER, the manifest, and every run and segment, and checks all checksums. It
// also checks that they agree: every handle leads to its record, and the layout counts dead
// records and references right. Of a store that is followed it leaves out SUPER and the manifest,
// which its follower verifies. It calls report for each problem. It returns an error only
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
	if !e.cfg.Follow {
		if err := view.ReportDamage(e.log.Verify(found), found); err != nil {
			return err
		}
	}
	return part.Verify(ctx, e.files.Segments(), e.views.Coder, found)
}
