package engine

import (
	"context"
	"sync"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/jobs"
)

// copying is a lock that copies of the store (checkpoints, backups) share, and that a change
// of its keys holds alone. A copy has the keyring of one moment, so no key may be added or
// removed while it is made.
type copying struct {
	gate  jobs.Turn // a copy passes it; a change has it, also while it waits: then no new copy begins
	store jobs.Turn // of all copies together, or of one change

	mu     sync.Mutex // guards:
	copies int        // that are under way
}

func newCopying() *copying { return &copying{gate: jobs.NewTurn(), store: jobs.NewTurn()} }

// beginCopy takes the lock for a copy. It waits until it can, or until ctx ends.
func (c *copying) beginCopy(ctx context.Context) error {
	if err := c.gate.Take(ctx); err != nil {
		return err
	}
	// A copy only passes the gate. A change waits while it has the gate, so copies that keep coming
	// can't hold it off for ever.
	defer c.gate.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.copies++; c.copies == 1 {
		c.store.Always() // no wait: only a change could have it, and that has the gate, too
	}
	return nil
}

func (c *copying) endCopy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.copies--; c.copies == 0 {
		c.store.Leave()
	}
}

// beginChange takes the lock for a change of keys. It waits until it can, or until ctx ends.
func (c *copying) beginChange(ctx context.Context) error {
	if err := c.gate.Take(ctx); err != nil {
		return err
	}
	// With the gate held: copies under way end, and no new one begins.
	err := c.store.Take(ctx)
	if err != nil {
		c.gate.Leave()
	}
	return err
}

// tryChange takes the lock for a change of keys if that needs no wait, and reports whether it did.
func (c *copying) tryChange() bool {
	if !c.gate.Try() {
		return false
	}
	took := c.store.Try()
	if !took {
		c.gate.Leave()
	}
	return took
}

func (c *copying) endChange() {
	c.store.Leave()
	c.gate.Leave()
}

// keyUse counts the compactions, collections and large transactions under way by the data key
// that was current when each began. Such work may write files under that key, and under
// later ones, so these keys must stay until it ends.
type keyUse struct {
	ring *crypt.Ring      // nil: the store is plain
	mu   sync.Mutex       // guards:
	open map[crypt.ID]int // pieces of work under way, by the key that was current when they began
}

// beginWork counts one piece of work. Pass the returned id to endWork.
func (u *keyUse) beginWork() (id crypt.ID) {
	if u.ring == nil {
		return id
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	id = u.ring.Current()
	u.open[id]++
	return id
}

func (u *keyUse) endWork(id crypt.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open[id]--; u.open[id] <= 0 {
		delete(u.open, id)
	}
}

// hasOlder reports whether work is under way that began under a key other than the current one.
func (u *keyUse) hasOlder() bool {
	current := u.ring.Current()
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range u.open {
		if id != current {
			return true
		}
	}
	return false
}
