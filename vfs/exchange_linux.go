package vfs

import "golang.org/x/sys/unix"

// exchange gives two places each other's name.
func exchange(a, b place) error {
	err := a.at(func(x int, old string) error {
		return b.at(func(y int, new string) error {
			return unix.Renameat2(x, old, y, new, unix.RENAME_EXCHANGE)
		})
	})
	// EXDEV is of directories in a lower layer of overlayfs: both are in one directory.
	return exchangeError(a, b, err, err == unix.EINVAL || err == unix.ENOSYS || err == unix.EXDEV)
}
