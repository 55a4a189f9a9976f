package vfs

import (
	"fmt"
	"math"

	"github.com/brockdb/brock/internal/errs"
)

var errMemFull = fmt.Errorf("no space left in memory: %w", errs.ErrNoSpace)

// SetCapacity sets the size of the disk in bytes; 0, as in a new Mem, = no bound. It
// may be changed at any time, also to less than files take: then no file can grow,
// as on a disk that other programs have filled.
//
// Files take whole blocks of 4096 bytes, also for holes, until their last name is
// removed. A write beyond the capacity is a short write. Names take nothing.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// Used is how many bytes all files take, in whole blocks.
func (m *Mem) Used() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.used()
}

// used is Used; the mutex is held.
func (m *Mem) used() (n int64) {
	seen := map[*memFile]bool{}
	m.root.walk(func(f *memFile) {
		if !seen[f] {
			n += blocks(f.now.size)
		}
		if m.linked {
			seen[f] = true
		}
	})
	return n
}

// blocks is how many bytes a file of this size takes.
func blocks(size int64) int64 { return (size + chunkSize - 1) / chunkSize * chunkSize }

// free is what is left of the capacity, -1 without one; the mutex is held.
func (m *Mem) free() int64 {
	if m.capacity <= 0 {
		return -1
	}
	return max(m.capacity-m.used(), 0)
}

// grows is the greatest size to which a file may grow; the mutex is held.
func (m *Mem) grows(f *memFile) int64 {
	free := m.free()
	if free < 0 {
		return math.MaxInt64
	}
	return blocks(f.now.size) + free/chunkSize*chunkSize
}
