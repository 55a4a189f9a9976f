package brock

import (
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/copies/follow"
	"github.com/brockdb/brock/internal/engine"
	"github.com/brockdb/brock/internal/version/layout"
)

// copies gives the packages that copy a store the files of this one.
type copies struct {
	engine *engine.Engine    // of the store
	source follow.Source     // used if this process only reads the store
	target checkpoint.Target // of checkpoints; Dir comes with each call
	writes bool              // this process writes the store
}

// copyTo makes a copy of the files of a store.
type copyTo func(ctx context.Context, s checkpoint.Fileset) error

// copied calls fn with the files of the store as of one version. They stay until fn returns. The
// context of fn ends when Close begins, too.
func (c *copies) copied(ctx context.Context, fn copyTo) error {
	ctx, end := c.engine.Lifetime.Until(ctx)
	defer end()
	still := c.frozen
	if c.writes {
		still = c.snapshot
	}
	err := still(ctx, fn)
	if err != nil && c.engine.Views.Closed() && !errors.Is(err, errs.ErrClosed) {
		err = fmt.Errorf("%w: %w", errs.ErrClosed, err) // its files can't be reached any more
	}
	return err
}

// snapshot is copied for a store that goes on meanwhile.
func (c *copies) snapshot(ctx context.Context, fn copyTo) error {
	return c.engine.Snapshots.During(ctx, func(l *layout.Layout, milli int64) error {
		s := c.source.Fileset
		s.Layout, s.Milli = l, milli
		if err := s.LoadKeys(); err != nil {
			return err
		}
		return fn(ctx, s)
	})
}

// frozen is copied for a store that this process only reads.
func (c *copies) frozen(ctx context.Context, fn copyTo) error {
	var s checkpoint.Fileset
	var release func()
	err := c.engine.Lifetime.Do(ctx, func(ctx context.Context) (err error) {
		s, release, err = c.source.Freeze(ctx)
		return err
	})
	if err != nil {
		return err
	}
	defer c.engine.Views.ReclaimViews()
	defer release()
	return fn(ctx, s)
}

// verifyFollowed checks SUPER and the manifest of a store that is followed.
func (c *copies) verifyFollowed(ctx context.Context, report func(*errs.Corruption)) error {
	var found []*errs.Corruption
	err := c.engine.Lifetime.Do(ctx, func(ctx context.Context) error {
		return c.source.Follower.Verify(ctx, func(d *errs.Corruption) { found = append(found, d) })
	})
	// Only now, as report may call Close.
	for _, d := range found {
		c.engine.Files.Open.Bits.Forget() // pages that were verified before are verified again
		report(d)
	}
	return err
}
