package manifest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"github.com/brockdb/brock/vfs"
)

// readFile reads a file whole, or its first limit bytes.
func readFile(fsys vfs.FS, path string, limit int64) ([]byte, error) {
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

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func allZero(p []byte) bool { return len(bytes.TrimLeft(p, "\x00")) == 0 }
