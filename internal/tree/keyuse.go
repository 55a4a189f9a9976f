package tree

import (
	"context"
	"sync"

	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/errs"
)

// copying is a lock that copies of the store (checkpoints, backups) share, and that a change
// of its keys holds alone. A copy has the keyring of one moment, so no key may be added or
// removed while it is made.
type copying struct {
	mu      sync.Mutex
	copies  int
	waiting int // changes of keys that wait; while there are any, no new copy begins
	alone   bool
	changed chan struct{} // closed when a copy or a change ends; nil: nobody waits
}

// begin takes the lock for a copy or, with alone, for a change of keys. It waits until it can,
// or until ctx ends.
func (c *copying) begin(ctx context.Context, alone bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if alone {
		c.waiting++
		defer func() {
			c.waiting--
			c.wakeLocked()
		}()
	}
	for !c.tryLocked(alone) {
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			return errs.Ended(ctx)
		}
	}
	return nil
}

// try takes the lock for a change of keys if that needs no wait, and reports whether it did.
func (c *copying) try() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tryLocked(true)
}

func (c *copying) tryLocked(alone bool) bool {
	if c.alone || alone && c.copies > 0 || !alone && c.waiting > 0 {
		return false
	}
	if c.alone = alone; !alone {
		c.copies++
	}
	return true
}

func (c *copying) end(alone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alone = false; !alone {
		c.copies--
	}
	c.wakeLocked()
}

func (c *copying) wakeLocked() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// keyUse counts the compactions, collections and large transactions under way by the data key
// that was current when each began. Such work may write files under that key, and under
// later ones, so these keys must stay until it ends.
type keyUse struct {
	ring *crypt.Ring // nil: the store is plain
	mu   sync.Mutex
	open map[crypt.ID]int
}

// begin counts one piece of work. Pass the returned id to end.
func (u *keyUse) begin() (id crypt.ID) {
	if u.ring == nil {
		return id
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == nil {
		u.open = map[crypt.ID]int{}
	}
	id = u.ring.Current()
	u.open[id]++
	return id
}

func (u *keyUse) end(id crypt.ID) {
	if u.ring == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open[id]--; u.open[id] <= 0 {
		delete(u.open, id)
	}
}

// older reports whether work is under way that began under a key other than the current one.
func (u *keyUse) older() bool {
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
