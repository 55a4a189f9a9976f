package run

import (
	"cmp"
	"container/list"
	"sync"

	"github.com/brockdb/brock/internal/run/chunk"
)

// DefaultCacheBytes (64 MB) is the usual bound of a cache of chunks.
const DefaultCacheBytes = 64 << 20

// Cache keeps the chunks last read of files that are not mapped. Readers may
// share one; any number of goroutines may use it.
type Cache struct {
	mu    sync.Mutex
	limit int64
	bytes int64
	byKey map[*chunk.Chunk]*list.Element
	used  list.List // of *cached, the last used first
}

type cached struct {
	key   *chunk.Chunk // the chunk without data, in its Reader
	chunk *chunk.Chunk
}

// NewCache returns a Cache of at most limit bytes (0 = DefaultCacheBytes), or of
// one chunk if that is longer.
func NewCache(limit int64) *Cache {
	return &Cache{limit: cmp.Or(limit, DefaultCacheBytes), byKey: map[*chunk.Chunk]*list.Element{}}
}

// Bytes is how much the chunks take.
func (c *Cache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func (c *Cache) get(key *chunk.Chunk) *chunk.Chunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		return nil
	}
	c.used.MoveToFront(e)
	return e.Value.(*cached).chunk
}

func (c *Cache) add(key, ch *chunk.Chunk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Another goroutine has read it meanwhile.
	if c.byKey[key] != nil {
		return
	}
	c.byKey[key] = c.used.PushFront(&cached{key, ch})
	c.bytes += int64(len(ch.Data))
	for c.bytes > c.limit && c.used.Len() > 1 {
		c.drop(c.used.Back())
	}
}

// forget drops the chunks of a Reader that is closed.
func (c *Cache) forget(keys []*chunk.Chunk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		if e := c.byKey[k]; e != nil {
			c.drop(e)
		}
	}
}

func (c *Cache) drop(e *list.Element) {
	v := c.used.Remove(e).(*cached)
	delete(c.byKey, v.key)
	c.bytes -= int64(len(v.chunk.Data))
}
