package pageio

import (
	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/errs"
)

// Summed is a part of a file that has one checksum, which is verified when the file is
// opened, and is read in small pieces later. Each of its pages gets a checksum then,
// which is kept in memory (a thousandth of the part), so that the page can be verified
// again when it is read in a later epoch. Any number of goroutines may use it.
type Summed struct {
	f        *File
	off      int64    // where the part begins in the file
	data     []byte   // mapped bytes, or verified memory of its own
	sums     []uint32 // plain checksum of each page; nil: data is memory of its own
	verified PageBits // pages that were verified in this epoch
}

// Sum reads the n bytes at off, and returns their plain checksum. It returns an
// *errs.Corruption, before anything is allocated, if they aren't within Size.
func (f *File) Sum(off, n int64) (s *Summed, crc uint32, err error) {
	if err := f.check(off, n); err != nil {
		return nil, 0, err
	}
	// Memory of its own is verified once and can't change: no sums are needed.
	if f.data == nil {
		b, err := f.Bytes(off, int(n))
		return &Summed{f: f, off: off, data: b}, checksum.Plain(b), err
	}
	s = &Summed{f: f, off: off, data: f.data[off : off+n : off+n], sums: make([]uint32, 0, (n+pageSize-1)/pageSize)}
	s.verified = f.VerifiedPages(int64(cap(s.sums)))
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
		for len(piece) > 0 {
			k := min(pageSize, len(piece))
			s.sums = append(s.sums, checksum.Plain(piece[:k]))
			piece = piece[k:]
		}
	}
	return s, crc, nil
}

// Private returns a part that begins at off of f and lies in memory of its own, verified.
func (f *File) Private(off int64, data []byte) *Summed {
	return &Summed{f: f, off: off, data: data}
}

// Data is the whole part. What of it is mapped must be verified when it is read.
func (s *Summed) Data() []byte { return s.data }

// Verified is the set of the part's pages that were verified of late; none of memory of
// its own.
func (s *Summed) Verified() PageBits { return s.verified }

// Bytes returns n bytes at off of the part once they are verified.
func (s *Summed) Bytes(off int64, n int) ([]byte, error) {
	if err := s.check(off, n); err != nil {
		return nil, err
	}
	for p := off / pageSize; s.sums != nil && p*pageSize < off+int64(n); p++ {
		if s.verified.Test(int(p)) {
			continue
		}
		page := s.data[p*pageSize : min((p+1)*pageSize, int64(len(s.data)))]
		// A page that can't be read is an error here. In the mapping it would be a fault.
		if err := s.f.Prime(s.off+p*pageSize, len(page)); err != nil {
			return nil, err
		}
		if err := s.verify(p, page); err != nil {
			return nil, err
		}
		s.verified.Set(int(p))
	}
	return s.data[off : off+int64(n)], nil
}

// check reports a range that isn't within the part.
func (s *Summed) check(off int64, n int) error {
	if off < 0 || n < 0 || off > int64(len(s.data)) || int64(n) > int64(len(s.data))-off {
		return errs.NewCorruption(s.f.name, s.off, "%d bytes at %d are needed of %d", n, off, len(s.data))
	}
	return nil
}

// verify compares bytes of page p with its checksum.
func (s *Summed) verify(p int64, page []byte) error {
	if got := checksum.Plain(page); got != s.sums[p] {
		return errs.NewCorruption(s.f.name, s.off+p*pageSize, "page: checksum %#x, want %#x", got, s.sums[p])
	}
	return nil
}

// Copier returns a reader of the same part for those who write elsewhere what they
// find: it reads pages by pread into memory of its own, and verifies them there.
func (s *Summed) Copier() *SummedCopy { return &SummedCopy{Summed: s} }

// SummedCopy has the pages that were asked for last. It is used by one goroutine.
type SummedCopy struct {
	*Summed
	first int64 // page that buf begins with
	buf   []byte
}

// Bytes returns n bytes at off of the part, valid until the next call.
func (c *SummedCopy) Bytes(off int64, n int) ([]byte, error) {
	if err := c.check(off, n); err != nil {
		return nil, err
	}
	if c.sums == nil {
		return c.data[off : off+int64(n)], nil
	}
	if at := off - c.first*pageSize; at >= 0 && at+int64(n) <= int64(len(c.buf)) {
		return c.buf[at : at+int64(n)], nil
	}
	c.first = off / pageSize
	end := min((off+int64(n)+pageSize-1)/pageSize*pageSize, int64(len(c.data)))
	c.buf = append(c.buf[:0], make([]byte, end-c.first*pageSize)...)
	err := c.f.ReadFull(c.buf, c.off+c.first*pageSize)
	for p, rest := c.first, c.buf; err == nil && len(rest) > 0; p++ {
		k := min(pageSize, len(rest))
		err = c.verify(p, rest[:k])
		rest = rest[k:]
	}
	if err != nil {
		// Bytes that were not verified must not be found by the next call.
		c.buf = c.buf[:0]
		return nil, err
	}
	return c.buf[off-c.first*pageSize:][:n], nil
}

// Free gives the memory of what is known back.
func (s *Summed) Free() { s.verified.Free() }
