package chunk

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/blocks"
)

// opened is what is in memory of a chunk that is read block by block: its parsed trailer, and
// the table of its blocks. It is an item of the cache, as each of its blocks is.
type opened struct {
	blocks.Used
	chunk   *Chunk
	trailer *Trailer
	body    *blocks.Part // entries and index
}

// openedBytes is about the memory of an opened beside trailer and table, in bytes.
const openedBytes = 2 << 10

// Drop is the method of a blocks.Item.
func (o *opened) Drop() { o.chunk.opened.CompareAndSwap(o, nil) }

// openTrailer returns what the cache has of the chunk, or reads the trailer and adds it to the cache.
func (c *Chunk) openTrailer() (*opened, error) {
	if o := c.opened.Load(); o != nil {
		o.Use()
		return o, nil
	}
	start := c.TrailerStart()
	buf := make([]byte, c.TrailerSize, c.TrailerSize+Room)
	if err := c.File.Read(buf, c.Place.Offset+int64(start)); err != nil {
		return nil, err
	}
	if err := c.verifyTrailer(buf, start); err != nil {
		return nil, err
	}
	t, err := parseTrailer(buf, &c.Layout, c.Place.Key != nil)
	if err != nil {
		return nil, c.corrupt(start, "%v", err)
	}
	o := &opened{chunk: c, trailer: t, body: blocks.NewPart(c.File, crypt.Page, c.Place.Offset, start, t.sums)}
	if c.opened.CompareAndSwap(nil, o) {
		c.File.Cache.Add(c.File.Owner, o, int64(len(buf))+o.body.TableBytes()+openedBytes)
	}
	return o, nil
}

// block returns the block that has the byte at off, see blocks.Part.
func (c *Chunk) block(off int, keep bool) (*blocks.Block, error) {
	o, err := c.openTrailer()
	if err != nil {
		return nil, err
	}
	return o.body.Block(off, keep), nil
}

func (c *Chunk) pageOf(off int, b *blocks.Block) ([]byte, error) {
	if b == nil || !b.Has(off) {
		var err error
		if b, err = c.block(off, true); err != nil {
			return nil, err
		}
	}
	return b.Page(off)
}

func (c *Chunk) spanOf(lo, hi int, b *blocks.Block) ([]byte, error) {
	if b != nil && b.Has(lo) {
		return b.Span(lo, hi)
	}
	o, err := c.openTrailer()
	if err != nil {
		return nil, err
	}
	return o.body.Span(lo, hi)
}

// detach copies the value of the entry at off, unless its block was used before and so is likely
// to stay in the cache. A transaction may keep many values, and each would keep a whole block
// in memory.
func (c *Chunk) detach(off int, e *entry.Entry) {
	if n := len(e.Value); n == 0 || n > blocks.Size/2 {
		return
	}
	if o := c.opened.Load(); o == nil || !o.body.Was(off) {
		e.Value = bytes.Clone(e.Value)
	}
}

// fetch reads and verifies the bytes in [lo, hi) into the cache.
func (c *Chunk) fetch(lo, hi int) error {
	for lo < hi {
		end := min((lo|(blocks.Size-1))+1, hi)
		if _, err := c.spanOf(lo, end, nil); err != nil {
			return err
		}
		lo = end
	}
	return nil
}
