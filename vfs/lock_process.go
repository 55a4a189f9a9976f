//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly && !windows

package vfs

import (
	"os"
	"path/filepath"
	"sync"
)

// Systems without a lock that belongs to an open file (wasm hosts, plan9, and
// those with POSIX record locks only) keep handles of one process apart, not
// processes from each other.
var locks = struct {
	sync.Mutex
	holders map[string]int        // by name: how many share it; -1 exclusive
	mine    map[*os.File]heldLock // what each file holds
}{holders: map[string]int{}, mine: map[*os.File]heldLock{}}

type heldLock struct {
	name   string
	shared bool
}

func tryLock(f *os.File, shared bool) (bool, error) {
	name, err := filepath.Abs(f.Name())
	if err != nil {
		return false, err
	}
	locks.Lock()
	defer locks.Unlock()
	// Names stand for files here: links to one file are not recognised.
	switch n := locks.holders[name]; {
	case shared && n >= 0:
		locks.holders[name] = n + 1
	case !shared && n == 0:
		locks.holders[name] = -1
	default:
		return false, nil
	}
	locks.mine[f] = heldLock{name, shared}
	return true, nil
}

func unlock(f *os.File) {
	locks.Lock()
	defer locks.Unlock()
	l, held := locks.mine[f]
	if !held {
		return
	}
	delete(locks.mine, f)
	n := 0
	if l.shared {
		n = locks.holders[l.name] - 1
	}
	if n == 0 {
		delete(locks.holders, l.name)
	} else {
		locks.holders[l.name] = n
	}
}
