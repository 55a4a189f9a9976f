package vfs

import "golang.org/x/sys/unix"

const (
	renameNoReplace = unix.RENAME_NOREPLACE
	renameExchange  = unix.RENAME_EXCHANGE
)

var renameAt = unix.Renameat2
