package view

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/invariant"
)

// How much memory Pins lend. Beyond that, values go to the Go heap.
const (
	maxLent    = 256 << 10 // bytes of one Pin
	maxAllLent = 8 << 20   // bytes of all Pins of a Set

	leastBlock = 2 << 10 // bytes of the smallest class; the next ones double
	blockSizes = 7       // up to 128 KB: a record with a value of 64 KB, and a key
)

// lent is the memory of values that a Pin had to read or decode. Pools take it back when the Pin is
// released, so that values that come from the disk make no garbage: that would let the Go heap
// grow, and leave less memory for the page cache. The zero value has none.
type lent struct {
	mu    sync.Mutex    // guards:
	last  *block        // newest block, which may have room; nil: none
	bytes int64         // bytes of all blocks
	all   *atomic.Int64 // bytes of all Pins of the Set

	full atomic.Bool // Room has returned nil since the last Release
}

// block is memory for values. It is on the Go heap: if its reader leaks, the collector knows
// how long its values are in use.
type block struct {
	bytes []byte // the memory
	used  int    // bytes from the front that are in use
	class int    // index in blocks
	next  *block // the block taken before
}

// blocks has the free blocks of each class.
var blocks [blockSizes]sync.Pool

// Room returns n bytes, which stay until giveBack, or nil if that would be too much.
func (l *lent) Room(n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.last
	if b == nil || len(b.bytes)-b.used < n {
		if b = l.takeBlockLocked(n); b == nil {
			l.full.Store(true)
			return nil
		}
	}
	// The capacity ends with the room: an append by the caller must not reach into the next value.
	room := b.bytes[b.used : b.used+n : b.used+n]
	b.used += n
	return room
}

// takeBlockLocked adds a block with room for n bytes. A Pin that has read more gets a larger one.
// It returns nil if that would be too much.
func (l *lent) takeBlockLocked(n int) *block {
	class := bits.Len(uint(max(n-1, 0)) / leastBlock)
	// A scan takes larger and larger blocks, so it takes few of them.
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
	// Add first, then look: two Pins at once must not both get the last bytes.
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

// returnBlocks gives all memory to other readers. Nobody may use any of it afterwards.
func (l *lent) returnBlocks() {
	for b := l.last; b != nil; b = l.last {
		l.last = b.next
		// With the tag invariants, a value that is used too long now shows garbage.
		invariant.Poison(b.bytes)
		b.used, b.next = 0, nil
		blocks[b.class].Put(b)
	}
	l.forgetBlocks()
}

// forgetBlocks lets go of the memory: the collector frees it when nobody uses it any more.
func (l *lent) forgetBlocks() {
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
