//go:build !linux

package vfs

import (
	"errors"
	"os"
)

// syncData is Sync, which on darwin calls F_FULLFSYNC: weaker calls don't reach the medium.
func syncData(f *os.File) error { return f.Sync() }

// preallocate is not supported: the calls of these systems don't extend the file, or write the
// zeros.
func preallocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

func clone(a, b *os.File) error { return errors.ErrUnsupported }

func renameNew(place, place) error { return errors.ErrUnsupported }

func startWriteback(*os.File, int64, int64) {}

func startRead(*os.File, int64, int64) {}

func writeVec(f *os.File, bufs [][]byte, off int64) (int, error) { return gather(f, bufs, off) }
