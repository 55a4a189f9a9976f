package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// transferFile gives the copy a file of the store: by a hard link, else by a clone (blocks that are
// shared until one is written), else by copying the bytes.
func (w *writer) transferFile(ctx context.Context, name filename.Name) (linked bool, err error) {
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
	if err := w.copyFile(ctx, from, to); err != nil {
		return false, fmt.Errorf("copy %s: %w", name, err)
	}
	return false, nil
}

// copyBytes is how many bytes are copied at once.
const copyBytes = 1 << 20

// CopyBytes copies r to w, unless ctx ends first. It returns how many bytes there were: size, or size
// + 1 if r goes on.
func CopyBytes(ctx context.Context, w io.Writer, r io.Reader, size int64) (int64, error) {
	return io.CopyBuffer(w, &bounded{ctx, io.LimitReader(r, size+1)}, make([]byte, min(size+1, copyBytes)))
}

// bounded is a reader that ends with its context.
type bounded struct {
	ctx context.Context
	io.Reader
}

// Read reads, unless the context has ended.
func (b *bounded) Read(p []byte) (int, error) {
	if err := errs.Ended(b.ctx); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

// copyFile makes a file of the same bytes, and syncs it.
func (w *writer) copyFile(ctx context.Context, from, to string) (err error) {
	a, err := w.from.FS.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	size, err := a.Size()
	if err != nil {
		return err
	}
	// Synced before Finish writes SUPER, which says that all files are there.
	return pageio.CreateFile(w.to.FS, to, func(b io.Writer) error {
		// Fewer bytes are damage, which the Verifier finds in the copy.
		_, err := CopyBytes(ctx, b, io.NewSectionReader(a, 0, size), size)
		return err
	})
}
