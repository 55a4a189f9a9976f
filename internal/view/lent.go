package view

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/invariant"
)

// How much memory readers lend. Beyond that, values go to the Go heap.
const (
	maxLent    = 256 << 10 // bytes of one Pin
	maxAllLent = 8 << 20   // bytes of all Pins of a Set

	leastBlock = 2 << 10 // bytes; each class of blocks has twice the size of the one before
	blockSizes = 7       // up to 128 KB: a record with a value of 64 KB, and a key
)

// lent is the memory of values that a Pin had to read or decode. Pools take it back when
// the Pin is released, so that values that come from the disk make no garbage: that would let
// the Go heap grow, and leave less memory for the page cache. The zero value has none.
type lent struct {
	mu    sync.Mutex    // guards:
	last  *block        // the newest one, which has room perhaps
	bytes int64         // of all blocks
	all   *atomic.Int64 // bytes of all Pins of the Set

	full atomic.Bool // Room has returned nil
}

// block is memory for values. It is on the Go heap: if its reader leaks, the collector knows
// how long its values are in use.
type block struct {
	bytes []byte
	used  int
	class int
	next  *block // the one that was taken before
}

var blocks [blockSizes]sync.Pool

// Room returns n bytes, which stay until giveBack, or nil if that would be too much.
func (l *lent) Room(n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.last
	if b == nil || len(b.bytes)-b.used < n {
		if b = l.takeLocked(n); b == nil {
			l.full.Store(true)
			return nil
		}
	}
	room := b.bytes[b.used : b.used+n : b.used+n]
	b.used += n
	return room
}

// takeLocked adds a block with room for n bytes. Who has read more gets a larger one.
func (l *lent) takeLocked(n int) *block {
	class := bits.Len(uint(max(n-1, 0)) / leastBlock)
	if l.last != nil {
		class = max(class, min(l.last.class+1, blockSizes-1))
	}
	if class >= blockSizes {
		return nil
	}
	size := int64(leastBlock) << class
	if l.bytes+size > maxLent {
		return nil
	}
	if l.all.Add(size) > maxAllLent {
		l.all.Add(-size)
		return nil
	}
	b, _ := blocks[class].Get().(*block)
	if b == nil {
		b = &block{bytes: make([]byte, size), class: class}
	}
	b.next, l.last = l.last, b
	l.bytes += size
	return b
}

// giveBack gives all memory to other readers. Nobody may use any of it afterwards.
func (l *lent) giveBack() {
	for b := l.last; b != nil; b = l.last {
		l.last = b.next
		invariant.Poison(b.bytes)
		b.used, b.next = 0, nil
		blocks[b.class].Put(b)
	}
	l.leave()
}

// leave lets go of the memory, which stays as long as anybody uses it.
func (l *lent) leave() {
	l.all.Add(-l.bytes)
	l.last, l.bytes = nil, 0
	l.full.Store(false)
}

// scratch is memory for a value as it is stored, until it is decoded.
type scratch struct{ bytes []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Room returns n bytes, the same as before; nil if a pool should not keep as many.
func (s *scratch) Room(n int) []byte {
	if n > leastBlock<<(blockSizes-1) {
		return nil
	}
	if n > cap(s.bytes) {
		s.bytes = make([]byte, n)
	}
	return s.bytes[:n]
}
