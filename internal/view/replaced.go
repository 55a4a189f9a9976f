package view

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/version/layout"
)

// Replaced is an account of what entries have replaced, by samples. One goroutine writes it; any
// may read it. The zero value is empty.
type Replaced struct {
	atOnce   atomic.Int64 // bytes of separated values that nobody needs since they were replaced
	retained atomic.Int64 // bytes of those that are retained for a while
	age      atomic.Int64 // the shortest such while, in nanoseconds; 0: none is retained

	mu      sync.Mutex     // guards:
	account layout.Account // what was replaced, in steps of versions
}

// Add counts s, which is retained for some time; 0 = it is not.
func (r *Replaced) Add(s layout.Superseded, age time.Duration) {
	if age <= 0 {
		r.atOnce.Add(int64(s.Separated))
	} else {
		r.retained.Add(int64(s.Separated))
		// No compare-and-swap: one goroutine writes.
		if least := r.age.Load(); least == 0 || int64(age) < least {
			r.age.Store(int64(age))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account.Add(s)
}

// Bytes returns the bytes of separated values that nobody needs since they were replaced, and of
// those that are retained, for age or longer.
func (r *Replaced) Bytes() (dead, retained int64, age time.Duration) {
	return r.atOnce.Load(), r.retained.Load(), time.Duration(r.age.Load())
}

// List returns what was counted.
func (r *Replaced) List() []layout.Superseded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.account.List()
}
