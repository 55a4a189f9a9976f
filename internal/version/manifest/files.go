package manifest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/vfs"
)

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

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func allZero(p []byte) bool { return len(bytes.TrimLeft(p, "\x00")) == 0 }
