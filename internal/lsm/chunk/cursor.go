package chunk

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/offheap"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// Cursor walks the entries of one chunk at a time. Its moves report whether it is at an entry. When
// a move has run off the chunk, Err is nil.
type Cursor struct {
	chunk *Chunk        // the chunk that it is on
	data  []byte        // the bytes from base on: all of the chunk, or a block
	base  int           // where data begins in the chunk
	block *pageio.Block // the block that is looked into first; nil: data is all of the chunk
	view  []byte        // the bytes from at on: of data or, after LookAhead, of near
	at    int           // where view begins in the chunk
	off   int           // where the current entry begins
	next  int           // where the next entry begins
	safe  int           // bytes from the current entry up to here are verified
	ahead int           // number of pages that the next verification covers
	plen  int           // length of the prefix
	most  int           // longest suffix that key has room for; <0: key is the chunk's prefix
	key   []byte        // prefix, current suffix, 8 bytes to copy by words; lies in room if it fits
	form  form          // which fields of e may be set
	head  byte          // lowest byte of the current entry's header word
	err   error         // of the last move
	e     entry.Entry   // the current entry

	Entered int // blocks entered since the last seek; a walk on to another chunk carries it over

	Mem  *offheap.Buffer // holds the key until Free; nil: the key is on the Go heap
	Lent bool            // a key may lie in memory of the chunk: valid until the next move

	stack    []uint32 // offsets / 8 of neighbouring entries, for Prev
	stackEnd int      // where the entry after them begins
	top      int      // index in stack of the entry that Prev went to last

	room [64]byte // most keys need no more

	near       *[nearSize]byte // what LookAhead has copied; nil: it was not called yet
	verified   int             // what safe was before LookAhead; 0: view is not near
	lookaheads int             // calls of LookAhead since the last seek, counted up to 2
}

// form says which fields of an entry may be set beside Key, Kind and Version. So entries of one
// form after the other need not clear the rest.
type form uint8

const (
	inline    form = iota // Value
	separated             // Separated and Handle
	anyForm               // any of them
)

// Open puts the cursor on a chunk, before its first entry. prefix is what its
// keys share, with the chunk's Layout.Prefix bytes.
func (it *Cursor) Open(c *Chunk, prefix []byte) {
	it.chunk, it.data, it.base, it.block = c, c.Data, 0, nil
	it.view, it.at, it.verified = it.data, 0, 0
	it.next, it.off, it.safe, it.head = HeaderSize, 0, 0, 0
	it.ahead, it.err = 1, nil
	it.stack = it.stack[:0]
	it.plen = len(prefix)
	if it.most < 0 { // key is of the chunk before
		it.key, it.most = nil, 0
	}
	// No copy of a long prefix: often no key is longer than it.
	if it.Lent && len(prefix) >= longPrefix {
		it.key, it.most = slices.Clip(prefix), -1
		return
	}
	it.growKey(0)
	copy(it.key, prefix)
}

// mostStack is how many entries between two fences Reset keeps memory for: 4 KB.
const mostStack = 1 << 10

// longPrefix is the length in bytes from which a prefix is copied only for a key that is longer
// than it. A chunk has few keys of such a length, and often only one, which is the prefix.
const longPrefix = 64 << 10

// Free gives Mem back. Open is the only call that may follow.
func (it *Cursor) Free() {
	if it.Mem != nil {
		it.Mem.Free()
		it.key = nil
	}
}

// KeyRoom is how much memory the cursor has for keys, in bytes.
func (it *Cursor) KeyRoom() int {
	if it.most < 0 {
		return 0
	}
	return len(it.key)
}

// Chunk is the chunk that the cursor is on, or nil.
func (it *Cursor) Chunk() *Chunk { return it.chunk }

// Entry is the current entry. It is overwritten by the next move.
func (it *Cursor) Entry() *entry.Entry { return &it.e }

// Err is the error that the last move met.
func (it *Cursor) Err() error { return it.err }

// SetErr makes err that of the last move. No move but a seek succeeds then, unless err is nil.
func (it *Cursor) SetErr(err error) { it.err = err }

// HasOlder reports whether the current entry is followed by an older version of its key.
func (it *Cursor) HasOlder() bool { return it.head&flagOlder != 0 }

// Offset is where the current entry begins in the chunk.
func (it *Cursor) Offset() int { return it.off }

// growKey makes room for a key with a suffix of this length.
func (it *Cursor) growKey(suffix int) {
	// 8 bytes more than the key: copySuffix copies whole words.
	need := it.plen + suffix + 8
	switch {
	case it.most < 0: // key is the chunk's prefix
		// It lies in the chunk, which must not be written to.
		prefix := it.key
		it.key, it.most = nil, 0
		it.growKey(suffix)
		copy(it.key, prefix)
		return
	case need <= len(it.key):
	case it.Mem != nil:
		// Some more than needed: keys that grow slowly would each be copied otherwise.
		it.key = it.Mem.Grow(it.key, need+min(need/4, longPrefix))
	case need <= len(it.room) && it.key == nil:
		it.key = it.room[:]
	default:
		// Enough for any suffix of the short form, so that Next seldom leaves its fast way for it.
		it.key = append(it.key, make([]byte, max(need, it.plen+maxSuffix+8)-len(it.key))...)
	}
	it.key = it.key[:cap(it.key)]
	it.most = len(it.key) - it.plen - 8
}

// First moves to the first entry.
func (it *Cursor) First() bool {
	it.seekTo(HeaderSize)
	return it.Next()
}

// Last moves to the last entry.
func (it *Cursor) Last() bool {
	it.seekTo(it.chunk.End)
	return it.Prev()
}

// seekTo makes Next go to the entry at off, and Prev to the one before it.
func (it *Cursor) seekTo(off int) {
	it.leaveNear()
	it.off, it.next, it.head = off, off, 0
	// Bytes up to safe are verified from the last place on, and off may lie before that.
	it.safe = 0
	it.lookaheads = 0
	it.ahead, it.err = 1, nil
	it.Entered = 0
}

// Next moves to the next entry.
func (it *Cursor) Next() bool {
	off := it.next
	if off >= it.safe {
		if !it.verifyAhead(off) {
			return false
		}
	}
	// The plainest form is decoded here; all that doesn't fit it goes to decode,
	// which also finds what is wrong.
	w := binary.LittleEndian.Uint64(it.view[off-it.at:])
	if w&flagSlow != 0 {
		return it.nextSlow(off, w)
	}
	start := off + headSize
	end := start + int(w>>8&maxSuffix)
	stop := end + int(w>>16&maxInline)
	kind := entry.Kind(w & kindMask)
	if stop > it.safe || !kind.Known() || end-start > it.most {
		return it.decodeAt(off)
	}
	it.off, it.next, it.head = off, align8(stop), byte(w)
	// Clear the entry only when the form changes: mostly one form follows itself.
	if it.form != inline {
		it.e, it.form = entry.Entry{}, inline
	}
	it.copySuffix(start, end)
	it.e.Kind = kind
	it.e.Version = it.chunk.version(w)
	it.e.Value = it.data[end-it.base : stop-it.base : stop-it.base]
	if kind == entry.Delete {
		it.e.Value = nil
	}
	return true
}

// nextSlow moves to the entry at off with the header word w: a short separated
// one directly, others by decode.
func (it *Cursor) nextSlow(off int, w uint64) bool {
	start := off + headSize + handSize
	end := start + int(w>>8&maxSuffix)
	kind := entry.Kind(w & kindMask)
	if w&flagSlow != flagSep || end > it.safe || !kind.Known() || end-start > it.most {
		return it.decodeAt(off)
	}
	h := binary.LittleEndian.Uint64(it.view[off+headSize-it.at:])
	if h&flagRaw != 0 {
		return it.decodeAt(off)
	}
	it.off, it.next, it.head = off, align8(end), byte(w)
	if it.form != separated {
		it.e, it.form = entry.Entry{Separated: true}, separated
	}
	it.copySuffix(start, end)
	it.e.Kind = kind
	it.e.Version = it.chunk.version(w)
	it.e.Handle = entry.Handle{Segment: it.chunk.segment(w), Offset: h & (1<<32 - 1) << 3, Length: h >> 32}
	return true
}

// copySuffix sets the current key. A short entry's suffix begins at a multiple
// of 8, so that whole words never leave the entry's pages.
func (it *Cursor) copySuffix(start, end int) {
	n := end - start
	start -= it.at
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(it.key[it.plen+i:], binary.LittleEndian.Uint64(it.view[start+i:]))
	}
	it.e.Key = it.key[:it.plen+n]
}

// verifyAhead extends the verified bytes beyond off. While a walk goes on, it verifies more and
// more pages at a time, so that cold files are read in larger pieces. It returns false at the end
// of the entries, and after an error.
func (it *Cursor) verifyAhead(off int) bool {
	if it.leaveNear(); off < it.safe {
		return true
	}
	c, end := it.chunk, it.chunk.End
	if off >= end || it.err != nil {
		return false
	}
	page := off &^ (PageSize - 1)
	switch {
	case c.Data == nil:
		return it.nextBlock(page, off)
	case c.isVerified(off):
		it.safe = min(page+PageSize, end)
	default:
		hi := it.verifyReach(page)
		if it.err = c.Verify(page, hi); it.err != nil {
			return false
		}
		it.safe = hi
	}
	return true
}

// verifyReach returns up to where the pages from this one on are verified now, and makes that
// further the next time.
func (it *Cursor) verifyReach(page int) int {
	hi := min(page+it.ahead*PageSize, it.chunk.End)
	it.ahead = min(it.ahead*2, maxPrime)
	return hi
}

// decodeAt moves to the entry at off, whatever its form.
func (it *Cursor) decodeAt(off int) bool {
	it.leaveNear()
	// Any field may be set now: the next entry of one form must clear the rest.
	it.form = anyForm
	p, start, end, next, err := it.chunk.decodeEntry(off, &it.e, it.block)
	if err != nil {
		it.err = err
		return false
	}
	it.off, it.next, it.head = off, next, p[0]
	// The entry may be in another block than data: what data has is not known then.
	if it.chunk.Data == nil || off >= it.safe || next > it.safe {
		it.safe = min(next, it.chunk.End)
	}
	if end-start > max(it.most, 0) {
		it.growKey(end - start)
	}
	copy(it.key[it.plen:], p[start:end])
	it.e.Key = it.key[:it.plen+end-start]
	return true
}

// Prev moves to the entry before the current one, or before where the cursor was put. Entries have
// no link backward. So it decodes the entries behind a fence forward, keeps their offsets (stack),
// and goes back over these.
func (it *Cursor) Prev() bool {
	if it.err != nil || it.off <= HeaderSize {
		return false
	}
	// The stack has the entries around only while a walk goes on backward.
	if len(it.stack) == 0 || int(it.stack[0]) >= it.off>>3 || it.off > it.stackEnd {
		if !it.loadBlock() {
			return false
		}
	}
	// A walk that goes on backward takes the entry below the last one; after a walk
	// forward it is searched for.
	at := uint32(it.off >> 3)
	if it.top <= 0 || it.top > len(it.stack) || it.stack[it.top-1] >= at || it.top < len(it.stack) && it.stack[it.top] < at {
		it.top, _ = slices.BinarySearch(it.stack, at)
	}
	it.top--
	return it.decodeAt(int(it.stack[it.top]) << 3)
}

// loadBlock fills the stack with the offsets of the entries before the current
// one, back to the nearest fence.
func (it *Cursor) loadBlock() bool {
	it.stack = it.stack[:0]
	t, err := it.chunk.Trailer()
	if err != nil {
		it.err = err
		return false
	}
	// The fence of the block before may lead to this entry, or beyond it.
	p := (it.off - 1) >> t.shift
	for p > 0 && t.fenceStart(p) >= it.off {
		p--
	}
	var e entry.Entry
	off := t.fenceStart(p)
	// Now, as the walk goes forward from here: else each entry would look for its block in the
	// cache.
	if it.chunk.Data == nil && !it.enterBlock(off) {
		return false
	}
	for off < it.off {
		it.stack = append(it.stack, uint32(off>>3))
		// Most entries are plain, and only their length is needed.
		if next := it.chunk.plainEnd(off); next > 0 {
			off = next
			continue
		}
		if _, _, _, off, err = it.chunk.decodeEntry(off, &e, it.block); err != nil {
			it.err = err
			it.stack = it.stack[:0]
			return false
		}
	}
	// The walk from a fence must meet the current entry, or one of the two is wrong.
	if len(it.stack) == 0 || off != it.off {
		it.err = it.chunk.corruptAt(it.off, "entries do not meet their fence")
		it.stack = it.stack[:0]
		return false
	}
	it.top, it.stackEnd = len(it.stack), it.off
	return true
}

// SeekGE moves to the first entry whose key, without the prefix, is not less
// than suffix.
func (it *Cursor) SeekGE(suffix []byte) bool {
	word := entry.Word(suffix)
	off, err := it.chunk.seekFence(suffix, word)
	// Also after an error: the place before the seek counts no more.
	it.seekTo(off)
	if err != nil {
		it.err = err
		return false
	}
	// What skipLess stops at is mostly the entry: it is decoded, and no other.
	for {
		it.skipLess(suffix, word)
		if !it.Next() {
			break
		}
		if bytes.Compare(it.e.Key[it.plen:], suffix) >= 0 {
			return true
		}
	}
	// Run off the end: Prev goes to the last entry from here.
	if it.err == nil {
		it.off = it.chunk.End
	}
	return false
}

// SeekPart moves to an entry before which about this part of the entries lies,
// by bytes; part is from 0 to 1. It runs off the end if that lies within a last
// entry longer than the distance of two fences.
func (it *Cursor) SeekPart(part float64) bool {
	t, err := it.chunk.Trailer()
	if err != nil {
		it.err = err
		return false
	}
	fences := t.fences()
	it.seekTo(t.fenceStart(min(int(part*float64(fences)), fences-1)))
	return it.Next()
}

// skipLess moves over short entries of the verified bytes that are less than suffix, whose key word
// is word: it looks at nothing but their header and suffix. It stops at the first other entry, so
// that Next comes to it.
func (it *Cursor) skipLess(suffix []byte, word uint64) {
	off := it.next
	if off >= it.safe && !it.verifyAhead(off) {
		return
	}
	off -= it.base
	data := it.data
	for safe := it.safe - it.base; off < safe; {
		w := binary.LittleEndian.Uint64(data[off:])
		n, start := int(w>>8&maxSuffix), off+headSize
		stop := start + n
		if w&flagSlow == 0 {
			stop += int(w >> 16 & maxInline)
		} else {
			start = off + headLen(w)
			// A wide entry, or one of unknown length: Next checks what this does not.
			if w&flagWide != 0 || start > safe {
				break
			}
			stop = start + n + inlineLen(data, off, w)
		}
		if stop > safe {
			break
		}
		var have uint64
		switch {
		case n >= 8:
			have = binary.BigEndian.Uint64(data[start:])
		case n > 0:
			// The word may reach beyond the suffix, but not beyond the entry's aligned end.
			have = binary.BigEndian.Uint64(data[start:]) & (^uint64(0) << (64 - 8*n))
		}
		if have >= word && (have > word || bytes.Compare(data[start:start+n], suffix) >= 0) {
			break
		}
		off = align8(stop)
	}
	off += it.base
	it.off, it.next = off, off
}

// shortWalk is how many blocks a walk leaves in the cache even if the cache has no room: 128 KB.
const shortWalk = 8

// nextBlock is verifyAhead for a chunk that is read block by block; off lies in this page.
func (it *Cursor) nextBlock(page, off int) bool {
	if !it.enterBlock(off) {
		return false
	}
	it.base = it.block.Start()
	hi := min(it.verifyReach(page), it.base+pageio.CacheBlockSize)
	if _, it.err = it.block.Span(page, hi); it.err != nil {
		return false
	}
	// Only this block: Next decodes what lies in it, and decode puts together what crosses its end.
	it.data = it.block.Data()
	it.view, it.at = it.data, it.base
	it.safe = hi
	return true
}

// enterBlock makes the block in which off is the one that is looked into first. A long walk
// leaves the cache as it is, unless that has room.
func (it *Cursor) enterBlock(off int) bool {
	if b := it.block; b != nil {
		if b.Contains(off) {
			return true
		}
		if b = b.NextBlock(); b != nil && b.Contains(off) {
			it.block = b
			return true
		}
	}
	it.Entered++
	keep := it.Entered <= shortWalk || it.chunk.File.Cache.HasRoom()
	it.block, it.err = it.chunk.blockAt(off, keep)
	return it.err == nil
}
