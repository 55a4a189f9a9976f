//go:build linux || darwin

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameFlags renames with one of the flags of this system. It returns errors.ErrUnsupported, and
// changes nothing, where the kernel or the file system doesn't know the flag.
func renameFlags(op string, from, to place, flags uint) error {
	err := from.at(func(a int, old string) error {
		return to.at(func(b int, new string) error { return renameAt(a, old, b, new, flags) })
	})
	switch err {
	case nil:
		return nil
	// EXDEV is of directories in a lower layer of overlayfs: both are in one directory.
	case unix.EINVAL, unix.ENOSYS, unix.ENOTSUP, unix.EXDEV:
		return pathError(op, from.path, errors.ErrUnsupported)
	}
	return &os.LinkError{Op: op, Old: from.path, New: to.path, Err: err}
}
