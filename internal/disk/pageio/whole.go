package pageio

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/brockdb/brock/vfs"
)

// Files that are read or written by one call.

// ReadHead reads the first limit bytes of a file, or all if it has fewer.
func ReadHead(fsys vfs.FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	// One call: what another process writes meanwhile is read before or after.
	p := make([]byte, limit)
	n, err := f.ReadAt(p, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return p[:n], errors.Join(err, f.Close())
}

// CreateFile makes a file of what fill writes, and syncs it; its name is durable once the directory
// is synced. On an error nothing is left, if it can be removed.
func CreateFile(fsys vfs.FS, path string, fill func(w io.Writer) error) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	if err = fill(io.NewOffsetWriter(f, 0)); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, fsys.Remove(path))
	}
	return nil
}

// CreateDurable makes a file with these bytes, which nothing names yet, and makes it and its name
// durable. It returns the file, open for writing. After an error there is no file, as far as it can
// be removed.
func CreateDurable(fsys vfs.FS, path string, parts ...[]byte) (vfs.File, error) {
	f, err := fsys.Create(path)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	n, err := f.WriteVec(parts, 0)
	if err == nil && n < size {
		err = fmt.Errorf("short write: %d of %d bytes", n, size)
	}
	// The file before its name: a manifest or SUPER that names it is written next.
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), fsys.Remove(path))
	}
	return f, nil
}
