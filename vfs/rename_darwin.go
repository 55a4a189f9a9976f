package vfs

import "golang.org/x/sys/unix"

const (
	renameNoReplace = unix.RENAME_EXCL
	renameExchange  = unix.RENAME_SWAP
)

func renameAt(oldDir int, old string, newDir int, new string, flags uint) error {
	return unix.RenameatxNp(oldDir, old, newDir, new, uint32(flags))
}
