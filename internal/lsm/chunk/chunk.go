package chunk

import (
	"bytes"
	"encoding/binary"
	"sort"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// Chunk reads one chunk. Any number of goroutines may use it.
type Chunk struct {
	Layout
	Data            []byte        // the whole chunk, in place; nil: it is read block by block
	File            *pageio.Paged // reads and proves the pages; nil: all are right
	Page            int           // number of the chunk's first page in File.Verified
	Offset          int64         // where the chunk begins in the file
	TrailerChecksum uint32        // by the directory: proves that the chunk is the right one

	trailer atomic.Pointer[Trailer] // once it was parsed; without Data, while it is in the cache
}

// Copy returns the same chunk in data, memory of its own, into which read reads it: pages are
// verified, or decrypted, there. There is Room behind data.
func (c *Chunk) Copy(data []byte, read func(p []byte, off int64) error) *Chunk {
	f := *c.File
	f.Read, f.Verified, f.Cache = read, pageio.NewPageBits(pageio.PagesOf(int64(len(data)))), nil
	return &Chunk{Layout: c.Layout, Data: data, File: &f, Offset: c.Offset, TrailerChecksum: c.TrailerChecksum}
}

// corruptAt returns a Corruption at off of the chunk.
func (c *Chunk) corruptAt(off int, format string, args ...any) error {
	name := ""
	if c.File != nil {
		name = c.File.Name
	}
	return errs.NewCorruption(name, c.Offset+int64(off), format, args...)
}

// Trailer returns the trailer, and verifies it unless that was done recently.
func (c *Chunk) Trailer() (*Trailer, error) {
	t := c.trailer.Load()
	switch {
	case t == nil:
	case c.Data == nil:
		t.MarkUsed()
		return t, nil
	// The bit of its first page stands for all of it.
	case c.isVerified(c.TrailerStart()):
		return t, nil
	}
	return c.loadTrailer(t)
}

// loadTrailer reads and verifies the trailer. t is what was parsed of the same bytes before; nil:
// it is parsed now.
func (c *Chunk) loadTrailer(t *Trailer) (*Trailer, error) {
	start := c.TrailerStart()
	var b []byte
	if c.Data != nil {
		b = c.Data[start:][:c.TrailerSize]
	} else {
		b = make([]byte, c.TrailerSize, c.TrailerSize+Room) // decryption needs Room behind
	}
	err := c.File.Read(b, c.Offset+int64(start))
	if err == nil {
		err = c.verifyTrailer(b, start)
	}
	if err != nil {
		return nil, err
	}
	if t == nil {
		var l Layout
		t, l, err = parseTrailer(b, c.File.Key != nil)
		// With other bases than those of the directory, versions would be completed wrongly.
		if l.Stamp = c.Stamp; err == nil && l != c.Layout {
			err = errTrailer
		}
		if err != nil {
			return nil, c.corruptAt(start, "%v", err)
		}
		t.Stats = t.Stats.Stamped(c.Stamp)
		c.keepTrailer(t)
	}
	// Set last: another goroutine that sees the bit relies on c.trailer, stored above.
	c.File.Verified.Set(c.Page + start>>pageShift)
	return t, nil
}

// keepTrailer makes t, just parsed, the one that is used from now on.
func (c *Chunk) keepTrailer(t *Trailer) {
	t.chunk = c
	if c.Data != nil {
		t.body = pageio.NewPartInPlace(c.File, crypt.Page, c.Offset, c.Data[:c.TrailerStart()], t.sums, c.Page)
	} else {
		t.body = pageio.NewPart(c.File, crypt.Page, c.Offset, c.TrailerStart(), t.sums)
	}
	// Several goroutines may have read it: one keeps it, the others use theirs once. Only what is
	// kept may be in the cache: else Drop would not find it.
	if c.trailer.CompareAndSwap(nil, t) && c.Data == nil {
		c.File.Cache.Add(c.File.Owner, t, int64(c.TrailerSize)+t.body.TableBytes()+openedBytes)
	}
}

// verifyTrailer proves the trailer b, or decrypts it in place.
func (c *Chunk) verifyTrailer(b []byte, start int) error {
	if err := proveTrailer(b, c.File, c.Offset+int64(start)); err != nil {
		return c.corruptAt(start, "trailer: %v", err)
	}
	// The directory has the checksum, too: a trailer of another chunk, or of this
	// place in an older file, is found.
	if sum := binary.LittleEndian.Uint32(b); c.File.Key == nil && sum != c.TrailerChecksum {
		return c.corruptAt(start, "trailer: checksum %#x, want %#x", sum, c.TrailerChecksum)
	}
	return nil
}

// Verify makes sure that the bytes in [lo, hi) of the chunk, entries or index,
// have been checked against their page checksums.
func (c *Chunk) Verify(lo, hi int) error {
	if c.Data == nil {
		return c.fetchBlocks(lo, hi)
	}
	for p, end := lo>>pageShift, (hi-1)>>pageShift; p <= end; p++ {
		if c.isVerified(p << pageShift) {
			continue
		}
		// Pages that follow each other are read in one go, up to maxPrime: fewer requests to the
		// disk.
		n := 1
		for p+n <= end && n < maxPrime && !c.isVerified((p+n)<<pageShift) {
			n++
		}
		if err := c.verifyPages(p, n); err != nil {
			return err
		}
		p += n - 1
	}
	return nil
}

// pageAt returns the bytes from off, of entries or index, to the end of its page, verified. They
// come from b if that has them.
func (c *Chunk) pageAt(off int, b *pageio.Block) ([]byte, error) {
	if c.Data == nil {
		return c.pageInBlock(off, b)
	}
	if !c.isVerified(off) {
		if err := c.Verify(off, off+1); err != nil {
			return nil, err
		}
	}
	return c.Data[off:min((off|(PageSize-1))+1, len(c.Data))], nil
}

// spanOf is pageAt for all bytes in [lo, hi), which may cross pages.
func (c *Chunk) spanOf(lo, hi int, b *pageio.Block) ([]byte, error) {
	if c.Data != nil {
		if err := c.Verify(lo, hi); err != nil {
			return nil, err
		}
		// The user of a value has no guard: a page that can't be read must fault here.
		pageio.Touch(c.Data[hi-1 : hi])
		return c.Data[lo:hi:hi], nil
	}
	if b != nil && b.Contains(lo) {
		return b.Span(lo, hi)
	}
	t, err := c.Trailer()
	if err != nil {
		return nil, err
	}
	return t.body.Span(lo, hi)
}

const maxPrime = 64 // pages that are read ahead at a time, at most

// isVerified reports whether the page of off has been checked.
func (c *Chunk) isVerified(off int) bool {
	return c.File == nil || c.File.Verified.Test(c.Page+off>>pageShift)
}

// verifyPages verifies n pages from the page first on, whatever was verified before.
func (c *Chunk) verifyPages(first, n int) error {
	// The trailer need not be verified again: a checksum that has rotted since fits no page.
	t := c.trailer.Load()
	if t == nil {
		var err error
		if t, err = c.Trailer(); err != nil {
			return err
		}
	}
	return t.body.VerifyPages(first, n)
}

// VerifyAll checks every byte of the chunk, whatever was checked before, and calls report for
// what is damaged: once for pages that follow each other. Of an encrypted file it decrypts Data in
// place, but for pages that were decrypted before. It returns false if it has called report.
func (c *Chunk) VerifyAll(report func(error)) (ok bool) {
	ok = true
	damaged := false // the page before
	for p := range c.pages() {
		err := c.verifyPages(p, 1)
		if err != nil && !damaged {
			ok = false
			report(err)
		}
		damaged = err != nil
	}
	return ok
}

// version completes the version in the header word of a short entry.
func (l *Layout) version(w uint64) entry.Version {
	return l.Stamp + l.VersionBase + entry.Version(uint32(w>>32)-uint32(l.VersionBase))
}

// segment completes the segment number in the header word of a short entry.
func (l *Layout) segment(w uint64) entry.FileNum {
	return l.SegmentBase + entry.FileNum(uint16(w>>16)-uint16(l.SegmentBase))
}

// decodeEntry decodes the entry at off, a multiple of 8 in [HeaderSize, End), into e,
// all but its Key. It returns the entry's bytes, where in them the key's suffix lies and
// where in the chunk the next entry begins. They are verified first, in b if that has them.
func (c *Chunk) decodeEntry(off int, e *entry.Entry, b *pageio.Block) (p []byte, start, end, next int, err error) {
	if p, err = c.pageAt(off, b); err != nil { // the header never crosses a page
		return nil, 0, 0, 0, err
	}
	w := binary.LittleEndian.Uint64(p)
	if w&flagSlow != 0 {
		// Meta, expiry and handle may lie on the next page.
		if start = headLen(w); start > c.End-off {
			return nil, 0, 0, 0, c.corruptAt(off, "%v", errEntry)
		}
		if start > len(p) {
			if p, err = c.spanOf(off, off+start, b); err != nil {
				return nil, 0, 0, 0, err
			}
		}
	}
	var value uint64
	raw := false
	if w&flagWide != 0 {
		u := func(i int) uint64 { return binary.LittleEndian.Uint64(p[i:]) }
		*e = entry.Entry{Version: c.Stamp + entry.Version(u(8)), Expires: u(16), Meta: byte(u(24))}
		if w&flagSep != 0 {
			raw = u(48)&flagRaw != 0
			e.Handle = entry.Handle{Segment: entry.FileNum(u(32)), Offset: u(40), Length: u(48) &^ flagRaw}
		} else {
			value = u(32)
		}
		end = start + int(min(w>>32, uint64(c.End))) // a longer one must not wrap around
	} else {
		start = headSize
		*e = entry.Entry{Version: c.version(w)}
		if w&flagExt != 0 {
			x := binary.LittleEndian.Uint64(p[start:])
			e.Meta, e.Expires = byte(x), x>>8
			start += extSize
		}
		if w&flagSep != 0 {
			x := binary.LittleEndian.Uint64(p[start:])
			raw = x&flagRaw != 0
			e.Handle = entry.Handle{Segment: c.segment(w), Offset: x & (1<<32 - 1) << 3, Length: x &^ flagRaw >> 32}
			start += handSize
		} else {
			value = w >> 16 & maxInline
		}
		end = start + int(w>>8&maxSuffix)
	}
	if raw {
		value = rawSize
	}
	// Lengths are checked before anything at their ends is touched: the page's
	// checksum proves only that the bytes are as written.
	e.Kind, e.Separated = entry.Kind(w&kindMask), w&flagSep != 0
	if !e.Kind.Known() {
		return nil, 0, 0, 0, c.corruptAt(off, "entry of kind %d", e.Kind)
	}
	if end > c.End-off || value > uint64(c.End-off-end) {
		return nil, 0, 0, 0, c.corruptAt(off, "%v", errEntry)
	}
	stop := end + int(value)
	if stop > len(p) {
		if p, err = c.spanOf(off, off+stop, b); err != nil {
			return nil, 0, 0, 0, err
		}
	}
	return p, start, end, align8(off + stop), c.setValue(e, p[end:stop:stop], w, off)
}

// plainEnd is where the next entry begins if the one at off has the plainest form, lies in memory, and
// its header in a verified page; else it is 0, and decodeEntry finds out.
func (c *Chunk) plainEnd(off int) int {
	if c.Data == nil || !c.isVerified(off) {
		return 0
	}
	w := binary.LittleEndian.Uint64(c.Data[off:])
	stop := off + headSize + int(w>>8&maxSuffix) + int(w>>16&maxInline)
	if w&flagSlow != 0 || stop > c.End || !entry.Kind(w&kindMask).Known() {
		return 0
	}
	return align8(stop)
}

// setValue sets what follows the key of the entry at off.
func (c *Chunk) setValue(e *entry.Entry, v []byte, w uint64, off int) error {
	switch {
	case w&flagSep == 0:
		if e.Kind != entry.Delete {
			e.Value = v
		}
	case len(v) > 0:
		if e.Raw = binary.LittleEndian.Uint32(v); e.Raw == 0 {
			return c.corruptAt(off, "compressed value of no bytes")
		}
	}
	return nil
}

// headLen is how much of an entry with the header word w comes before its key.
func headLen(w uint64) int {
	if w&flagWide != 0 {
		return wideSize + int(w&flagSep)
	}
	return headSize + int(w&flagExt>>2+w&flagSep>>1)
}

// Result is what Get found.
type Result uint8

// The results.
const (
	Absent Result = iota // the key is not in the chunk
	Found
	Newer // all versions here are too new, and older ones may follow in the next chunk
)

// Get finds the newest version of the key that is not newer than at, and fills
// in e, all but its Key. suffix is the key without the chunk's prefix, hash the
// hash of the whole key.
func (c *Chunk) Get(suffix []byte, hash uint64, at entry.Version, e *entry.Entry) (Result, error) {
	// A chunk without an index has only older versions of the last key of the chunk before: it has
	// the newest entry of no key.
	fp := fingerprintOf(hash)
	b := homeBucket(hash, c.Buckets)
	base := c.IndexStart()
	// Why an entry with the key's fingerprint could not be read. It may be another key's: the
	// damage must not hide a key of which each byte is sound.
	var unread error
	for range c.Buckets {
		o := base + b*bucketSize
		// A bucket is 64 bytes at a multiple of 64, so it lies on one page.
		p, err := c.pageAt(o, nil)
		if err != nil {
			return Absent, err
		}
		// One in 2^15 fingerprints matches by chance: the entry decides.
		bucket := (*[bucketSize]byte)(p)
		for m := matchSlots(bucket, fp); m != 0; m &= m - 1 {
			off := slotOffset(bucket, m)
			if off < HeaderSize || off >= c.End {
				if off == 0 {
					continue // an unused slot of a bucket looks like the fingerprint 0
				}
				return Absent, c.corruptAt(o, "index leads to %d", off)
			}
			res, mine, err := c.getAt(off, suffix, at, e)
			if mine {
				return res, err
			}
			if unread == nil {
				unread = err
			}
		}
		// A key goes to the next bucket only if this one was full.
		if !bucketFull(bucket) {
			return Absent, unread
		}
		if b++; b == c.Buckets {
			b = 0
		}
	}
	return Absent, unread
}

// getAt is Get for the entry at off. mine is false if the entry has another key.
func (c *Chunk) getAt(off int, suffix []byte, at entry.Version, e *entry.Entry) (res Result, mine bool, err error) {
	p, err := c.pageAt(off, nil)
	if err != nil {
		return Absent, false, err
	}
	w := binary.LittleEndian.Uint64(p)
	if w&flagSlow != 0 { // it is decoded field by field
		return c.getSlowAt(off, suffix, at, e)
	}
	// The plainest form is compared here, without decoding it.
	end := headSize + int(w>>8&maxSuffix)
	if end > min(len(p), c.End-off) {
		if p, err = c.entryHead(off, end); err != nil {
			return Absent, false, err
		}
	}
	if string(p[headSize:end]) != string(suffix) {
		return Absent, false, nil
	}
	// A value on the verified page of its header is handed out as it is; newest
	// verifies further pages and walks to older versions.
	stop := end + int(w>>16&maxInline)
	if v := c.version(w); v <= at && stop <= min(len(p), c.End-off) {
		*e = entry.Entry{Version: v, Kind: entry.Kind(w & kindMask), Value: p[end:stop:stop]}
		if e.Kind == entry.Set {
			return c.finishGet(off, e), true, nil
		}
	}
	res, err = c.newestVersion(off, at, e)
	return res, true, err
}

// finishGet makes e, the entry at off, what Get returns.
func (c *Chunk) finishGet(off int, e *entry.Entry) Result {
	if c.Data == nil {
		c.detachValue(off, e)
	}
	return Found
}

// entryHead returns the first end bytes of the entry at off, which cross a page. It returns an
// error if they reach beyond the chunk's entries.
func (c *Chunk) entryHead(off, end int) ([]byte, error) {
	if end > c.End-off {
		return nil, c.corruptAt(off, "%v", errEntry)
	}
	return c.spanOf(off, off+end, nil)
}

// getSlowAt is getAt for an entry of another form.
func (c *Chunk) getSlowAt(off int, suffix []byte, at entry.Version, e *entry.Entry) (res Result, mine bool, err error) {
	p, start, end, _, err := c.decodeEntry(off, e, nil)
	if err != nil || string(p[start:end]) != string(suffix) {
		return Absent, false, err
	}
	if e.Version <= at {
		return c.finishGet(off, e), true, nil
	}
	res, err = c.newestVersion(off, at, e)
	return res, true, err
}

// GetFirst looks for the newest version not newer than at of the chunk's first key,
// whose newer versions are in the chunk before.
func (c *Chunk) GetFirst(at entry.Version, e *entry.Entry) (Result, error) {
	return c.newestVersion(HeaderSize, at, e)
}

// newestVersion walks the versions of one key from the entry at off on.
func (c *Chunk) newestVersion(off int, at entry.Version, e *entry.Entry) (Result, error) {
	for {
		p, _, _, next, err := c.decodeEntry(off, e, nil)
		if err != nil {
			return Absent, err
		}
		if e.Version <= at {
			return c.finishGet(off, e), nil
		}
		// No older version follows: the key is absent at this version.
		if p[0]&flagOlder == 0 {
			return Absent, nil
		}
		// Versions of a key may go on in the next chunk, which the run's reader opens.
		if next >= c.End {
			return Newer, nil
		}
		off = next
	}
}

// SharedPrefix is what the keys of the chunk share, and entries leave out.
func (c *Chunk) SharedPrefix() ([]byte, error) {
	t, err := c.Trailer()
	if err != nil {
		return nil, err
	}
	return t.prefix, nil
}

// CompareFirst compares key with the chunk's first key.
func (c *Chunk) CompareFirst(key []byte) (int, error) {
	prefix, err := c.SharedPrefix()
	if err != nil {
		return 0, err
	}
	// The prefix decides most comparisons, without a look at an entry.
	if n := entry.CommonPrefix(key, prefix); n < len(prefix) {
		return bytes.Compare(key[n:], prefix[n:]), nil
	}
	var first entry.Entry
	p, start, end, _, err := c.decodeEntry(HeaderSize, &first, nil)
	if err != nil {
		return 0, err
	}
	return bytes.Compare(key[len(prefix):], p[start:end]), nil
}

// seekFence returns the offset of the entry at the last fence before suffix, whose key word is word.
// A walk forward from there finds the first entry that is not less than suffix.
func (c *Chunk) seekFence(suffix []byte, word uint64) (int, error) {
	t, err := c.Trailer()
	if err != nil {
		return 0, err
	}
	// Without branches on the words: the outcome of each step is a coin toss.
	words, i := t.words, 0
	for n := len(words) / 8; n > 0; {
		half := (n + 1) >> 1
		if binary.LittleEndian.Uint64(words[8*(i+half-1):]) < word {
			i += half
		}
		n -= half
	}
	// Only a fence with the same word costs a look at its entry.
	if i < t.fences() && t.fenceWord(i) == word {
		if i, err = c.seekEqualFence(t, i, suffix); err != nil {
			return HeaderSize, err
		}
	}
	if i == 0 {
		return HeaderSize, nil
	}
	return t.fenceStart(i - 1), nil
}

// seekEqualFence returns the first fence whose first entry is not less than suffix, among those of
// one word, of which i is the first.
func (c *Chunk) seekEqualFence(t *Trailer, i int, suffix []byte) (int, error) {
	// Doubled steps: usually only a few words are equal.
	end, word := i, t.fenceWord(i)
	for step := 1; end < t.fences() && t.fenceWord(end) == word; step *= 2 {
		end += step
	}
	var failed error
	i += sort.Search(min(end, t.fences())-i, func(p int) bool {
		off := t.fenceStart(i + p)
		if off >= c.End || t.fenceWord(i+p) != word {
			return true
		}
		order, err := c.compareSuffix(off, suffix)
		// Behind an error nothing is known: the caller gets the error.
		if err != nil {
			failed = err
		}
		return order >= 0
	})
	return i, failed
}

// compareSuffix compares the suffix of the entry at off with another one.
func (c *Chunk) compareSuffix(off int, suffix []byte) (int, error) {
	p, err := c.pageAt(off, nil)
	if err != nil {
		return 0, err
	}
	w := binary.LittleEndian.Uint64(p)
	if end := headSize + int(w>>8&maxSuffix); w&flagSlow == 0 && end <= min(len(p), c.End-off) {
		return bytes.Compare(p[headSize:end], suffix), nil
	}
	var e entry.Entry
	p, start, end, _, err := c.decodeEntry(off, &e, nil)
	if err != nil {
		return 0, err
	}
	return bytes.Compare(p[start:end], suffix), nil
}
