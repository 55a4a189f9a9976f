package vfs

import "golang.org/x/sys/unix"

// exchange gives two places each other's name.
func exchange(a, b place) error {
	err := a.at(func(x int, old string) error {
		return b.at(func(y int, new string) error {
			return unix.RenameatxNp(x, old, y, new, unix.RENAME_SWAP)
		})
	})
	return exchangeError(a, b, err, err == unix.ENOTSUP || err == unix.EINVAL)
}
