package pageio

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
)

// Paged says how pages of a file are read, and what proves them.
type Paged struct {
	Name string
	ID   checksum.Identity
	Key  *crypt.Decrypter // nil: the file is plain
	// Read makes p the bytes at off, and does not wait for a page fault. See File.ReadOrPrime.
	Read     func(p []byte, off int64) error
	Verified PageBits // pages of parts in place that were verified of late
	Cache    *Cache   // of parts that are read block by block
	Owner    any      // owns their blocks in Cache, see Cache.Forget
}

// Part is a part of a file with a checksum, or tag, for each of its pages. It lies in place, in a
// mapping or in memory that nobody else writes to, or it is read block by block. Any number of
// goroutines may use it.
type Part struct {
	file *Paged
	unit crypt.Unit
	off  int64 // where it begins in the file
	size int
	sums []byte // for each page its checksum, a u32, or its tag; nil: it is verified

	data []byte // all of it, in place; nil: it is read block by block
	page int    // number of its first page in Paged.Verified

	// the blocks that are in the cache, by index; nil: it is not there
	list []atomic.Pointer[Block]
}

// PagesOf is how many pages a file, or part, of size bytes has.
func PagesOf(size int64) int64 { return (size + PageSize - 1) >> pageShift }

// NewPart returns the part of size bytes at off of f, which is read block by block. sums has for
// each page its checksum, or, if the file is encrypted, its tag as this kind of unit.
func NewPart(f *Paged, unit crypt.Unit, off int64, size int, sums []byte) *Part {
	return &Part{file: f, unit: unit, off: off, size: size, sums: sums,
		list: make([]atomic.Pointer[Block], (size+CacheBlockSize-1)>>blockShift)}
}

// NewPartInPlace is NewPart for a part whose bytes are, or will be read into, data. Its pages
// have the numbers from page on in f.Verified. Those of an encrypted file are decrypted in
// place, and there is room for a tag behind.
func NewPartInPlace(f *Paged, unit crypt.Unit, off int64, data, sums []byte, page int) *Part {
	return &Part{file: f, unit: unit, off: off, size: len(data), sums: sums, data: data, page: page}
}

// SumPart reads the n bytes at off, for a part that has one checksum, and is read in small pieces
// later. It returns their plain checksum. Each page gets a checksum of its own now, which is kept
// in memory (a thousandth of the part), so that the page can be verified again when it is read in a
// later epoch. SumPart returns an *errs.Corruption, before anything is allocated, if the bytes
// aren't within Size.
func (f *File) SumPart(off, n int64) (s *Part, crc uint32, err error) {
	if err := f.checkRange(off, n); err != nil {
		return nil, 0, err
	}
	// Memory of its own is verified once and can't change: no sums are needed.
	if f.data == nil {
		b := make([]byte, n)
		err := f.ReadFull(b, off)
		return f.PrivatePart(off, b), checksum.Plain(b), err
	}
	src := &Paged{Name: f.name, Read: f.ReadOrPrime, Verified: f.VerifiedPages(PagesOf(n))}
	s = NewPartInPlace(src, 0, off, f.data[off:off+n:off+n], make([]byte, 0, 4*PagesOf(n)), 0)
	p := scratchPool.Get().(*scratch)
	defer scratchPool.Put(p)
	// Both kinds of checksum are made of the same bytes, which nobody else can change.
	for at := int64(0); at < n; at += scratchSize {
		piece := p[:min(scratchSize, n-at)]
		if err := f.ReadFull(piece, off+at); err != nil {
			s.Free()
			return nil, 0, err
		}
		crc = checksum.Extend(crc, piece)
		for page := range slices.Chunk(piece, PageSize) {
			s.sums = binary.LittleEndian.AppendUint32(s.sums, src.ID.Sum(off+int64(len(s.sums)/4)<<pageShift, page))
		}
	}
	return s, crc, nil
}

// PrivatePart returns a part that begins at off of f and lies in memory of its own, verified.
func (f *File) PrivatePart(off int64, data []byte) *Part {
	return NewPartInPlace(&Paged{Name: f.name}, 0, off, data, nil, 0)
}

// Data is the whole part, if it is in place. What of it is mapped must be verified when it is read.
func (p *Part) Data() []byte { return p.data }

// Verified is the set of the pages of a part in place that were verified of late; none if it lies
// in memory of its own.
func (p *Part) Verified() PageBits { return p.file.Verified }

// Free gives the memory of what is known back.
func (p *Part) Free() { p.file.Verified.Free() }

// Bytes returns n bytes at off of a part in place once they are verified.
func (p *Part) Bytes(off int64, n int) ([]byte, error) {
	if err := p.checkRange(off, n); err != nil {
		return nil, err
	}
	for i := int(off >> pageShift); p.sums != nil && int64(i)<<pageShift < off+int64(n); i++ {
		if p.file.Verified.Test(p.page + i) {
			continue
		}
		if err := p.VerifyPages(i, 1); err != nil {
			return nil, err
		}
	}
	return p.data[off : off+int64(n)], nil
}

// Page returns the bytes from at to the end of its page.
func (p *Part) Page(at int) ([]byte, error) {
	if p.data == nil {
		return p.Block(at, true).Page(at)
	}
	return p.Bytes(int64(at), min((at|(PageSize-1))+1, p.size)-at)
}

// VerifyPages verifies n pages of a part in place from page first on, whatever was verified before,
// or decrypts them unless that was done.
func (p *Part) VerifyPages(first, n int) error {
	if first < 0 || int64(first+n) > PagesOf(int64(p.size)) {
		return errs.NewCorruption(p.file.Name, p.off+int64(first)<<pageShift, "page %d of %d", first, PagesOf(int64(p.size)))
	}
	lo, hi := first<<pageShift, min((first+n)<<pageShift, p.size)
	// Read before summing up: a page fault in a mapping would block the thread, not the goroutine.
	if err := p.file.Read(p.data[lo:hi], p.off+int64(lo)); err != nil {
		return err
	}
	for at := lo; at < hi; at += PageSize {
		i := p.page + at>>pageShift
		// Decrypting twice would make garbage of it: bytes and plain text share the memory.
		if p.file.Key != nil && p.file.Verified.Test(i) {
			continue
		}
		page := p.data[at:min(at+PageSize, hi)]
		if err := p.openPage(page, page, at); err != nil {
			return err
		}
		p.file.Verified.Set(i)
	}
	return nil
}

// openPage decrypts the page src at offset at of the part, which has room behind, into dst. Of
// a plain file it compares the checksum. Both may be the same memory.
func (p *Part) openPage(dst, src []byte, at int) error {
	off := p.off + int64(at)
	if p.file.Key != nil {
		tag := crypt.Tag(p.sums[at>>pageShift*crypt.TagSize:])
		if err := p.file.Key.Decrypt(dst, src, &tag, p.unit, off, 0, nil); err != nil {
			// A wrong tag is damage. The key is right: the tag of the file's header fits it.
			return errs.NewCorruption(p.file.Name, off, "page: %v", err)
		}
		return nil
	}
	want := binary.LittleEndian.Uint32(p.sums[at>>pageShift*4:])
	if got := p.file.ID.Sum(off, src); got != want {
		return errs.NewCorruption(p.file.Name, off, "page: checksum %#x, want %#x", got, want)
	}
	// A mapping can't be written to.
	if &dst[0] != &src[0] {
		copy(dst, src)
	}
	return nil
}

// ReadAll returns the whole part, decrypted or verified. It is read past the cache, into new
// memory.
func (p *Part) ReadAll() ([]byte, error) { return p.copyPages(nil, 0, p.size) }

// copyPages reads the pages of the bytes in [lo, hi) into buf, or into new memory if that is too
// small.
func (p *Part) copyPages(buf []byte, lo, hi int) ([]byte, error) {
	first, end := lo&^(PageSize-1), min((hi+PageSize-1)&^(PageSize-1), p.size)
	buf = slices.Grow(buf[:0], end-first+crypt.TagSize)[:end-first]
	if err := p.file.Read(buf, p.off+int64(first)); err != nil {
		return nil, err
	}
	for at := 0; at < len(buf); at += PageSize {
		page := buf[at:min(at+PageSize, len(buf))]
		if err := p.openPage(page, page, first+at); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// checkRange reports a range that isn't within the part.
func (p *Part) checkRange(off int64, n int) error {
	if off < 0 || n < 0 || off > int64(p.size) || int64(n) > int64(p.size)-off {
		return errs.NewCorruption(p.file.Name, p.off, "%d bytes at %d are needed of %d", n, off, p.size)
	}
	return nil
}

// Copier returns a reader of the same part, in place, for those who write elsewhere what they
// find: it reads pages by pread into memory of its own, and verifies them there.
func (p *Part) Copier() *PartCopy { return &PartCopy{Part: p} }

// PartCopy has the pages that were asked for last. It is used by one goroutine.
type PartCopy struct {
	*Part
	first int64 // where buf begins in the part
	buf   []byte
}

// Bytes returns n bytes at off of the part, valid until the next call.
func (c *PartCopy) Bytes(off int64, n int) ([]byte, error) {
	if c.sums == nil {
		return c.Part.Bytes(off, n)
	}
	if err := c.checkRange(off, n); err != nil {
		return nil, err
	}
	if at := off - c.first; at < 0 || at+int64(n) > int64(len(c.buf)) {
		c.first = off &^ (PageSize - 1)
		var err error
		// After an error there is no buf: bytes that were not verified must not be found.
		if c.buf, err = c.copyPages(c.buf, int(off), int(off)+n); err != nil {
			return nil, err
		}
	}
	return c.buf[off-c.first:][:n], nil
}
