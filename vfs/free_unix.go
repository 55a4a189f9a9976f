//go:build linux || darwin || freebsd

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// free is how many bytes can still be written in the file system of dir.
func free(dir *os.File) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &s); err != nil {
		return -1, err
	}
	// Bavail, not Bfree: what is kept for root can't be written by this process.
	return int64(s.Bavail) * int64(s.Bsize), nil
}
