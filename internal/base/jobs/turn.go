package jobs

import (
	"context"

	"github.com/brockdb/brock/internal/base/errs"
)

// Turn is a lock that is held over long work. Unlike a mutex, a wait for it ends with a
// context. NewTurn makes one.
type Turn chan struct{}

// NewTurn returns a Turn that nobody has.
func NewTurn() Turn { return make(Turn, 1) }

// Take waits for the lock. If ctx ends first, it returns the cause, and has not taken it.
func (t Turn) Take(ctx context.Context) error {
	// If both are ready, select chooses any: nothing must begin after the end of ctx.
	if ctx.Err() != nil {
		return errs.Ended(ctx)
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errs.Ended(ctx)
	}
}

// Always is Take for work that no context ends.
func (t Turn) Always() { t <- struct{}{} }

// Try takes the lock if that needs no wait, and reports whether it did.
func (t Turn) Try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave gives the lock back.
func (t Turn) Leave() { <-t }
