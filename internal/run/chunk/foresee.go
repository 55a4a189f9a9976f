package chunk

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"

	"github.com/brockdb/brock/internal/entry"
)

// nearSize is how many bytes of entries a cursor copies at most to walk over them without
// a look at the chunk. A walk that has just begun copies less.
const nearSize = 2 << 10

const firstNear = 256

var nearPool = sync.Pool{New: func() any { return new([nearSize]byte) }}

// Foresee is the method of an iterator.Foresighted: it copies entries of the verified
// bytes, of the plainest and of the short separated form, for Next to decode.
func (it *Cursor) Foresee(until []byte, least, most entry.Version) (n int) {
	it.leaveNear()
	suffix, order := it.within(until)
	// What follows an entry with an older version is of the same key.
	if order > 0 || it.Older() {
		return 0
	}
	// Offsets are those in data.
	begin, off := it.next-it.base, it.next-it.base
	// Data may be one block, in which less is safe than in the chunk. Within its end lie the
	// header and the handle of the last entry that is looked at.
	for end := min(it.safe-it.base, begin+it.foresight(), len(it.data)-headSize-handSize+1); off < end; n++ {
		w := binary.LittleEndian.Uint64(it.data[off:])
		start, size := off+headSize, int(w>>8&maxSuffix)
		stop := start + size
		switch w & (kindMask | flagSlow | flagOlder) {
		case uint64(entry.Set):
			stop += int(w >> 16 & maxInline)
		case uint64(entry.Set) | flagSep:
			// The handle may lie in the next block.
			if start+handSize <= end && binary.LittleEndian.Uint64(it.data[start:])&flagRaw == 0 {
				start, stop = start+handSize, stop+handSize
				break
			}
			fallthrough
		default:
			stop = math.MaxInt
		}
		if v := it.chunk.version(w); stop > end || size > it.most || v < least || v > most {
			break
		}
		if order == 0 && bytes.Compare(it.data[start:start+size], suffix) >= 0 {
			break
		}
		off = align8(stop)
	}
	if n == 0 {
		return 0
	}
	if it.near == nil {
		it.near = nearPool.Get().(*[nearSize]byte)
	}
	it.view, it.at, it.foreseen = it.near[:copy(it.near[:], it.data[begin:off])], begin+it.base, true
	it.verified, it.safe = it.safe, off+it.base
	return n
}

// foresight is how many bytes of entries are copied.
func (it *Cursor) foresight() int {
	if it.foresees < 2 {
		it.foresees++
		return firstNear
	}
	return nearSize - 8
}

// leaveNear has Next decode from the chunk again.
func (it *Cursor) leaveNear() {
	if it.foreseen {
		it.safe, it.view, it.at, it.foreseen = it.verified, it.data, it.base, false
	}
}

// Close gives back what Foresee has taken.
func (it *Cursor) Close() {
	if it.near != nil {
		it.leaveNear()
		nearPool.Put(it.near)
		it.near = nil
	}
}

// within is where the bound until is, compared with what the keys of the chunk share: before
// it all keys are, if order is less than 0, and none, if it is greater; else those whose
// suffixes are less than suffix.
func (it *Cursor) within(until []byte) (suffix []byte, order int) {
	n := min(it.plen, len(until))
	if order = bytes.Compare(it.key[:n], until[:n]); order == 0 && n < it.plen {
		order = 1
	}
	return until[n:], order
}
