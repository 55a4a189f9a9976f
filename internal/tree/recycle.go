package tree

import (
	"sync"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
)

// Limits of the files that wait to be used again.
const (
	maxRecycled     = 2
	minRecycledSize = 8 << 20 // or a quarter of a segment; below it there is nothing to gain
)

// recycle holds journal segments that nothing needs any more: overwriting them
// costs less than allocating new blocks and pages.
type recycle struct {
	least  int64 // size from which files are kept
	mu     sync.Mutex
	spares []filename.Name
	closed bool
	tight  bool // there is no space to keep any
}

// offer keeps the file for later, or returns false.
func (r *recycle) offer(num entry.FileNum, size int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.tight || size < r.least || len(r.spares) == maxRecycled {
		return false
	}
	r.spares = append(r.spares, filename.New(filename.Journal, num))
	return true
}

// take gives out a file in the value directory that nobody uses.
func (r *recycle) take() (base string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spares) == 0 {
		return "", false
	}
	name := r.spares[0]
	r.spares = r.spares[1:]
	return name.String(), true
}

// tighten says whether none are to be kept, for want of space, and reports
// whether there are any.
func (r *recycle) tighten(on bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tight = on
	return len(r.spares) > 0
}

// drain gives out all that is left, for removal; closed, it takes no more.
func (r *recycle) drain(closed bool) []filename.Name {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = r.closed || closed
	left := r.spares
	r.spares = nil
	return left
}

// removeSpares gives the space of files that wait to be used again back.
func (t *Tree) removeSpares(closing bool) {
	for _, name := range t.spares.drain(closing) {
		t.removeFile(name)
	}
}
