package chunk

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
)

// A walk forward asks how many of its next moves are sure to come to plain entries (docs/adr,
// 47). These entries are copied first: so the moves touch no mapped memory, and need no guard.

// nearSize is the most bytes of entries that LookAhead copies, so that Next need not touch the
// chunk. A walk that has just begun copies only firstNear bytes.
const nearSize = 2 << 10

const firstNear = 256

var nearPool = sync.Pool{New: func() any { return new([nearSize]byte) }}

// LookAhead is the method of an iterator.Lookahead. It copies the next entries, from which Next
// then decodes them: those that lie in verified bytes and have the plainest or the short
// separated form.
func (it *Cursor) LookAhead(until []byte, least, most entry.Version) (n int) {
	it.leaveNear()
	suffix, order := it.comparePrefix(until)
	// After an entry that is followed by an older version the same key comes again.
	if order > 0 || it.HasOlder() {
		return 0
	}
	// Offsets are those in data.
	begin, off := it.next-it.base, it.next-it.base
	// Data may be one block, in which less is safe than in the chunk. Within its end lie the
	// header and the handle of the last entry that is looked at.
	for end := min(it.safe-it.base, begin+it.lookaheadBytes(), len(it.data)-headSize-handSize+1); off < end; n++ {
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
	// Nothing is copied: Next goes on in the chunk.
	if n == 0 {
		return 0
	}
	if it.near == nil {
		it.near = nearPool.Get().(*[nearSize]byte)
	}
	it.view, it.at = it.near[:copy(it.near[:], it.data[begin:off])], begin+it.base
	it.verified, it.safe = it.safe, off+it.base
	return n
}

// lookaheadBytes returns how many bytes of entries may be copied now.
func (it *Cursor) lookaheadBytes() int {
	if it.lookaheads < 2 {
		it.lookaheads++
		return firstNear
	}
	return nearSize - 8
}

// leaveNear makes Next decode from the chunk again.
func (it *Cursor) leaveNear() {
	if it.verified > 0 {
		it.safe, it.view, it.at, it.verified = it.verified, it.data, it.base, 0
	}
}

// Close gives back the buffer of LookAhead. The Cursor may still be used.
func (it *Cursor) Close() {
	if it.near != nil {
		it.leaveNear()
		nearPool.Put(it.near)
		it.near = nil
	}
}

// Reset makes it a zero Cursor, which has memory for Prev.
func (it *Cursor) Reset() {
	stack := it.stack[:0]
	if cap(stack) > mostStack {
		stack = nil
	}
	*it = Cursor{stack: stack}
}

// comparePrefix compares the prefix of the chunk's keys with the bound until. If order is less than
// 0, all keys of the chunk lie before until; if it is greater, none does; if it is 0, those do
// whose suffixes are less than suffix.
func (it *Cursor) comparePrefix(until []byte) (suffix []byte, order int) {
	n := min(it.plen, len(until))
	if order = bytes.Compare(it.key[:n], until[:n]); order == 0 && n < it.plen {
		order = 1
	}
	return until[n:], order
}
