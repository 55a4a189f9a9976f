package tree

import (
	"context"
	"sync"

	"github.com/brockdb/brock/internal/crypt"
)

// copying lets copies of the store (checkpoints, backups) run together, and a change of its
// keys only while there is none: a copy has the keyring of one moment, and needs its keys.
type copying struct {
	mu      sync.Mutex
	copies  int
	waiting int // changes of keys that wait: no copy begins before them
	alone   bool
	changed chan struct{} // closed when one ends; nil: nobody waits
}

// begin waits until a copy may begin or, with alone, a change of keys.
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
			return context.Cause(ctx)
		}
	}
	return nil
}

// try begins a change of keys, unless it would have to wait.
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
// that was current when each began. It may have files under that key, and under later ones.
type keyUse struct {
	ring *crypt.Ring // nil: the store is plain
	mu   sync.Mutex
	open map[crypt.ID]int
}

// begin notes one. Give the id to end.
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

// older reports whether one has begun under another key than the current one.
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
