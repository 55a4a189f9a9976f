package vfs

import (
	"fmt"
	"math"

	"github.com/brockdb/brock/internal/base/errs"
)

var errMemFull = fmt.Errorf("no space left in memory: %w", errs.ErrNoSpace)

// SetCapacity sets the size of the disk in bytes; 0 = no bound, as in a new Mem. It may be
// called at any time, also with less than the files take: then no file can grow, as on a disk
// that other programs have filled.
//
// Files take whole blocks of 4096 bytes, also for holes, until their last name is removed.
// Names take nothing. A write beyond the capacity writes what fits, and returns an error for
// which IsNoSpace is true.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// Used returns how many bytes all files take, in whole blocks.
func (m *Mem) Used() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.root.usedBytes(map[*memFile]bool{})
}

// usedBytes returns how many bytes the files in a directory and below it take, but for those that
// were seen before: a file may have several names.
func (d *memDir) usedBytes(seen map[*memFile]bool) (n int64) {
	for _, node := range d.entries {
		if node.dir != nil {
			n += node.dir.usedBytes(seen)
		} else if !seen[node.file] {
			n += blockBytes(node.file.now.size)
			seen[node.file] = true
		}
	}
	return n
}

// blockBytes returns how many bytes a file of this size takes.
func blockBytes(size int64) int64 { return (size + chunkSize - 1) / chunkSize * chunkSize }

// freeBytes returns how many bytes of the capacity are left; -1 without one. The mutex is held.
func (m *Mem) freeBytes() int64 {
	if m.capacity <= 0 {
		return -1
	}
	return max(m.capacity-m.root.usedBytes(map[*memFile]bool{}), 0)
}

// greatestSize returns the greatest size to which a file may grow; the mutex is held.
func (m *Mem) greatestSize(f *memFile) int64 {
	free := m.freeBytes()
	if free < 0 {
		return math.MaxInt64
	}
	return blockBytes(f.now.size) + free/chunkSize*chunkSize
}
