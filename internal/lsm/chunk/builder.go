package chunk

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/offheap"
)

// Builder makes chunks, one after the other. It reuses its memory, and is ended by Release.
type Builder struct {
	buf         []byte      // header and entries, after Finish the whole chunk; lies in mem
	now         Info        // of the chunk so far; Last is that of the chunk before until Finish
	prefixGuess int         // length of the prefix to try in the next chunk
	shrinks     int         // how often this chunk's prefix was cut
	prev        int         // offset of the last entry; 0: there is none
	items       []indexItem // what the hash index will have: the newest version of each key
	longest     int         // length of the longest suffix in the chunk
	fences      []fence     // one for each block in which an entry begins

	versions    extent        // of the short entries
	segments    extent        // of the handles of short entries
	lastVersion entry.Version // of the last entry
	lastWord    uint64        // first 8 bytes of the last entry's suffix

	// Off the Go heap: with megabytes on it, the collector would let garbage grow by
	// as much again.
	mem, spare        offheap.Buffer
	firstMem, lastMem offheap.Buffer // have the keys of now
}

// NewBuilder returns a Builder at the start of its first chunk.
func NewBuilder() *Builder { return &Builder{prefixGuess: math.MaxInt} }

// Release gives the memory back, and that of the last chunk with it.
func (b *Builder) Release() {
	b.mem.Free()
	b.spare.Free()
	b.firstMem.Free()
	b.lastMem.Free()
	*b = Builder{prefixGuess: math.MaxInt}
}

// extent is what numbers lie between, of which entries have only the low bits.
type extent struct {
	least, most uint64
	any         bool // there are numbers
}

// extendedTo returns x extended to v. ok is false if it is then wider than most: the low bits would
// not tell the numbers apart.
func (x extent) extendedTo(v, most uint64) (y extent, ok bool) {
	if !x.any {
		return extent{v, v, true}, true
	}
	x.least, x.most = min(x.least, v), max(x.most, v)
	return x, x.most-x.least <= most
}

// fence is the first entry that begins in a block of 1 << fenceShift bytes.
type fence struct {
	word uint64 // first 8 bytes of its suffix
	off  uint64 // where it begins in the chunk
}

// Info describes a finished chunk. Its keys are overwritten with the next chunk.
type Info struct {
	Layout
	Stats
	First, Last     []byte
	Shared          int    // bytes that First shares with the last key before; -1: there is none
	TrailerChecksum uint32 // also in the directory, so that a trailer of another chunk is found
}

// Empty reports whether the next entry begins a chunk.
func (b *Builder) Empty() bool { return b.prev == 0 }

// Outcome is what Add did.
type Outcome uint8

// The outcomes.
const (
	Disorder Outcome = iota // the entry does not follow the last one: nothing was done
	Full                    // the chunk must be finished first
	NewKey                  // added, the first version of its key in the run
	Older                   // added, an older version of the last key
)

// lastSuffix is the key of the last entry, without the prefix.
func (b *Builder) lastSuffix() []byte {
	start, end := suffixAt(b.buf, b.prev)
	return b.buf[start:end]
}

// suffixAt is where the key suffix of a well-formed entry lies.
func suffixAt(buf []byte, off int) (start, end int) {
	w := binary.LittleEndian.Uint64(buf[off:])
	start = off + headLen(w)
	if w&flagWide != 0 {
		return start, start + int(w>>32)
	}
	return start, start + int(w>>8&maxSuffix)
}

// Add appends e, whose key has this hash. The first entry of a chunk always
// fits. If e is an older version of the last key, even of the chunk before, the
// last entry is marked as followed by one, also when the chunk is full.
func (b *Builder) Add(e *entry.Entry, hash uint64) Outcome {
	p := b.now.Prefix
	// The first entry sets the prefix, and fits whatever its size.
	if b.prev == 0 {
		older, ok := b.followsLast(e)
		if !ok {
			return Disorder
		}
		b.beginChunk(e.Key)
		return b.appendEntry(e, entry.Word(e.Key[b.now.Prefix:]), hash, older)
	}
	older := false
	shares := len(e.Key) >= p && string(e.Key[:p]) == string(b.now.First[:p])
	var word uint64
	if shares {
		word = entry.Word(e.Key[p:])
	}
	// A greater word proves the order; only equal or smaller ones need a comparison
	// of whole keys.
	if !shares || word <= b.lastWord {
		var ok bool
		if older, ok = b.followsLast(e); !ok {
			return Disorder
		}
		// The mark is set here, when the older version comes: readers then know without a look
		// ahead whether to walk on.
		if older {
			b.buf[b.prev] |= flagOlder
		}
	}
	// A key outside the common prefix: cut the prefix, or begin a new chunk.
	if !shares {
		if !b.shrinkPrefix(e) {
			return Full
		}
		word = entry.Word(e.Key[b.now.Prefix:])
	}
	// MaxEntries is what offsets in the index can reach.
	if len(b.buf)+b.maxEntrySize(e) > MaxEntries {
		return Full
	}
	return b.appendEntry(e, word, hash, older)
}

// followsLast reports whether e may come after the last entry, of whichever chunk,
// and whether it is an older version of that entry's key.
func (b *Builder) followsLast(e *entry.Entry) (older, ok bool) {
	switch c := b.compareLast(e.Key); {
	case c > 0:
		return false, true
	case c < 0:
		return false, false
	}
	return true, e.Version < b.lastVersion
}

// compareLast compares key with the key of the last entry.
func (b *Builder) compareLast(key []byte) int {
	if b.prev == 0 {
		if b.now.Last == nil {
			return 1
		}
		return bytes.Compare(key, b.now.Last)
	}
	// The last key shares the prefix, so the first byte that differs within it
	// decides.
	p := b.now.Prefix
	if n := entry.CommonPrefix(key, b.now.First[:p]); n < p {
		return bytes.Compare(key[n:], b.now.First[n:p])
	}
	return bytes.Compare(key[p:], b.lastSuffix())
}

// beginChunk begins a chunk with this first key.
func (b *Builder) beginChunk(key []byte) {
	shared := -1
	if b.now.Last != nil {
		shared = entry.CommonPrefix(b.now.Last, key)
	}
	// The prefix is guessed from the chunk before, because every key that doesn't share it costs a
	// rewrite (shrinkPrefix). The first key alone would be the guess otherwise.
	b.now = Info{Layout: Layout{Prefix: min(b.prefixGuess, len(key))}, Last: b.now.Last, Shared: shared}
	b.now.First = append(b.firstMem.Grow(nil, len(key)), key...)
	b.shrinks = 0
	b.restartChunk()
}

// restartChunk forgets the entries of the chunk.
func (b *Builder) restartChunk() {
	b.buf = b.buf[:0]
	b.zeroExtend(HeaderSize)
	b.items = b.items[:0]
	b.fences = b.fences[:0]
	b.prev, b.longest = 0, 0
	b.now.Stats = Stats{}
	b.versions, b.segments = extent{}, extent{}
}

// endEntries notes in the layout what follows from the entries.
func (b *Builder) endEntries() {
	b.now.End = len(b.buf)
	b.now.VersionBase, b.now.SegmentBase = entry.Version(b.versions.least), entry.FileNum(b.segments.least)
}

// maxEntrySize is an upper bound of the bytes that e takes, in any form.
func (b *Builder) maxEntrySize(e *entry.Entry) int {
	return align8(wideHand + len(e.Key) - b.now.Prefix + max(len(e.Value), rawSize))
}

// shrinkPrefix cuts the prefix to what e shares with it and writes the entries again, unless the
// chunk has no room for that. From the 17th cut on it at least halves the prefix, so that
// hostile keys cost only a few more rewrites.
func (b *Builder) shrinkPrefix(e *entry.Entry) bool {
	// The prefix only gets shorter within a chunk: it is rewritten a bounded number of times.
	p := entry.CommonPrefix(e.Key, b.now.First[:b.now.Prefix])
	if b.shrinks++; b.shrinks > 16 {
		p = min(p, b.now.Prefix/2)
	}
	if !b.hasRoomFor(b.now.Prefix-p, e) {
		return false
	}
	// Entries are decoded from the old buffer and appended to the spare one. Hashes come from the
	// index items, as older versions have none.
	b.endEntries()
	old := Chunk{Layout: b.now.Layout, Data: b.buf}
	key := append([]byte(nil), b.now.First[:b.now.Prefix]...)
	prefix := len(key)
	items := append([]indexItem(nil), b.items...)
	b.mem, b.spare, b.buf = b.spare, b.mem, nil
	b.restartChunk()
	b.now.Prefix = p
	var x entry.Entry
	for off := HeaderSize; off < old.End; {
		ent, start, end, next, err := old.decodeEntry(off, &x, nil)
		if err != nil {
			return false // cannot be: the entries are our own
		}
		key = append(key[:prefix], ent[start:end]...)
		x.Key = key
		if len(items) > 0 && int(items[0].offset) == off {
			b.appendEntry(&x, entry.Word(key[p:]), items[0].hash, false)
			items = items[1:]
		} else {
			b.appendEntry(&x, entry.Word(key[p:]), 0, true)
		}
		b.buf[b.prev] |= old.Data[off] & flagOlder
		off = next
	}
	return true
}

// hasRoomFor reports whether the chunk surely has room for e once every suffix has grown by grow
// bytes.
func (b *Builder) hasRoomFor(grow int, e *entry.Entry) bool {
	each := align8(grow)
	// A suffix that becomes long makes the whole entry wide.
	if b.longest+grow > maxSuffix {
		each += wideHand
	}
	return len(b.buf)+int(b.now.Entries)*each+grow+b.maxEntrySize(e) <= MaxEntries
}

// inlineLen is how much follows the suffix of a well-formed entry.
func inlineLen(buf []byte, off int, w uint64) int {
	switch {
	case w&flagSep != 0:
		if binary.LittleEndian.Uint64(buf[off+headLen(w)-8:])&flagRaw != 0 {
			return rawSize
		}
		return 0
	case w&flagWide != 0:
		return int(binary.LittleEndian.Uint64(buf[off+32:]))
	}
	return int(w >> 16 & maxInline)
}

// appendEntry encodes e, which shares the prefix and has room; word is the key word of its suffix.
// older says that e is an older version of the last key.
func (b *Builder) appendEntry(e *entry.Entry, word, hash uint64, older bool) Outcome {
	off := len(b.buf)
	suffix := e.Key[b.now.Prefix:]
	b.longest = max(b.longest, len(suffix))
	// The first entry that begins in a block is the block's fence. Seeks start there.
	if n := len(b.fences); n == 0 || int(b.fences[n-1].off)>>fenceShift != off>>fenceShift {
		b.fences = append(b.fences, fence{word, uint64(off)})
	}
	// Only the newest version of a key is indexed: older ones follow it, and a walk finds them.
	if !older {
		if len(b.items) == cap(b.items) {
			// append's steps would leave more memory behind.
			b.items = slices.Grow(b.items, len(b.items)+64)
		}
		b.items = append(b.items, indexItem{hash: hash, offset: uint32(off)})
	}
	if need := b.maxEntrySize(e); cap(b.buf)-off < need {
		b.growBuffer(off + need)
	}
	buf := b.buf[off:cap(b.buf)]
	n := 0
	if b.fitsShort(e, suffix) {
		w := uint64(e.Kind) | uint64(len(suffix))<<8 | uint64(e.Version)<<32
		n = headSize
		if ext := uint64(e.Meta) | e.Expires<<8; ext != 0 {
			w |= flagExt
			binary.LittleEndian.PutUint64(buf[n:], ext)
			n += extSize
		}
		if e.Separated {
			w |= flagSep | uint64(e.Handle.Segment)&maxInline<<16
			binary.LittleEndian.PutUint64(buf[n:], e.Handle.Offset>>3|e.Handle.Length<<32|rawMark(e))
			n += handSize
		} else {
			w |= uint64(len(e.Value)) << 16
		}
		binary.LittleEndian.PutUint64(buf, w)
	} else {
		n = putWide(buf, e, len(suffix))
	}
	n += copy(buf[n:], suffix)
	switch {
	case !e.Separated:
		n += copy(buf[n:], e.Value)
	case e.Raw != 0:
		binary.LittleEndian.PutUint32(buf[n:], e.Raw)
		n += rawSize
	}
	end := align8(n)
	// Padding is zeros: chunks of equal entries are equal, byte by byte.
	clear(buf[n:end])
	b.buf = b.buf[:off+end]
	b.prev, b.lastVersion, b.lastWord = off, e.Version, word
	b.now.AddEntry(e, older)
	if older {
		return Older
	}
	return NewKey
}

// growBuffer makes room for n bytes in all: twice as many as before, in few steps up to the size of
// most chunks.
func (b *Builder) growBuffer(n int) {
	if n <= cap(b.buf) {
		return
	}
	n = max(n, 2*cap(b.buf))
	if n > MaxEntries/16 {
		n = max(n, usualSize)
	}
	b.buf = b.mem.Grow(b.buf, n)
}

// usualSize is enough memory for a full chunk with index and trailer, in bytes, unless its
// entries are very small.
const usualSize = MaxEntries + MaxEntries/4

// putWide writes the wide form up to the suffix and returns its length.
func putWide(buf []byte, e *entry.Entry, suffix int) int {
	w := uint64(e.Kind) | flagWide | uint64(suffix)<<32
	put := func(i int, v uint64) { binary.LittleEndian.PutUint64(buf[i:], v) }
	put(8, uint64(e.Version))
	put(16, e.Expires)
	put(24, uint64(e.Meta))
	if !e.Separated {
		put(0, w)
		put(32, uint64(len(e.Value)))
		return wideSize
	}
	put(0, w|flagSep)
	put(32, uint64(e.Handle.Segment))
	put(40, e.Handle.Offset)
	put(48, e.Handle.Length|rawMark(e))
	return wideHand
}

// rawMark returns flagRaw if the length before compression follows the suffix of e, else 0.
func rawMark(e *entry.Entry) uint64 {
	if e.Raw != 0 {
		return flagRaw
	}
	return 0
}

// fitsShort reports whether e fits the short form, and if so extends the numbers that the chunk's
// bases stand for to its version and segment.
func (b *Builder) fitsShort(e *entry.Entry, suffix []byte) bool {
	if len(suffix) > maxSuffix || len(e.Value) > maxInline || e.Expires > maxExpiry {
		return false
	}
	// The header has 32 bits of the version and 16 of the segment. Nothing is noted before all
	// fits: a wide entry has both in full, and must not take room in the extents.
	versions, ok := b.versions.extendedTo(uint64(e.Version), 1<<32-1)
	segments := b.segments
	if ok && e.Separated {
		h := &e.Handle
		if h.Offset&7 != 0 || h.Offset>>3 > 1<<32-1 || h.Length > 1<<31-1 {
			return false
		}
		segments, ok = segments.extendedTo(uint64(h.Segment), maxInline)
	}
	if ok {
		b.versions, b.segments = versions, segments
	}
	return ok
}

// Size is an upper bound of the size of the chunk if it was finished now.
func (b *Builder) Size() int {
	body := pageCeil(len(b.buf)) + pageCeil(bucketsFor(len(b.items))*bucketSize)
	return body + trailerBound(body, len(b.now.First))
}

// Finish completes the chunk that will be written at offset of the owner, encrypted
// by e, unless that is nil. The image and the Info are valid until the next Add. Only
// encryption can fail: then stop writing the file.
func (b *Builder) Finish(owner *Owner, offset int64, e *crypt.Encrypter) (image []byte, info Info, err error) {
	// The header is written last, because the file's number is known only now.
	owner.putBytes(b.buf)
	// Copied, as buf is used for the next chunk, and the next key is compared with it.
	prefix, suffix := b.now.First[:b.now.Prefix], b.lastSuffix()
	b.now.Last = append(append(b.lastMem.Grow(nil, len(prefix)+len(suffix)), prefix...), suffix...)
	b.endEntries()
	b.now.Buckets = bucketsFor(len(b.items))
	index := b.now.IndexStart()
	b.zeroExtend(b.now.TrailerStart())
	buildIndex(b.buf[index:][:b.now.Buckets*bucketSize], b.items)
	err = b.appendTrailer(owner.ID(), offset, e)
	if b.now.Keys > 1 { // one key says nothing of the next ones
		b.prefixGuess = entry.CommonPrefix(b.now.First, b.now.Last)
	}
	b.prev = 0
	return b.buf, b.now, err
}

// appendSums appends the checksum of each page, or encrypts it and appends its tag.
func (b *Builder) appendSums(t []byte, id checksum.Identity, offset int64, e *crypt.Encrypter) ([]byte, error) {
	if e != nil {
		// The trailer lies behind, in the same memory: there is room for the tag of the last page.
		return EncryptPages(t, b.buf, crypt.Page, offset, e)
	}
	for p := 0; p < len(b.buf); p += PageSize {
		t = binary.LittleEndian.AppendUint32(t, id.Sum(offset+int64(p), b.buf[p:p+PageSize]))
	}
	return t, nil
}

// appendTrailer appends the trailer of the chunk at offset, which has the checksums, or tags, of
// all pages before it.
func (b *Builder) appendTrailer(id checksum.Identity, offset int64, e *crypt.Encrypter) error {
	start := len(b.buf)
	l := &b.now.Layout
	// So that no append below needs other memory.
	b.growBuffer(start + trailerBound(start, len(b.now.First)) + Room)
	t, begin, list, shift := b.buf, start, uint16(secChecksums), fenceShift
	if e != nil {
		t, begin, list, shift = append(t, make([]byte, crypt.TagSize)...), start+crypt.TagSize, secTags, encryptedShift
	}
	t = binary.LittleEndian.AppendUint32(t, 0) // checksum
	t = binary.LittleEndian.AppendUint32(t, 0) // length
	t = binary.LittleEndian.AppendUint64(t, uint64(l.End))

	t = AppendSection(t, secPrefix, Required, func(t []byte) []byte { return append(t, b.now.First[:l.Prefix]...) })
	t = AppendSection(t, secFence, Required, func(t []byte) []byte { return b.appendFences(t, shift) })
	var err error
	t = AppendSection(t, list, Required, func(t []byte) []byte {
		t, err = b.appendSums(t, id, offset, e)
		return t
	})
	t = AppendSection(t, secIndex, Required, func(t []byte) []byte {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(t, indexNarrow), uint32(l.Buckets))
	})
	t = AppendSection(t, secStat, 0, func(t []byte) []byte {
		t = binary.LittleEndian.AppendUint64(t, uint64(l.VersionBase))
		t = binary.LittleEndian.AppendUint64(t, uint64(l.SegmentBase))
		return b.now.Stats.Append(t)
	})
	b.buf = t
	// Whole pages: the next chunk begins at a page, too.
	l.TrailerSize = pageCeil(len(t) - start)
	b.zeroExtend(start + l.TrailerSize)
	binary.LittleEndian.PutUint32(b.buf[begin+4:], uint32(l.TrailerSize))
	t, offset = b.buf[start:], offset+int64(start)
	switch {
	case e == nil:
		b.now.TrailerChecksum = id.Sum(offset, t[4:])
		binary.LittleEndian.PutUint32(t, b.now.TrailerChecksum)
	case err == nil:
		err = encryptTrailer(t, offset, e)
	}
	return err
}

// trailerBound is an upper bound of the length of a trailer behind body bytes, with a prefix of
// this length. Each piece of 512 bytes takes 12.5: 12 of its fence, and an eighth of the checksum of its
// page. Of an encrypted page, fence and tag take 28.
func trailerBound(body, prefix int) int { return pageCeil(body>>fenceShift*13 + prefix + PageSize) }

// appendFences appends the payload of the fence section. A block in which no
// entry begins has the fence of the next block that has one; after the last, the
// end of the entries.
func (b *Builder) appendFences(t []byte, shift int) []byte {
	n := b.now.fences(shift)
	t = binary.LittleEndian.AppendUint32(t, uint32(shift))
	t = binary.LittleEndian.AppendUint32(t, uint32(n))
	fences := append(b.fences, fence{word: ^uint64(0), off: uint64(b.now.End)})
	at := len(t)
	t = append(t, make([]byte, 12*n)...)
	words, starts := t[at:], t[at+8*n:]
	for p := range n {
		for len(fences) > 1 && int(fences[0].off>>shift) < p {
			fences = fences[1:]
		}
		binary.LittleEndian.PutUint64(words[8*p:], fences[0].word)
		binary.LittleEndian.PutUint32(starts[4*p:], uint32(fences[0].off>>3))
	}
	return t
}

const indexNarrow = 1 // kind of index: buckets of 32-bit slots

// zeroExtend makes the buffer n bytes long.
func (b *Builder) zeroExtend(n int) {
	old := len(b.buf)
	b.growBuffer(n)
	b.buf = b.buf[:n]
	clear(b.buf[old:])
}
