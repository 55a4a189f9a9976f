//go:build !unix

package vfs

const (
	openFlags = 0
	dirsSync  = false // the journal of NTFS keeps names, and wasm hosts have no call for it
)
