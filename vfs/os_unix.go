//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK // a link is refused, and a pipe doesn't wait for its other end
	dirsSync  = true                              // a directory is synced like a file
)

func isNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// links counts the names of a file.
func links(i fs.FileInfo) int {
	if s, ok := i.Sys().(*syscall.Stat_t); ok {
		return int(s.Nlink)
	}
	return 0
}
