package blocks

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// DefaultBytes (64 MB) is the usual bound of a Cache.
const DefaultBytes = 64 << 20

// Cache bounds the memory of what was read of files that are not read in place. Readers
// may share one; any number of goroutines may use it. What is in it is found without it,
// and without a lock: by a pointer that the item takes back when it is dropped. It lies on
// the Go heap, so what was handed out of a dropped item stays valid.
type Cache struct {
	limit int64
	bytes atomic.Int64

	mu   sync.Mutex // guards:
	ring []cached
	hand int // the next one of ring that is considered
}

type cached struct {
	Item
	owner any
	bytes int64
}

// Item is something in a Cache.
type Item interface {
	// Idle reports whether the item was not used since Idle was called last.
	Idle() bool
	// Drop has nobody find the item from now on.
	Drop()
}

// Used is a mark that an item was used: most of Item.Idle. Each reader sets it, so that it
// is written only where it changes.
type Used struct{ yes atomic.Bool }

// Use sets the mark.
func (u *Used) Use() {
	if !u.yes.Load() {
		u.yes.Store(true)
	}
}

// Idle takes the mark away, and reports whether there was none.
func (u *Used) Idle() bool { return !u.yes.Load() || !u.yes.Swap(false) }

// NewCache returns a Cache of at most limit bytes (0 = DefaultBytes), or of one item if
// that is larger.
func NewCache(limit int64) *Cache { return &Cache{limit: cmp.Or(limit, DefaultBytes)} }

// Bytes is how much the items take.
func (c *Cache) Bytes() int64 { return c.bytes.Load() }

// HasRoom reports whether items may be added without a thought of what they push out.
func (c *Cache) HasRoom() bool { return c.bytes.Load() < c.limit/8*7 }

// Add adds an item of this many bytes, which can be found from now on. If there is no room
// it drops items that were not used for a while: each item has the time until the clock's
// hand comes back (Corbató, "A Paging Experiment with the Multics System", 1968).
func (c *Cache) Add(owner any, it Item, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes.Add(bytes)
	for len(c.ring) > 0 && c.bytes.Load() > c.limit {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		if !c.ring[c.hand].Idle() {
			c.hand++
			continue
		}
		c.dropLocked(c.hand)
		// What takes its place comes from the end: it has its turn with the next round.
		c.hand++
	}
	c.ring = append(c.ring, cached{it, owner, bytes})
}

// dropLocked drops item i, and puts the last one in its place.
func (c *Cache) dropLocked(i int) {
	c.ring[i].Drop()
	c.bytes.Add(-c.ring[i].bytes)
	last := len(c.ring) - 1
	c.ring[i] = c.ring[last]
	c.ring[last] = cached{}
	c.ring = c.ring[:last]
}

// Forget drops the items of an owner.
func (c *Cache) Forget(owner any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.ring) - 1; i >= 0; i-- {
		if c.ring[i].owner == owner {
			c.dropLocked(i)
		}
	}
	c.ring = slices.Clip(c.ring)
}
