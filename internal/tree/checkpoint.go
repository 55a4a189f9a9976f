package tree

import (
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/checkpoint"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/view"
)

// checkpoint makes a copy of the store, as of one version, in a directory that does
// not exist.
func (b *background) checkpoint(ctx context.Context, dir string) error {
	if b.cfg.ReadOnly {
		return errs.ErrReadOnly
	}
	ctx, end := b.life.until(ctx)
	defer end()
	if err := checkpoint.Absent(b.cfg.Base, dir); err != nil {
		return err
	}
	l, release, err := b.cut(ctx)
	if err != nil {
		return err
	}
	defer b.views.Reclaim()
	defer release()
	super := b.log.Super()
	err = checkpoint.Write(ctx, checkpoint.Source{
		FS: b.cfg.FS, Dir: b.cfg.Dir, ValueDir: b.cfg.ValueDir, UUID: super.UUID, Seed: super.Seed, Created: super.Created, Layout: l,
	}, checkpoint.Target{FS: b.cfg.Base, Dir: dir, NoLinks: b.cfg.NoLinks})
	if err != nil && b.views.Closed() && !errors.Is(err, errs.ErrClosed) {
		err = fmt.Errorf("%w: %w", errs.ErrClosed, err) // its files can't be reached any more
	}
	return err
}

// cut returns the layout of the store as of one version, whose files stay until
// release is called.
func (b *background) cut(ctx context.Context) (l *layout.Layout, release func(), err error) {
	for {
		k := new(cut)
		if err := b.cfg.Exclusive(func() error { return b.cuts.begin(k) }); err != nil {
			return nil, nil, err
		}
		if err = b.await(ctx, func(*view.View) bool { return b.cuts.made(k) }); err == nil {
			err = k.err
		}
		if err != nil {
			b.cuts.giveUp(k)
			return nil, nil, err
		}
		l, whole, err := k.pin.View().Layout.AsOf(k.version, k.then, k.milli)
		if err == nil && !whole { // a keyspace was dropped meanwhile
			k.pin.Release()
			continue
		}
		if err != nil {
			k.pin.Release()
			return nil, nil, err
		}
		_, release := k.pin.Narrow(func(part *view.View) {
			part.Tables = nil
			part.Segments = part.Segments.Without(func(num entry.FileNum) bool { return l.Segment(num) == nil })
		})
		return l, release, nil
	}
}
