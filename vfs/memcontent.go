package vfs

import (
	"iter"
	"slices"
)

const (
	chunkSize  = 4096 // bytes that a system writes back together
	sectorSize = 512  // bytes that a disk writes as a whole, or not at all
)

// content is the bytes of a file in chunks. Several contents share a chunk until one of them
// writes to it. Chunks that are nil or missing are zeros, as are the bytes of the last chunk
// beyond size.
type content struct {
	size   int64 // in bytes
	chunks []chunk
}

// chunk is a piece of a content; nil data means zeros.
type chunk struct {
	data *[chunkSize]byte
	own  bool // no other content has data, so it may be written
}

// clone returns a copy that shares all chunks with c.
func (c *content) clone() content {
	for i := range c.chunks {
		// Both now have the memory, so neither may write to it.
		c.chunks[i].own = false
	}
	return content{size: c.size, chunks: slices.Clone(c.chunks)}
}

// share returns chunk i for another holder; nil is zeros.
func (c *content) share(i int) *[chunkSize]byte {
	if i >= len(c.chunks) {
		return nil
	}
	c.chunks[i].own = false
	return c.chunks[i].data
}

// shareChunk makes data, which other contents share, chunk i.
func (c *content) shareChunk(i int, data *[chunkSize]byte) {
	if data == nil && i >= len(c.chunks) {
		return
	}
	*c.chunkAt(i) = chunk{data: data}
}

// chunkAt returns chunk i, which it makes if it is missing.
func (c *content) chunkAt(i int) *chunk {
	if i >= len(c.chunks) {
		c.chunks = append(c.chunks, make([]chunk, i+1-len(c.chunks))...)
	}
	return &c.chunks[i]
}

// writable returns chunk i to be written to.
func (c *content) writable(i int) *[chunkSize]byte {
	// Copy on write: others may share the chunk.
	k := c.chunkAt(i)
	if !k.own {
		fresh := new([chunkSize]byte)
		if k.data != nil {
			*fresh = *k.data
		}
		*k = chunk{data: fresh, own: true}
	}
	return k.data
}

// readAt copies bytes from off on to p, and returns how many there were.
func (c *content) readAt(p []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	p = p[:min(int64(len(p)), c.size-off)]
	// Missing chunks are read as zeros, as holes of files are.
	for done := 0; done < len(p); {
		i, from := int((off+int64(done))/chunkSize), int((off+int64(done))%chunkSize)
		part := p[done:min(len(p), done+chunkSize-from)]
		if i < len(c.chunks) && c.chunks[i].data != nil {
			copy(part, c.chunks[i].data[from:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	return len(p)
}

// apply makes a change.
func (c *content) apply(ch *change) {
	// A write never shortens a file.
	if ch.resize {
		c.setSize(ch.size)
		return
	}
	for i, data := range ch.chunks() {
		// Whole chunks are shared with the change, not copied.
		if len(data) == chunkSize {
			c.shareChunk(i, (*[chunkSize]byte)(data))
		} else {
			from := max(ch.off-int64(i)*chunkSize, 0)
			copy(c.writable(i)[from:], data)
		}
	}
	c.size = max(c.size, ch.end())
}

// setSize sets the size, and makes the bytes beyond it zeros.
func (c *content) setSize(size int64) {
	c.size = size
	if keep := (size + chunkSize - 1) / chunkSize; int64(len(c.chunks)) > keep {
		// Let go of the memory that is cut off.
		clear(c.chunks[keep:])
		c.chunks = c.chunks[:keep]
	}
	// Bytes beyond the end are zeros, so that a file that grows again reads zeros.
	tail, last := size%chunkSize, size/chunkSize
	if tail > 0 && last < int64(len(c.chunks)) && c.chunks[last].data != nil {
		clear(c.writable(int(last))[tail:])
	}
}

// flatten moves the content to one piece of memory and returns that. The chunks count as shared,
// so that no write changes the memory.
func (c *content) flatten() []byte {
	flat := make([]byte, (c.size+chunkSize-1)/chunkSize*chunkSize)
	for i := range c.chunks {
		if data := c.chunks[i].data; data != nil {
			at := (*[chunkSize]byte)(flat[i*chunkSize:])
			*at = *data
			c.chunks[i] = chunk{data: at}
		}
	}
	return flat
}

// copyShared copies the chunks whose memory is that of a mapping.
func (c *content) copyShared(m *memMapping) {
	for i := range c.chunks {
		if k := &c.chunks[i]; m.ownsChunk(i, k.data) {
			own := *k.data
			*k = chunk{data: &own, own: true}
		}
	}
}

// change is a write or a change of size that is not synced yet. It is immutable.
type change struct {
	seq    uint64 // its place among all changes of the file system
	size   int64  // of the file after the change
	resize bool   // the size was set; else data was written
	off    int64  // where data was written
	data   []byte
}

// end is where the data ends in the file; 0 without data.
func (c *change) end() int64 {
	if len(c.data) == 0 {
		return 0
	}
	return c.off + int64(len(c.data))
}

// chunks yields the numbers of the chunks that were written to, and what was written to each.
func (c *change) chunks() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for at, end := c.off, c.end(); at < end; {
			i := at / chunkSize
			next := min((i+1)*chunkSize, end)
			if !yield(int(i), c.data[at-c.off:next-c.off]) {
				return
			}
			at = next
		}
	}
}
