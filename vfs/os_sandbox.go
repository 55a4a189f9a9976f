//go:build !unix && !windows

package vfs

import "syscall"

const (
	openFlags = 0
	dirsSync  = false // wasm hosts have no call for it
)

var noSpaceErrors = []error{syscall.ENOSPC}
