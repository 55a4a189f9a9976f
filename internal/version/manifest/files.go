package manifest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/vfs"
)

// readFile reads a file whole, or its first limit bytes.
func readFile(fsys vfs.FS, path string, limit int64) (p []byte, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	// The size comes from the disk, so a limit bounds the memory.
	p = make([]byte, min(size, limit))
	n, err := f.ReadAt(p, 0)
	// A short read without another error means that the file lost its end just now.
	if n < len(p) && (err == nil || errors.Is(err, io.EOF)) {
		return nil, errs.NewCorruption(filepath.Base(path), int64(n), "the file ends here and should have %d bytes", len(p))
	}
	if n < len(p) {
		return nil, err
	}
	return p, nil
}

// readManifest calls fn with the manifest num in dir and its length.
func readManifest(fsys vfs.FS, dir string, num entry.FileNum, fn func(f io.ReaderAt, size int64) error) error {
	f, err := fsys.Open(filepath.Join(dir, filename.Of(filename.Manifest, num)))
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil {
		err = fn(f, size)
	}
	return errors.Join(err, f.Close())
}

func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func allZero(p []byte) bool { return len(bytes.TrimLeft(p, "\x00")) == 0 }
