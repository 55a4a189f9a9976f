//go:build !unix

package vfs

import "io/fs"

// links returns 0, not known: these systems tell it only of an open file, or not at all.
func links(fs.FileInfo) int { return 0 }
