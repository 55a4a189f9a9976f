package chunk

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/run/hashindex"
)

// Builder makes chunks, one after the other. It reuses its memory.
type Builder struct {
	buf     []byte // header and entries; later the whole chunk
	first   []byte // first key
	last    []byte // last key, set by Finish
	guess   int    // prefix length to begin the next chunk with
	shrinks int    // how often this chunk's prefix was cut
	prev    int    // offset of the last entry, 0 if there is none
	items   []hashindex.Item
	fences  []fence // one for each page in which an entry begins
	layout  Layout
	stats   Stats

	maxVersion  entry.Version // of the short entries
	maxSegment  entry.FileNum
	lastVersion entry.Version // of the last entry
	hasVersion  bool          // there is a short entry
	hasSegment  bool          // there is a short entry with a handle
	spare       []byte
}

// NewBuilder returns a Builder at the start of its first chunk.
func NewBuilder() *Builder { return &Builder{guess: math.MaxInt} }

type fence struct {
	word uint64
	off  uint64
	page int
}

// Info describes a finished chunk. Its keys are overwritten with the next chunk.
type Info struct {
	Layout
	Stats
	First, Last     []byte
	TrailerChecksum uint32
}

// Len is the number of entries so far.
func (b *Builder) Len() int { return int(b.stats.Entries) }

// Follows reports whether e may be added after the last entry, of whichever
// chunk, and whether it is an older version of that entry's key.
func (b *Builder) Follows(e *entry.Entry) (older, ok bool) {
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
		if b.last == nil {
			return 1
		}
		return bytes.Compare(key, b.last)
	}
	p := b.layout.Prefix
	if n := CommonPrefix(key, b.first[:p]); n < p {
		return bytes.Compare(key[n:], b.first[n:p])
	}
	return bytes.Compare(key[p:], b.lastSuffix())
}

// lastKey appends the key of the last entry to dst.
func (b *Builder) lastKey(dst []byte) []byte {
	return append(append(dst, b.first[:b.layout.Prefix]...), b.lastSuffix()...)
}

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

// Add appends e, which must be greater than the last entry; older says that it
// is an older version of the last entry's key, which may be in the chunk before.
// If there is no room it returns false and nothing has changed but that, with
// older, the last entry is marked as having one; the first entry always fits.
func (b *Builder) Add(e *entry.Entry, hash uint64, older bool) bool {
	if older && b.prev != 0 {
		b.buf[b.prev] |= flagOlder
	}
	if b.prev == 0 {
		b.begin(e.Key)
	} else {
		p := b.layout.Prefix
		if len(e.Key) < p || string(e.Key[:p]) != string(b.first[:p]) {
			if !b.shrink(e) {
				return false
			}
		}
		if len(b.buf)+b.need(e) > MaxEntries {
			return false
		}
	}
	b.append(e, hash, older)
	return true
}

func (b *Builder) begin(key []byte) {
	b.first = append(b.first[:0], key...)
	b.layout = Layout{Prefix: min(b.guess, len(key))}
	b.stats = Stats{}
	b.shrinks = 0
	b.hasVersion, b.hasSegment = false, false
	b.restart(b.buf[:0])
}

// restart empties the lists of entries; buf becomes the buffer.
func (b *Builder) restart(buf []byte) {
	b.buf = zeroExtend(buf, HeaderSize)
	b.items = b.items[:0]
	b.fences = b.fences[:0]
	b.prev = 0
}

// need is an upper bound of the room that e takes.
func (b *Builder) need(e *entry.Entry) int {
	n := len(e.Key) - b.layout.Prefix + len(e.Value)
	if n <= maxSuffix {
		return align8(headSize + extSize + handSize + n)
	}
	return align8(wideHand + n)
}

// shrink cuts the prefix to what e shares and writes the entries again. After
// many cuts it takes half, so that hostile keys cost a few rewrites only.
func (b *Builder) shrink(e *entry.Entry) bool {
	p := CommonPrefix(e.Key, b.first[:b.layout.Prefix])
	if b.shrinks++; b.shrinks > 16 {
		p = min(p, b.layout.Prefix/2)
	}
	grow := b.layout.Prefix - p
	entries := int(b.stats.Entries)
	// A suffix that becomes long makes the whole entry wide.
	if len(b.buf)+entries*(align8(grow)+wideHand)+grow+b.need(e) > MaxEntries && !b.fits(grow, e) {
		return false
	}
	old := Chunk{Layout: b.layout, Data: b.buf}
	old.End = len(b.buf)
	key := append([]byte(nil), b.first[:b.layout.Prefix]...)
	prefix := len(key)
	next := b.spare
	b.spare = b.buf
	items := append([]hashindex.Item(nil), b.items...)
	b.restart(next[:0])
	b.layout.Prefix = p
	b.stats = Stats{}
	b.hasVersion, b.hasSegment = false, false
	var x entry.Entry
	for off := HeaderSize; off < old.End; {
		start, end, next, err := old.fill(off, &x)
		if err != nil {
			return false // cannot be: the entries are our own
		}
		key = append(key[:prefix], old.Data[start:end]...)
		x.Key = key
		if len(items) > 0 && int(items[0].Offset) == off {
			b.append(&x, items[0].Hash, false)
			items = items[1:]
		} else {
			b.append(&x, 0, true)
		}
		b.buf[b.prev] |= old.Data[off] & flagOlder
		off = next
	}
	return true
}

// fits reports exactly whether the chunk has room for e once every suffix has
// grown by grow bytes; the bound in shrink is for short suffixes far too wide.
func (b *Builder) fits(grow int, e *entry.Entry) bool {
	size := len(b.buf) + int(b.stats.Entries)*align8(grow) + grow + b.need(e)
	for off := HeaderSize; off < len(b.buf) && size <= MaxEntries; {
		start, end := suffixAt(b.buf, off)
		w := binary.LittleEndian.Uint64(b.buf[off:])
		if w&flagWide == 0 && end-start+grow > maxSuffix {
			size += wideHand
		}
		off = align8(end + inlineLen(b.buf, off, w))
	}
	return size <= MaxEntries
}

func inlineLen(buf []byte, off int, w uint64) int {
	switch {
	case w&flagSep != 0:
		return 0
	case w&flagWide != 0:
		return int(binary.LittleEndian.Uint64(buf[off+32:]))
	}
	return int(w >> 16 & maxInline)
}

// append encodes e, which is known to share the prefix.
func (b *Builder) append(e *entry.Entry, hash uint64, older bool) {
	off := len(b.buf)
	suffix := e.Key[b.layout.Prefix:]
	if page := off >> pageShift; len(b.fences) == 0 || b.fences[len(b.fences)-1].page != page {
		b.fences = append(b.fences, fence{Word(suffix), uint64(off), page})
	}
	if !older {
		b.items = append(b.items, hashindex.Item{Hash: hash, Offset: uint32(off)})
	}
	buf := b.buf
	if b.short(e, suffix) {
		w := uint64(e.Kind) | uint64(len(suffix))<<8 | uint64(len(e.Value))<<16 | uint64(e.Version)<<32
		if e.Separated {
			w |= flagSep | uint64(e.Handle.Segment)&maxInline<<16
		}
		ext := uint64(e.Meta) | e.Expires<<8
		if ext != 0 {
			w |= flagExt
		}
		buf = binary.LittleEndian.AppendUint64(buf, w)
		if ext != 0 {
			buf = binary.LittleEndian.AppendUint64(buf, ext)
		}
		if e.Separated {
			buf = binary.LittleEndian.AppendUint64(buf, e.Handle.Offset>>3|e.Handle.Length<<32)
		}
	} else {
		buf = appendWide(buf, e, len(suffix))
	}
	buf = append(buf, suffix...)
	if !e.Separated {
		buf = append(buf, e.Value...)
	}
	for pad := -len(buf) & 7; pad > 0; pad-- {
		buf = append(buf, 0)
	}
	b.buf = buf
	b.prev, b.lastVersion = off, e.Version
	b.count(e, older)
}

func appendWide(buf []byte, e *entry.Entry, suffix int) []byte {
	w := uint64(e.Kind) | flagWide | uint64(suffix)<<32
	if e.Separated {
		w |= flagSep
	}
	buf = binary.LittleEndian.AppendUint64(buf, w)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(e.Version))
	buf = binary.LittleEndian.AppendUint64(buf, e.Expires)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(e.Meta))
	if !e.Separated {
		return binary.LittleEndian.AppendUint64(buf, uint64(len(e.Value)))
	}
	buf = binary.LittleEndian.AppendUint64(buf, uint64(e.Handle.Segment))
	buf = binary.LittleEndian.AppendUint64(buf, e.Handle.Offset)
	return binary.LittleEndian.AppendUint64(buf, e.Handle.Length)
}

// short reports whether e fits the short form, and if so makes room for its
// version and segment in the ranges that the chunk's bases stand for.
func (b *Builder) short(e *entry.Entry, suffix []byte) bool {
	if len(suffix) > maxSuffix || len(e.Value) > maxInline || e.Expires > maxExpiry {
		return false
	}
	lo, hi := e.Version, e.Version
	if b.hasVersion {
		lo, hi = min(lo, b.layout.VersionBase), max(hi, b.maxVersion)
	}
	if hi-lo > 1<<32-1 {
		return false
	}
	if e.Separated {
		h := &e.Handle
		if h.Offset&7 != 0 || h.Offset>>3 > 1<<32-1 || h.Length > 1<<32-1 {
			return false
		}
		from, to := h.Segment, h.Segment
		if b.hasSegment {
			from, to = min(from, b.layout.SegmentBase), max(to, b.maxSegment)
		}
		if to-from > maxInline {
			return false
		}
		b.layout.SegmentBase, b.maxSegment, b.hasSegment = from, to, true
	}
	b.layout.VersionBase, b.maxVersion, b.hasVersion = lo, hi, true
	return true
}

func (b *Builder) count(e *entry.Entry, older bool) {
	s := &b.stats
	if s.Entries == 0 {
		s.MinVersion, s.MaxVersion = e.Version, e.Version
	}
	s.Entries++
	if !older {
		s.Keys++
	}
	if e.Kind == entry.Delete {
		s.Deletes++
	}
	s.KeyBytes += uint64(len(e.Key))
	if e.Separated {
		s.SeparatedBytes += e.Handle.Length
	} else {
		s.ValueBytes += uint64(len(e.Value))
	}
	s.MinVersion = min(s.MinVersion, e.Version)
	s.MaxVersion = max(s.MaxVersion, e.Version)
	if e.Expires != 0 && (s.MinExpiry == 0 || e.Expires < s.MinExpiry) {
		s.MinExpiry = e.Expires
	}
}

// Size is an upper bound of the size of the chunk if it was finished now.
func (b *Builder) Size() int {
	body := pageCeil(len(b.buf)) + pageCeil(hashindex.Buckets(len(b.items))*hashindex.BucketSize)
	return body + pageCeil(body>>pageShift*16+len(b.first)+PageSize)
}

// Finish completes the chunk that will be written at offset of the owner.
// The image and the Info are valid until the next Add.
func (b *Builder) Finish(owner *Owner, offset int64) (image []byte, info Info) {
	id := owner.ID()
	owner.put(b.buf)
	b.last = b.lastKey(b.last[:0])
	b.layout.End = len(b.buf)
	b.layout.Buckets = hashindex.Buckets(len(b.items))
	index := b.layout.IndexStart()
	b.buf = zeroExtend(b.buf, b.layout.TrailerStart())
	hashindex.Build(b.buf[index:][:b.layout.Buckets*hashindex.BucketSize], b.items)
	b.appendTrailer(id, offset)
	trailer := b.buf[b.layout.TrailerStart():]
	b.layout.TrailerSize = len(trailer)
	sum := id.Sum(offset+int64(b.layout.TrailerStart()), trailer[4:])
	binary.LittleEndian.PutUint32(trailer, sum)

	if b.stats.Keys > 1 { // one key says nothing of the next ones
		b.guess = CommonPrefix(b.first, b.last)
	}
	b.prev = 0
	info = Info{Layout: b.layout, Stats: b.stats, First: b.first, Last: b.last, TrailerChecksum: sum}
	b.stats.Entries = 0
	return b.buf, info
}

func (b *Builder) appendTrailer(id checksum.Identity, offset int64) {
	start := len(b.buf)
	l := &b.layout
	t := binary.LittleEndian.AppendUint32(b.buf, 0) // checksum
	t = binary.LittleEndian.AppendUint32(t, 0)      // length
	t = binary.LittleEndian.AppendUint64(t, uint64(l.End))

	t, at := AppendSection(t, secPrefix, Required)
	t = append(t, b.first[:l.Prefix]...)
	t = EndSection(t, at)

	t, at = AppendSection(t, secFence, Required)
	pages := l.IndexStart() >> pageShift
	for i, p := 0, 0; p < pages; p++ {
		for i < len(b.fences) && b.fences[i].page < p {
			i++
		}
		word := ^uint64(0)
		if i < len(b.fences) {
			word = b.fences[i].word
		}
		t = binary.LittleEndian.AppendUint64(t, word)
	}
	for i, p := 0, 0; p < pages; p++ {
		for i < len(b.fences) && b.fences[i].page < p {
			i++
		}
		off := uint64(l.End)
		if i < len(b.fences) {
			off = b.fences[i].off
		}
		t = binary.LittleEndian.AppendUint32(t, uint32(off>>3))
	}
	t = EndSection(t, at)

	t, at = AppendSection(t, secChecksums, Required)
	for p := 0; p < start; p += PageSize {
		t = binary.LittleEndian.AppendUint32(t, id.Sum(offset+int64(p), t[p:p+PageSize]))
	}
	t = EndSection(t, at)

	t, at = AppendSection(t, secIndex, Required)
	t = binary.LittleEndian.AppendUint32(t, indexNarrow)
	t = binary.LittleEndian.AppendUint32(t, uint32(l.Buckets))
	t = EndSection(t, at)

	t, at = AppendSection(t, secStat, 0)
	t = binary.LittleEndian.AppendUint64(t, uint64(l.VersionBase))
	t = binary.LittleEndian.AppendUint64(t, uint64(l.SegmentBase))
	t = b.stats.Append(t)
	t = EndSection(t, at)

	t = zeroExtend(t, pageCeil(len(t)))
	binary.LittleEndian.PutUint32(t[start+4:], uint32(len(t)-start))
	b.buf = t
}

const indexNarrow = 1 // kind of a table of 32-bit slots

func zeroExtend(b []byte, n int) []byte {
	old := len(b)
	if cap(b) < n {
		b = append(make([]byte, 0, n+n/8), b...)
	}
	b = b[:n]
	clear(b[old:])
	return b
}
