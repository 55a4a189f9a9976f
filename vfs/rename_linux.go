package vfs

import "golang.org/x/sys/unix"

const (
	renameNoReplace = unix.RENAME_NOREPLACE
	renameExchange  = unix.RENAME_EXCHANGE
)

func renameAt(oldDir int, old string, newDir int, new string, flags uint) error {
	return unix.Renameat2(oldDir, old, newDir, new, flags)
}
