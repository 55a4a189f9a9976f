package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
)

// transfer gives the copy a file of the store: by a hard link, else by a clone (blocks that are
// shared until one is written), else by copying the bytes.
func (w *writer) transfer(ctx context.Context, name filename.Name) error {
	from, to := name.In(w.Dir, w.ValueDir), name.In(w.dir, w.dir)
	share := w.share && !w.Lone[name]
	if share {
		linked, err := w.link(from, to)
		if err != nil || linked {
			return err
		}
	}
	w.copied[name] = true
	if share && w.to.Clone(from, to) == nil {
		f, err := w.to.OpenReadWrite(to)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}
	if err := w.copy(ctx, from, to); err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	return nil
}

// link gives the file a second name, if that is possible.
func (w *writer) link(from, to string) (linked bool, err error) {
	switch err := w.to.Link(from, to); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrExist):
		return false, err
	}
	// For instance, dir is on another file system; or the writer of a store that is followed has
	// removed the name, and FS holds the file open.
	return false, nil
}

// copyBytes is how many bytes are copied at once.
const copyBytes = 1 << 20

// copy makes a file of the same bytes, and syncs it.
func (w *writer) copy(ctx context.Context, from, to string) (err error) {
	a, err := w.FS.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	size, err := a.Size()
	if err != nil {
		return err
	}
	b, err := w.to.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	p := make([]byte, min(size, copyBytes))
	for at := int64(0); at < size; {
		if err := errs.Ended(ctx); err != nil {
			return err
		}
		part := p[:min(int64(len(p)), size-at)]
		if n, err := a.ReadAt(part, at); n < len(part) {
			return err
		}
		if _, err := b.WriteAt(part, at); err != nil {
			return err
		}
		at += int64(len(part))
	}
	return b.Sync()
}

// verify checks every checksum of the files that were copied, as the copy has them.
func (w *writer) verify(ctx context.Context) error {
	if len(w.copied) == 0 {
		return nil
	}
	c, err := newCopy(w.to, w.dir, w.UUID, w.Seed, w.Layout, w.Ring)
	if err != nil {
		return err
	}
	defer c.view.Close()
	for f := range w.Layout.Files() {
		name := f.Name
		if !w.copied[name] {
			continue
		}
		if err := c.verifyFile(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
