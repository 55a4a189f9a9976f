package engine

import (
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
)

// damagedFiles knows the segments, and the files of runs, that can't be read as a whole. They stay
// as they are, so that nothing more of them gets lost.
type damagedFiles struct {
	mu   sync.Mutex
	nums []entry.FileNum // add replaces the slice and never changes it: list returns it
}

// add adds a damaged file. It may be in the list already.
func (d *damagedFiles) add(num entry.FileNum) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A plan may still be reading the old slice, without the mutex.
	d.nums = append(slices.Clone(d.nums), num)
}

// list returns the numbers of the damaged files. The caller must not change the slice.
func (d *damagedFiles) list() []entry.FileNum {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nums
}
