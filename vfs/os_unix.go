//go:build unix

package vfs

import "golang.org/x/sys/unix"

const (
	openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK | largeFiles // a link is refused, and a pipe doesn't wait for its other end
	dirsSync  = true                                           // a directory is synced like a file
)
