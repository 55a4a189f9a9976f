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

// useFiles calls fn with the files of the store as of one version: of a Snapshot, or with nil the
// newest. They stay until fn returns. The context of fn ends when Close begins, too.
func useFiles(ctx context.Context, db *DB, from *Snapshot, fn func(context.Context, checkpoint.Fileset) error) error {
	e := db.engine
	ctx, end := e.Lifetime.Until(ctx)
	defer end()
	var err error
	switch {
	case from != nil && db.commits != nil:
		// The keys: what is frozen is written under the current one.
		err = e.Snapshots.KeepKeys(ctx, func() error { return useFrozen(ctx, db, from, fn) })
	case from != nil || db.commits == nil:
		err = useFrozen(ctx, db, from, fn)
	default:
		err = e.Snapshots.During(ctx, func(l *layout.Layout, milli int64) error {
			s := db.source.Fileset
			s.Layout, s.Milli = l, milli
			if err := s.LoadKeys(); err != nil {
				return err
			}
			return fn(ctx, s)
		})
	}
	if err != nil && e.Views.Closed() && !errors.Is(err, errs.ErrClosed) {
		err = fmt.Errorf("%w: %w", errs.ErrClosed, err) // its files can't be reached any more
	}
	return err
}

// useFrozen is useFiles for a Snapshot, or for a store that this process only reads.
func useFrozen(ctx context.Context, db *DB, from *Snapshot, fn func(context.Context, checkpoint.Fileset) error) error {
	freeze := db.source.Freeze
	if from != nil {
		freeze = from.freeze
	}
	var s checkpoint.Fileset
	var release func()
	err := db.engine.Lifetime.Do(ctx, func(ctx context.Context) (err error) {
		s, release, err = freeze(ctx)
		return err
	})
	if err != nil {
		return err
	}
	defer db.engine.Views.ReclaimViews()
	defer release()
	return fn(ctx, s)
}

// verifyFollowed checks SUPER and the manifest of a store that is followed.
func verifyFollowed(ctx context.Context, e *engine.Engine, f *follow.Follower, report func(*errs.Corruption)) error {
	var found []*errs.Corruption
	err := e.Lifetime.Do(ctx, func(ctx context.Context) error {
		return f.Verify(ctx, func(d *errs.Corruption) { found = append(found, d) })
	})
	// Only now, as report may call Close.
	for _, d := range found {
		e.Files.Open.Bits.Forget() // pages that were verified before are verified again
		report(d)
	}
	return err
}
