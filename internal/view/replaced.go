package view

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/version/meta"
)

// Replaced is an account of what entries have replaced, by samples. One goroutine writes it; any
// may read it. The zero value is empty.
type Replaced struct {
	atOnce   atomic.Int64 // bytes of separated values that were not retained
	retained atomic.Int64 // and of those that were
	age      atomic.Int64 // the shortest time for which they are

	mu      sync.Mutex // guards:
	account meta.Account
}

// Add counts s, which is retained for some time; 0 = it is not.
func (r *Replaced) Add(s meta.Superseded, age time.Duration) {
	if age <= 0 {
		r.atOnce.Add(int64(s.Separated))
	} else {
		r.retained.Add(int64(s.Separated))
		if least := r.age.Load(); least == 0 || int64(age) < least {
			r.age.Store(int64(age))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account.Add(s)
}

// Bytes are those of separated values: of which nobody needs them since they were replaced, and
// which are retained, for an age or longer.
func (r *Replaced) Bytes() (dead, retained int64, age time.Duration) {
	return r.atOnce.Load(), r.retained.Load(), time.Duration(r.age.Load())
}

// List returns what was counted.
func (r *Replaced) List() []meta.Superseded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.account.List()
}
