package tree

import (
	"context"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/view"
)

// Verify reads SUPER, the manifest, every run and segment, checks all checksums,
// and that they agree with each other: every handle leads to its record, and
// what was counted dead or referred to is what there is. It calls report for
// each problem; its error says only why it could not go on.
func (t *Tree) Verify(ctx context.Context, report func(*errs.Corruption)) error {
	hold, err := t.views.Hold()
	if err != nil {
		return err
	}
	part, release := hold.Narrow(func(part *view.View) { part.Tables = nil })
	defer release()
	if err := view.Reported(t.log.Verify(report), report); err != nil {
		return err
	}
	return part.Verify(ctx, t.files.segments(), &t.coder, report)
}
