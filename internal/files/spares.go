package files

import (
	"sync"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/garbage"
	"github.com/brockdb/brock/internal/policy"
)

// Spares are journal segments that nothing needs any more, kept for use as new ones. To
// overwrite a file costs less than to allocate new blocks and pages.
type Spares struct {
	budget *garbage.Budget
	least  int64 // bytes of a file that is kept

	mu     sync.Mutex // guards:
	names  []filename.Name
	closed bool
	tight  bool // disk space is short: keep no spares
}

// offer keeps a journal segment of size bytes as a spare. If it returns false, the caller must
// remove the file.
func (r *Spares) offer(num entry.FileNum, size int64) bool {
	// A small file saves little. Spares must not take disk space from the garbage budget.
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

// Take returns the name of a spare in the value directory, which then belongs to the caller.
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

// Tighten sets whether disk space is short, so that no more spares are kept, and reports whether
// there are any now.
func (r *Spares) Tighten(on bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tight = on
	return len(r.names) > 0
}

// drain takes out all spares, for removal. With closed, no more are kept afterwards.
func (r *Spares) drain(closed bool) []filename.Name {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = r.closed || closed
	left := r.names
	r.names = nil
	return left
}
