//go:build !linux

package vfs

import (
	"errors"
	"os"
)

const largeFiles = 0 // every program can open files of any size

// syncData is Sync, which on darwin calls F_FULLFSYNC: weaker calls don't reach the medium.
func syncData(f *os.File) error { return f.Sync() }

// clone is not supported.
func clone(a, b *os.File) error { return errors.ErrUnsupported }

// startWriteback does nothing: no call does that here.
func startWriteback(*os.File, int64, int64) {}

// startRead does nothing.
func startRead(*os.File, int64, int64) {}

// writeVec gathers the buffers.
func writeVec(f *os.File, bufs [][]byte, off int64) (int, error) { return writeGathered(f, bufs, off) }
