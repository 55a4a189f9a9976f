//go:build brockdebug

package brock

import (
	"sync"

	"github.com/brockdb/brock/internal/base/invariant"
)

// lentKeys are copies that were handed out, to be overwritten when they are no longer valid, so
// that tests find users of memory after its lifetime. Iterators on several goroutines may use those
// of their transaction.
type lentKeys struct {
	mu     sync.Mutex
	copies [][]byte
}

// lend returns a copy of b that poison overwrites.
func (l *lentKeys) lend(b []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	b = append(make([]byte, 0, len(b)), b...)
	l.copies = append(l.copies, b)
	return b
}

// poison overwrites the copies.
func (l *lentKeys) poison() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.copies {
		invariant.Poison(b)
	}
	l.copies = nil
}
