package pageio

import "sync/atomic"

const (
	blockWords = 64              // words a block: 512 B
	blockBits  = blockWords * 64 // bits a block
)

type bitBlock [blockWords]atomic.Uint64

// Bits is a set of numbers that any number of goroutines use without locks. Memory
// is taken by blocks of 4096 numbers, when the first of them is set. Copies
// share the set. A number outside of [0, n) is never in it.
type Bits struct {
	n      int64
	blocks []atomic.Pointer[bitBlock]
}

// NewBits returns an empty set for the numbers in [0, n).
func NewBits(n int64) Bits {
	n = max(n, 0)
	return Bits{n: n, blocks: make([]atomic.Pointer[bitBlock], (n+blockBits-1)/blockBits)}
}

// Test reports whether i is in the set.
func (b *Bits) Test(i int64) bool {
	u := uint64(i)
	if u >= uint64(b.n) {
		return false
	}
	block := b.blocks[u/blockBits].Load()
	return block != nil && block[u/64%blockWords].Load()&(1<<(u%64)) != 0
}

// Set puts i into the set.
func (b *Bits) Set(i int64) { b.TestSet(i) }

// TestSet puts i into the set and reports whether it was there before.
func (b *Bits) TestSet(i int64) bool {
	u := uint64(i)
	if u >= uint64(b.n) {
		return false
	}
	at := &b.blocks[u/blockBits]
	block := at.Load()
	if block == nil {
		at.CompareAndSwap(nil, new(bitBlock))
		block = at.Load()
	}
	bit := uint64(1) << (u % 64)
	return block[u/64%blockWords].Or(bit)&bit != 0
}

// Clear empties the set. A number that is set meanwhile may get lost.
func (b *Bits) Clear() {
	for i := range b.blocks {
		b.blocks[i].Store(nil)
	}
}
