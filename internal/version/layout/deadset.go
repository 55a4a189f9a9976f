package layout

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
)

// A dead set says exactly which records of a segment are dead, by their granules.

const (
	blockBits  = 14 // a block of a dead set covers 1 << blockBits granules: 1 MB of a segment
	blockMask  = 1<<blockBits - 1
	blockWords = 1 << blockBits / 64
	sparseMax  = blockWords * 64 / 16 // offsets in a list that is as long as the bitmap
)

// deadSet is an exact, immutable set of granules; the zero value is empty.
// Sets that come from one another share the blocks that are alike.
type deadSet struct {
	blocks []*deadBlock // those that aren't empty, in order
	count  uint64       // granules in the set
	bytes  uint64       // of the values of the dead records
}

// findBlock returns where the block of a part is among the blocks, or would be.
func (s *deadSet) findBlock(at uint32) (i int, found bool) {
	return slices.BinarySearchFunc(s.blocks, at, func(b *deadBlock, at uint32) int { return cmp.Compare(b.at, at) })
}

// deadBlock is a sorted list while it is short, then a bitmap.
type deadBlock struct {
	at     uint32   // which part of the segment it covers: granule >> blockBits
	sparse []uint16 // offsets within the block, ascending; nil once there is a bitmap
	bitmap *[blockWords]uint64
}

// withGranules returns the set that also has the granules, which ascend strictly. ok is
// false, and dup one of them, if the set has it already.
func (s deadSet) withGranules(granules []uint32, bytes uint64) (grown deadSet, dup uint32, ok bool) {
	grown = deadSet{count: s.count + uint64(len(granules)), bytes: s.bytes + bytes}
	// Blocks that no granule falls in are shared with s: only the list of blocks and
	// those that change are copied.
	grown.blocks = slices.Clone(s.blocks)
	for len(granules) > 0 {
		at := granules[0] >> blockBits
		n := 1
		for n < len(granules) && granules[n]>>blockBits == at {
			n++
		}
		i, found := grown.findBlock(at)
		if !found {
			grown.blocks = slices.Insert(grown.blocks, i, &deadBlock{at: at})
		}
		b, dup, ok := grown.blocks[i].withGranules(granules[:n])
		if !ok {
			return deadSet{}, dup, false
		}
		grown.blocks[i] = b
		granules = granules[n:]
	}
	return grown, 0, true
}

// withGranules is deadSet.withGranules for the granules of one block.
func (b *deadBlock) withGranules(granules []uint32) (grown *deadBlock, dup uint32, ok bool) {
	// A copy, as older layouts read the old one.
	words := b.toBitmap()
	for _, g := range granules {
		word, bit := &words[g&blockMask/64], uint64(1)<<(g%64)
		if *word&bit != 0 {
			// A record can die once. A second death means that two entries owned it, or that an
			// edit was applied twice.
			return nil, g, false
		}
		*word |= bit
	}
	n := len(b.sparse) + len(granules)
	if b.bitmap != nil || n > sparseMax {
		return &deadBlock{at: b.at, bitmap: words}, 0, true
	}
	grown = &deadBlock{at: b.at, sparse: make([]uint16, 0, n)}
	for at := range eachBit(words) {
		grown.sparse = append(grown.sparse, uint16(at))
	}
	return grown, 0, true
}

// toBitmap returns a new bitmap of the block, which the caller may write to.
func (b *deadBlock) toBitmap() *[blockWords]uint64 {
	words := new([blockWords]uint64)
	if b.bitmap != nil {
		*words = *b.bitmap
	}
	for _, at := range b.sparse {
		words[at/64] |= 1 << (at % 64)
	}
	return words
}

// memoryBytes is what the set takes, in bytes. Sets share blocks, so several take less.
func (s *deadSet) memoryBytes() (n int64) {
	const perBlock = 48 // the pointer to it, and its fields
	for _, p := range s.blocks {
		n += perBlock + 2*int64(cap(p.sparse))
		if p.bitmap != nil {
			n += 8 * blockWords
		}
	}
	return n
}

// hasGranule reports whether the granule is in the set.
func (s *deadSet) hasGranule(granule uint64) bool {
	if granule>>blockBits > math.MaxUint32 {
		return false
	}
	i, found := s.findBlock(uint32(granule >> blockBits))
	if !found {
		return false
	}
	b, at := s.blocks[i], uint16(granule&blockMask)
	if b.bitmap != nil {
		return b.bitmap[at/64]>>(at%64)&1 != 0
	}
	_, found = slices.BinarySearch(b.sparse, at)
	return found
}

// eachGranule walks the granules in ascending order.
func (s *deadSet) eachGranule() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, b := range s.blocks {
			for at := range eachBit(b.toBitmap()) {
				if !yield(b.at<<blockBits + at) {
					return
				}
			}
		}
	}
}

// eachBit walks the offsets of a bitmap in ascending order.
func eachBit(words *[blockWords]uint64) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i, word := range words {
			for ; word != 0; word &= word - 1 {
				if !yield(uint32(i*64 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}
