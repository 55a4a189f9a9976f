//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly && !windows

package vfs

import (
	"os"
	"sync"
)

// Systems without a lock that belongs to an open file (wasm hosts, and
// those with POSIX record locks only) keep handles of one process apart, not
// processes from each other.
var locks = struct {
	sync.Mutex
	held map[*os.File]heldLock
}{held: map[*os.File]heldLock{}}

// heldLock is a lock of this process.
type heldLock struct {
	file   os.FileInfo
	shared bool
}

// tryLock takes the lock of f, unless another handle of this process has one that excludes it.
func tryLock(f *os.File, shared bool) (bool, error) {
	file, err := f.Stat()
	if err != nil {
		return false, err
	}
	locks.Lock()
	defer locks.Unlock()
	for _, l := range locks.held {
		if os.SameFile(l.file, file) && !(l.shared && shared) {
			return false, nil
		}
	}
	locks.held[f] = heldLock{file, shared}
	return true, nil
}

// unlock gives the lock back.
func unlock(f *os.File) {
	locks.Lock()
	defer locks.Unlock()
	delete(locks.held, f)
}
