package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/backup"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/copies/follow"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
)

// Copies makes copies of the store.
type Copies struct {
	*state
	work     *Worker
	points   *snapshotPoints
	copying  *copying
	follower *follow.Follower // nil unless the store of another process is followed
}

// Checkpoint makes a store in dir, which must not exist. It has everything that was committed
// before the call, and may have later commits. All of it is durable when Checkpoint returns nil.
// Files that never change are shared with it, where the system can do that. It returns
// errs.ErrExist if there is something under the name dir.
func (c *Copies) Checkpoint(ctx context.Context, dir string) error {
	if err := manifest.Absent(c.cfg.Copies.FS, dir); err != nil {
		return err
	}
	to := c.cfg.Copies
	to.Dir = dir
	return c.copied(ctx, func(ctx context.Context, s checkpoint.Fileset) error { return checkpoint.Write(ctx, s, to) })
}

// Backup sends the store to w, with everything that was committed before the call. It may have
// later commits. See backup.Write.
func (c *Copies) Backup(ctx context.Context, w io.Writer, o backup.Options) (info *backup.Info, err error) {
	err = c.copied(ctx, func(ctx context.Context, s checkpoint.Fileset) error {
		info, err = backup.Write(ctx, s, w, o)
		return err
	})
	return info, err
}

// copied calls fn with the store as of one version. Its files stay until fn returns.
func (c *Copies) copied(ctx context.Context, fn func(ctx context.Context, s checkpoint.Fileset) error) error {
	ctx, end := c.lifetime.until(ctx)
	defer end()
	err := c.still(ctx, fn)
	if err != nil && c.views.Closed() && !errors.Is(err, errs.ErrClosed) {
		err = fmt.Errorf("%w: %w", errs.ErrClosed, err) // its files can't be reached any more
	}
	return err
}

// still is copied without a look at Close.
func (c *Copies) still(ctx context.Context, fn func(ctx context.Context, s checkpoint.Fileset) error) error {
	take := c.freeze
	if !c.cfg.ReadOnly {
		if err := c.copying.beginCopy(ctx); err != nil {
			return err
		}
		defer c.tasks.kick() // tryFinish may wait for the end of this copy
		defer c.copying.endCopy()
		take = c.snapshot
	}
	s, release, err := take(ctx)
	if err != nil {
		return err
	}
	defer c.views.Reclaim()
	defer release()
	return fn(ctx, s)
}

// snapshot returns the store as of one version, which is the newest one while snapshot runs. The files stay
// until release is called.
func (c *Copies) snapshot(ctx context.Context) (s checkpoint.Fileset, release func(), err error) {
	for {
		k := new(snapshotPoint)
		if err := c.cfg.Exclusive(ctx, func() error { return c.points.begin(k) }); err != nil {
			return s, nil, err
		}
		if err = c.work.awaitView(ctx, func(*view.View) bool { return c.points.isMade(k) }); err == nil {
			err = k.err
		}
		if err != nil {
			c.points.giveUp(k)
			return s, nil, err
		}
		l, whole, err := k.pin.View().Layout.AsOf(k.version, k.then, k.milli)
		if err == nil && whole {
			s, err = c.source(l, k.milli)
		}
		if err != nil {
			k.pin.Release()
			return s, nil, err
		}
		if !whole { // a keyspace was dropped meanwhile
			k.pin.Release()
			continue
		}
		_, release = k.pin.Narrow(func(part *view.View) {
			part.Tables = nil
			part.Segments = part.Segments.Without(func(num entry.FileNum) bool { return l.Segment(num) == nil })
		})
		return s, release, nil
	}
}
