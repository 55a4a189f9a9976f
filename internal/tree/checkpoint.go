package tree

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/brockdb/brock/internal/backup"
	"github.com/brockdb/brock/internal/checkpoint"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/view"
)

// checkpoint makes a copy of the store, as of one version, in a directory that does
// not exist.
func (b *background) checkpoint(ctx context.Context, dir string) error {
	if err := manifest.Absent(b.cfg.Base, dir); err != nil {
		return err
	}
	return b.copied(ctx, func(ctx context.Context, s checkpoint.Fileset) error {
		return checkpoint.Write(ctx, s, checkpoint.Target{FS: b.cfg.Base, Dir: dir, NoLinks: b.cfg.NoLinks})
	})
}

// backup sends a copy of the store, as of one version, to w.
func (b *background) backup(ctx context.Context, w io.Writer, o backup.Options) (info *backup.Info, err error) {
	err = b.copied(ctx, func(ctx context.Context, s checkpoint.Fileset) error {
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
	if b.cfg.ReadOnly {
		s, release, err := b.freeze(ctx)
		if err != nil {
			return err
		}
		defer b.views.Reclaim()
		defer release()
		return fn(ctx, s)
	}
	if err := b.copies.begin(ctx, false); err != nil {
		return err
	}
	defer b.tasks.kick() // tryFinish may wait for the end of this copy
	defer b.copies.end(false)
	l, milli, release, err := b.cut(ctx)
	if err != nil {
		return err
	}
	defer b.views.Reclaim()
	defer release()
	s, err := b.source(l, milli)
	if err != nil {
		return err
	}
	return fn(ctx, s)
}

// cut returns the layout of the store as of one version, and the time at which that was the
// newest version, in Unix milliseconds. The files stay until release is called.
func (b *background) cut(ctx context.Context) (l *layout.Layout, milli int64, release func(), err error) {
	for {
		k := new(cut)
		if err := b.cfg.Exclusive(ctx, func() error { return b.cuts.begin(k) }); err != nil {
			return nil, 0, nil, err
		}
		if err = b.await(ctx, func(*view.View) bool { return b.cuts.made(k) }); err == nil {
			err = k.err
		}
		if err != nil {
			b.cuts.giveUp(k)
			return nil, 0, nil, err
		}
		l, whole, err := k.pin.View().Layout.AsOf(k.version, k.then, k.milli)
		if err == nil && !whole { // a keyspace was dropped meanwhile
			k.pin.Release()
			continue
		}
		if err != nil {
			k.pin.Release()
			return nil, 0, nil, err
		}
		_, release := k.pin.Narrow(func(part *view.View) {
			part.Tables = nil
			part.Segments = part.Segments.Without(func(num entry.FileNum) bool { return l.Segment(num) == nil })
		})
		return l, k.milli, release, nil
	}
}
