//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package vfs

import (
	"errors"
	"os"
)

// lockFile is not supported: these systems have no lock of an open file, or can't remove a file
// that is open, as Windows.
func lockFile(f *os.File, _ bool) (bool, error) {
	return false, pathError("lock", f.Name(), errors.ErrUnsupported)
}
