//go:build unix

package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	noFollow = unix.O_NOFOLLOW
	dirsSync = true // a directory is synced like a file
)

func isNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
