//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package vfs

import (
	"errors"
	"os"
)

// lockFile has no lock that belongs to an open file, or files that are open can't be
// removed, as on Windows.
func lockFile(f *os.File, _ bool) (bool, error) {
	return false, pathError("lock", f.Name(), errors.ErrUnsupported)
}
