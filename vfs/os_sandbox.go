//go:build !unix && !windows

package vfs

import (
	"errors"
	"syscall"
)

const (
	openFlags = 0
	dirsSync  = false // wasm hosts have no call for it
)

// isNoSpace reports whether the disk is full.
func isNoSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) }
