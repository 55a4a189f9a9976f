package chunk

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// How a chunk that is not in memory is read, block by block.

// openedBytes is about the memory of a Trailer beside its bytes and the table of blocks, in bytes.
const openedBytes = 2 << 10

// blockAt returns the block that has the byte at off, see pageio.Part.
func (c *Chunk) blockAt(off int, keep bool) (*pageio.Block, error) {
	t, err := c.Trailer()
	if err != nil {
		return nil, err
	}
	return t.body.Block(off, keep), nil
}

// pageInBlock is pageAt for a chunk that is read block by block.
func (c *Chunk) pageInBlock(off int, b *pageio.Block) ([]byte, error) {
	// Walks have their block at hand: to look for it in the cache would mark it as used.
	if b == nil || !b.Contains(off) {
		var err error
		if b, err = c.blockAt(off, true); err != nil {
			return nil, err
		}
	}
	return b.Page(off)
}

// detachValue copies the value of the entry at off, unless its block was used before and so is
// likely to stay in the cache. A transaction may keep many values, and each would keep a whole
// block in memory.
func (c *Chunk) detachValue(off int, e *entry.Entry) {
	if n := len(e.Value); n == 0 || n > pageio.CacheBlockSize/2 {
		return
	}
	// The trailer may have left the cache since: then nothing tells of its blocks.
	if t := c.trailer.Load(); t == nil || !t.body.UsedAgain(off) {
		e.Value = bytes.Clone(e.Value)
	}
}

// fetchBlocks reads and verifies the bytes in [lo, hi) into the cache.
func (c *Chunk) fetchBlocks(lo, hi int) error {
	// Block by block: each is an item of the cache.
	for lo < hi {
		end := min((lo|(pageio.CacheBlockSize-1))+1, hi)
		if _, err := c.spanOf(lo, end, nil); err != nil {
			return err
		}
		lo = end
	}
	return nil
}
