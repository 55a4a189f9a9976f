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
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
)

// Checkpoint makes a store in dir, which must not exist. It has everything that was committed
// before the call, and may have later commits. All of it is durable when Checkpoint returns nil.
// Files that never change are shared with it, where the system can do that. It returns
// errs.ErrExist if there is something under the name dir.
func (t *Tree) Checkpoint(ctx context.Context, dir string) error {
	if err := manifest.Absent(t.cfg.Base, dir); err != nil {
		return err
	}
	return t.background.copied(ctx, func(ctx context.Context, s checkpoint.Fileset) error {
		return checkpoint.Write(ctx, s, checkpoint.Target{FS: t.cfg.Base, Dir: dir, NoLinks: t.cfg.NoLinks})
	})
}

// Backup sends the store to w, with everything that was committed before the call. It may have
// later commits. See backup.Write.
func (t *Tree) Backup(ctx context.Context, w io.Writer, o backup.Options) (info *backup.Info, err error) {
	err = t.background.copied(ctx, func(ctx context.Context, s checkpoint.Fileset) error {
		info, err = backup.Write(ctx, s, w, o)
		return err
	})
	return info, err
}

// copied calls fn with the store as of one version. Its files stay until fn returns.
func (b *background) copied(ctx context.Context, fn func(ctx context.Context, s checkpoint.Fileset) error) error {
	ctx, end := b.life.until(ctx)
	defer end()
	err := b.still(ctx, fn)
	if err != nil && b.views.Closed() && !errors.Is(err, errs.ErrClosed) {
		err = fmt.Errorf("%w: %w", errs.ErrClosed, err) // its files can't be reached any more
	}
	return err
}

// still is copied without a look at Close.
func (b *background) still(ctx context.Context, fn func(ctx context.Context, s checkpoint.Fileset) error) error {
	take := b.freeze
	if !b.cfg.ReadOnly {
		if err := b.copies.begin(ctx); err != nil {
			return err
		}
		defer b.tasks.kick() // tryFinish may wait for the end of this copy
		defer b.copies.end()
		take = b.cut
	}
	s, release, err := take(ctx)
	if err != nil {
		return err
	}
	defer b.views.Reclaim()
	defer release()
	return fn(ctx, s)
}

// cut returns the store as of one version, which is the newest one while cut runs. The files stay
// until release is called.
func (b *background) cut(ctx context.Context) (s checkpoint.Fileset, release func(), err error) {
	for {
		k := new(cut)
		if err := b.cfg.Exclusive(ctx, func() error { return b.cuts.begin(k) }); err != nil {
			return s, nil, err
		}
		if err = b.await(ctx, func(*view.View) bool { return b.cuts.made(k) }); err == nil {
			err = k.err
		}
		if err != nil {
			b.cuts.giveUp(k)
			return s, nil, err
		}
		l, whole, err := k.pin.View().Layout.AsOf(k.version, k.then, k.milli)
		if err == nil && whole {
			s, err = b.source(l, k.milli)
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
