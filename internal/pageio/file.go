// Package pageio reads the bytes of one file: through a mapping where there is
// one, else by pread, and never differently.
package pageio

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/vfs"
)

// Options says how a file is read. The zero value is good.
type Options struct {
	Size  int64 // how many bytes are read; 0 = the length that the file has now
	Grows bool  // the file may be shorter than Size: bytes become readable as it grows
	NoMap bool  // read by pread only
}

// File reads the first Size bytes of a file. Its methods may run together. After
// Close call none of them, and don't touch memory of the mapping.
type File struct {
	files   *Files
	path    string
	name    string
	size    int64
	mapping vfs.Mapping
	data    []byte // of mapping; nil without
	cold    Bits   // pieces of probeSize in which Probe has met a page that is not in memory

	descriptor atomic.Pointer[descriptor] // perhaps closed by now
	opening    sync.Mutex                 // held while it is opened again
}

// NewBits returns an empty set of the numbers in [0, n), in the memory of
// Files.Bits.
func (f *File) NewBits(n int64) Bits { return f.files.Bits.NewBits(n) }

// Name is the base name of the file.
func (f *File) Name() string { return f.name }

// Size is the size that Open was given.
func (f *File) Size() int64 { return f.size }

// Mapped is the mapping of the first Size bytes, or nil. Don't touch it beyond the
// written end, and touch it only under Guard.
func (f *File) Mapped() []byte { return f.data }

// ReadFull reads len(p) bytes at off by pread. It returns an *errs.Corruption if the
// range ends beyond the file, or the file is gone when it must be opened again.
func (f *File) ReadFull(p []byte, off int64) error {
	if err := f.check(off, int64(len(p))); err != nil {
		return err
	}
	d, err := f.enter()
	if err != nil {
		return err
	}
	defer f.files.leave(d)
	return f.readFrom(d, p, off)
}

func (f *File) readFrom(d *descriptor, p []byte, off int64) error {
	n, err := d.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errs.NewCorruption(f.name, off, "file ends after %d of %d bytes", n, len(p))
	}
	return err
}

// Bytes returns the n bytes at off, which must not be changed: from the mapping,
// valid until Close, or from fresh memory. It returns an *errs.Corruption, before
// anything is allocated, if the range isn't within Size.
func (f *File) Bytes(off int64, n int) ([]byte, error) {
	if err := f.check(off, int64(n)); err != nil {
		return nil, err
	}
	if f.data != nil {
		return f.data[off : off+int64(n) : off+int64(n)], nil
	}
	p := make([]byte, n)
	if err := f.ReadFull(p, off); err != nil {
		return nil, err
	}
	return p, nil
}

const scratchSize = 64 << 10

type scratch [scratchSize]byte

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// Prime reads n bytes at off by pread and forgets them, so that they are in
// memory when the mapping is touched: a page fault would stop a whole processor
// of the Go scheduler for the length of a disk access, a system call doesn't.
// Without a mapping it does nothing. It also does nothing if the file can't be
// opened again, as the mapping still has all of it.
func (f *File) Prime(off int64, n int) error {
	if err := f.check(off, int64(n)); err != nil || f.data == nil {
		return err
	}
	d, err := f.enter()
	if err != nil {
		return nil
	}
	defer f.files.leave(d)
	p := scratchPool.Get().(*scratch)
	defer scratchPool.Put(p)
	for n > 0 {
		m := min(n, scratchSize)
		if err := f.readFrom(d, p[:m], off); err != nil {
			return err
		}
		off, n = off+int64(m), n-m
	}
	return nil
}

const (
	pageSize  = 4096
	probeSize = 1 << 20 // what one question about resident pages covers
)

// Probe puts into resident the numbers of those pages around off that are in
// memory now. One call covers a megabyte, and costs far less than the Primes it
// saves. If the page at off is not in memory, that megabyte is not asked for again:
// most of its other pages will have to be read as well. Where the system doesn't
// tell, Probe adds nothing.
func (f *File) Probe(off int64, resident *Bits) {
	m, ok := f.mapping.(vfs.Resident)
	if !ok || f.check(off, 0) != nil || f.cold.Test(off/probeSize) {
		return
	}
	first := off &^ (probeSize - 1)
	var buf [probeSize / pageSize]byte
	pages := buf[:min(probeSize, f.size-first+pageSize-1)/pageSize]
	if m.Resident(first, pages) != nil {
		return
	}
	for i, p := range pages {
		if p&1 != 0 {
			resident.Set(first/pageSize + int64(i))
		}
	}
	if i := (off - first) / pageSize; i < int64(len(pages)) && pages[i]&1 == 0 {
		f.cold.Set(off / probeSize)
	}
}

// Close unmaps and closes the file.
func (f *File) Close() error {
	var err error
	if f.mapping != nil {
		f.data = nil
		err = f.mapping.Close()
		mapped.Add(-1)
		f.files.mapped.Add(-1)
	}
	return errors.Join(err, f.files.close(f.descriptor.Load()))
}

// check reports a range that isn't within the file.
func (f *File) check(off, n int64) error {
	if off < 0 || n < 0 || off > f.size || n > f.size-off {
		return errs.NewCorruption(f.name, off, "%d bytes don't fit into a file of %d", n, f.size)
	}
	return nil
}
