package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// transfer gives the copy a file of the store: by a hard link, else by a clone (blocks that are
// shared until one is written), else by copying the bytes.
func (w *writer) transfer(ctx context.Context, name filename.Name) (linked bool, err error) {
	from, to := name.In(w.from.Dir, w.from.ValueDir), name.In(w.to.Dir, w.to.ValueDir)
	if w.share && !w.from.Lone[name] {
		// A link may be refused, for instance because dir is on another file system; or the writer
		// of a store that is followed has removed the name, and FS holds the file open.
		if err := w.to.FS.Link(from, to); err == nil || errors.Is(err, fs.ErrExist) {
			return err == nil, err
		}
		if w.to.FS.Clone(from, to) == nil {
			f, err := w.to.FS.OpenReadWrite(to)
			if err != nil {
				return false, err
			}
			// A clone is durable only after a sync. It is verified, too: its source may be damaged.
			return false, errors.Join(f.Sync(), f.Close())
		}
	}
	if err := w.copy(ctx, from, to); err != nil {
		return false, fmt.Errorf("copy %s: %w", name, err)
	}
	return false, nil
}

// copyBytes is how many bytes are copied at once.
const copyBytes = 1 << 20

// copy makes a file of the same bytes, and syncs it.
func (w *writer) copy(ctx context.Context, from, to string) (err error) {
	a, err := w.from.FS.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	size, err := a.Size()
	if err != nil {
		return err
	}
	b, err := w.to.FS.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	p := make([]byte, min(size, copyBytes))
	for at := int64(0); at < size; at += int64(len(p)) {
		if err := errs.Ended(ctx); err != nil {
			return err
		}
		p = p[:min(int64(len(p)), size-at)]
		if err := pageio.ReadFull(a, p, at); err != nil {
			return err
		}
		if _, err := b.WriteAt(p, at); err != nil {
			return err
		}
	}
	// Before Finish writes SUPER, which says that all files are there.
	return b.Sync()
}
