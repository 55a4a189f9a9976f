package pageio

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// DefaultCacheBytes (64 MB) is the usual bound of a Cache.
const DefaultCacheBytes = 64 << 20

// Cache bounds the memory of what was read of files that are not read in place. Readers
// may share one; any number of goroutines may use it. It only counts items and drops them. To
// find an item takes neither the Cache nor a lock: its owner has a pointer to it, which Drop
// clears. Items lie on the Go heap, so bytes of a dropped item stay valid while somebody has
// them.
type Cache struct {
	limit int64        // in bytes
	bytes atomic.Int64 // of all items

	mu   sync.Mutex // guards what follows
	ring []cached   // the items, in no order
	hand int        // index of the item of ring that is considered next
}

type cached struct {
	CacheItem
	owner any
	bytes int64
}

// CacheItem is something in a Cache.
type CacheItem interface {
	// Idle reports whether the item was not used since Idle was called last.
	Idle() bool
	// Drop makes the item unfindable. It is called under the Cache's lock.
	Drop()
}

// Used is a mark that an item was used, with the Idle of a CacheItem. Many readers set it, so it is
// written only where that changes it.
type Used struct{ yes atomic.Bool }

// MarkUsed sets the mark.
func (u *Used) MarkUsed() {
	if !u.yes.Load() {
		u.yes.Store(true)
	}
}

// Idle clears the mark, and reports whether there was none.
func (u *Used) Idle() bool { return !u.yes.Load() || !u.yes.Swap(false) }

// NewCache returns a Cache of at most limit bytes (0 = DefaultCacheBytes), or of one item if
// that is larger.
func NewCache(limit int64) *Cache { return &Cache{limit: cmp.Or(limit, DefaultCacheBytes)} }

// Bytes is how much the items take.
func (c *Cache) Bytes() int64 { return c.bytes.Load() }

// HasRoom reports whether at least an eighth of the cache is free: then an item may be added
// that would not be worth dropping another one for.
func (c *Cache) HasRoom() bool { return c.bytes.Load() < c.limit/8*7 }

// Add adds an item of this many bytes, which can be found already. If there is no room it drops
// items that were not used since the hand of the clock passed them last (Corbató, "A Paging
// Experiment with the Multics System", 1968).
func (c *Cache) Add(owner any, it CacheItem, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes.Add(bytes)
	// Ends after two rounds at most: the first one may only clear marks.
	for len(c.ring) > 0 && c.bytes.Load() > c.limit {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		if !c.ring[c.hand].Idle() {
			c.hand++
			continue
		}
		c.dropLocked(c.hand)
		// The last item takes its place. It has its turn in the next round.
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
