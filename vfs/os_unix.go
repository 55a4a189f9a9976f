//go:build unix

package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK | largeFiles // a link is refused, and a pipe doesn't wait for its other end
	dirsSync  = true                                           // a directory is synced like a file
)

// isNoSpace reports whether the disk, or the user's quota, is full.
func isNoSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
