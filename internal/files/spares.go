package files

import (
	"sync"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/garbage"
	"github.com/brockdb/brock/internal/policy"
)

// Spares are journal segments that nothing needs any more: overwriting them
// costs less than allocating new blocks and pages.
type Spares struct {
	budget *garbage.Budget
	least  int64 // bytes of a file that is kept

	mu     sync.Mutex // guards:
	names  []filename.Name
	closed bool
	tight  bool // there is no space to keep any
}

// offer keeps the file for later, or returns false.
func (r *Spares) offer(num entry.FileNum, size int64) bool {
	// A small file saves nothing, and none may take disk space that garbage needs.
	if size < r.least || !r.budget.Affords(size) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.tight || len(r.names) == policy.SpareFiles {
		return false
	}
	r.names = append(r.names, filename.New(filename.Journal, num))
	return true
}

// Take gives out a file in the value directory that nobody uses.
func (r *Spares) Take() (base string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.names) == 0 {
		return "", false
	}
	name := r.names[0]
	r.names = r.names[1:]
	return name.String(), true
}

// Tighten says whether none are to be kept, for want of space, and reports
// whether there are any.
func (r *Spares) Tighten(on bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tight = on
	return len(r.names) > 0
}

// drain gives out all that is left, for removal; closed, it takes no more.
func (r *Spares) drain(closed bool) []filename.Name {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = r.closed || closed
	left := r.names
	r.names = nil
	return left
}
