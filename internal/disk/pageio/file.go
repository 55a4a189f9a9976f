// Package pageio reads the bytes of one file: through a mapping if there is one, else by
// pread. Both ways return the same bytes and the same errors.
//
// Two things are tracked of a mapped file. Its pages are known or not to be in memory: touching one
// that isn't is a page fault, which stops a processor of the Go scheduler until the disk has
// answered; so such pages are read by pread first. Its parts are verified or not: a checksum is
// compared once in an epoch, after which the page may have left memory and come back with other
// bytes. docs/adr, 14, 36 and 45, has the reasons.
//
// MarkErrors is what all files of a store are reached through: it says of each failed call what it
// has left behind.
package pageio

import (
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// Options says how a file is read. The zero value is good.
type Options struct {
	Size  int64 // how many bytes are read; 0 = the length that the file has now
	Grows bool  // the file may be shorter than Size: bytes become readable as it grows
	NoMap bool  // read by pread only
}

// File reads the first Size bytes of a file. Any number of goroutines may use it. After Close
// call no method, and don't touch memory of the mapping.
type File struct {
	files   *Files // of the store: descriptors, and what is known of pages
	path    string
	name    string
	size    int64       // in bytes; nothing behind it is read
	mapping vfs.Mapping // nil: the file is not mapped
	data    []byte      // mapped bytes; nil if the file is not mapped

	// pages known to be in memory, by the epoch in which they were used last
	known [generations]Bits
	cold  Bits // megabytes of which a page was lately not in memory

	descriptor atomic.Pointer[descriptor] // the last one; Files may have closed it
	// held while the file is opened again, so that only one goroutine does it
	opening sync.Mutex
}

// Verified returns an empty set of numbers in [0, n), for the parts of the file that were
// verified. Files.Bits empties it when the epoch ends.
func (f *File) Verified(n int64) Bits {
	if f.files.Bits.always {
		return Bits{}
	}
	return f.files.Bits.newBits(n, eachEpoch)
}

// VerifiedPages is Verified for n pages of the file.
func (f *File) VerifiedPages(n int64) PageBits { return f.files.Bits.verifiedPages(n) }

// Name is the base name of the file.
func (f *File) Name() string { return f.name }

// Size is the size that Open was given.
func (f *File) Size() int64 { return f.size }

// Held returns the file that is open. Where Files has no limit it stays open until Close, and can
// be read after its name was removed.
func (f *File) Held() vfs.File { return f.descriptor.Load().File }

// Mapped returns the mapping of the first Size bytes, or nil. Touch it only under Guard, and
// never beyond the end of what was written.
func (f *File) Mapped() []byte { return f.data }

// ReadFull reads len(p) bytes at off by pread. It returns an *errs.Corruption if the
// range ends beyond the file, or the file is gone when it must be opened again.
func (f *File) ReadFull(p []byte, off int64) error {
	if err := f.checkRange(off, int64(len(p))); err != nil {
		return err
	}
	d, err := f.openForRead()
	if err != nil {
		return err
	}
	defer f.files.releaseDescriptor(d)
	return ReadFull(d, p, off)
}

// ReadLeft fills p with what can be read at off. Pages that can't be read become zeros, which then
// fail their checksum.
func (f *File) ReadLeft(p []byte, off int64) {
	if f.ReadFull(p, off) == nil {
		return
	}
	// One bad sector fails the whole read. Page by page, only its own page is lost.
	for len(p) > 0 {
		n := min(len(p), PageSize)
		if f.ReadFull(p[:n], off) != nil {
			clear(p[:n])
		}
		p, off = p[n:], off+int64(n)
	}
}

// ReadFull reads len(p) bytes of a file at off. It returns an *errs.Corruption if the file ends
// before.
func ReadFull(f vfs.File, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errs.NewCorruption(filepath.Base(f.Name()), off, "file ends after %d of %d bytes", n, len(p))
	}
	return err
}

// startRead asks the system to begin to read n bytes at off, which are in the file, and does not
// wait. It is only a hint: without an open descriptor, or on an error, it does nothing.
func (f *File) startRead(off, n int64) {
	d, err := f.openForRead()
	if err != nil {
		return
	}
	defer f.files.releaseDescriptor(d)
	d.StartRead(off, n)
}

// ReadOrPrime makes p the bytes at off: by a read or, if it is these bytes in the mapping, by
// having them read into memory, so that to touch them does not block in a page fault.
func (f *File) ReadOrPrime(p []byte, off int64) error {
	if off >= 0 && off < int64(len(f.data)) && len(p) > 0 && &p[0] == &f.data[off] {
		return f.Prime(off, len(p))
	}
	return f.ReadFull(p, off)
}

// scratchSize is the length in bytes of the memory to which pages are read only to have them in
// memory.
const scratchSize = 64 << 10

type scratch [scratchSize]byte

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// Known reports whether n bytes at off of a mapping are known to be in memory. It asks the
// system about pages of which nothing is known, if that is likely to help. If it returns
// false, read the bytes by ReadCopy: their pages are noted as read already. Don't touch
// the mapping, because a page fault would stop a whole processor of the Go scheduler for
// the time of a disk access.
func (f *File) Known(off int64, n int) bool {
	if f.checkRange(off, int64(n)) != nil || f.data == nil {
		return false
	}
	first, last := off/PageSize, (off+int64(n)-1)/PageSize
	for first = f.firstAbsent(first, last); first <= last; first = f.firstAbsent(first, last) {
		// Go megabyte by megabyte: the system is asked about one at a time.
		end := min(last, first|(probePages-1))
		if !f.worthAsking(first) {
			f.files.Bits.countMissed(end - first + 1)
			return false
		}
		// One missing page is enough: the caller then reads all of the range.
		if first = f.askSystem(first, end); first <= end {
			return false
		}
	}
	return true
}

// worthAsking reports whether to ask the system about a page of which nothing is known
// costs less than to read it as if it were on the disk. In a megabyte that was not in
// memory it does if pages are used in order, or if the answer tells how long pages stay in
// memory: see BitMemory.
func (f *File) worthAsking(page int64) bool {
	if !f.cold.Test(page / probePages) {
		return true
	}
	g := f.files.Bits.generation()
	for epochs := believed; epochs < generations; epochs++ {
		if f.known[generationBefore(g, epochs)].Test(page) {
			return true
		}
	}
	return page%probePages != 0 && f.known[g].Test(page-1)
}

// Prime makes sure that n bytes at off of the mapping are in memory when they are touched: it
// reads those that are not known to be there by pread (see Known). Without a mapping it does
// nothing. It also does nothing if the file can't be opened again: the mapping still works.
func (f *File) Prime(off int64, n int) error {
	if err := f.checkRange(off, int64(n)); err != nil || f.data == nil || n == 0 {
		return err
	}
	first, last := off/PageSize, (off+int64(n)-1)/PageSize
	for first = f.firstAbsent(first, last); first <= last; first = f.firstAbsent(first, last) {
		if err := f.primePages(first, min(last, first|(probePages-1)), off, off+int64(n)); err != nil {
			return err
		}
	}
	return nil
}

// primePages is Prime of [off, end), which lies on pages first to last of one megabyte.
func (f *File) primePages(first, last, off, end int64) error {
	// Asking costs less than one read.
	if first = f.askSystem(first, last); first > last {
		return nil
	}
	from, to := max(off, first*PageSize), min(end, (last+1)*PageSize)
	if err := f.readAndDrop(from, to-from); err != nil {
		return err
	}
	f.noteResident(first, last)
	return nil
}

// askSystem asks the system which of the pages first to last, of one megabyte, are in memory. It
// returns the first that may not be, or last+1, and counts those that are missing.
func (f *File) askSystem(first, last int64) int64 {
	cold, asked, end := f.cold.Test(first/probePages), last-first+1, last
	if cold {
		end = f.probeEnd(first, last)
	}
	ahead := f.countUnnoted(last+1, end)
	told := f.askResidency(first, end)
	first = f.firstAbsent(first, last)
	switch {
	// Without an answer nothing is known of how long pages stay.
	case !told:
	case cold:
		// What was not there when its megabyte was asked for first, and is now, was read
		// meanwhile: the system reads ahead of our reads, and so do we.
		f.files.Bits.countMissed(asked + max(ahead-f.countUnnoted(last+1, end), 0))
	default:
		// The caller reads these pages now, and they push others out of memory.
		f.files.Bits.countMissed(last - first + 1)
	}
	return first
}

// Resident reports whether the page of off is known to be in memory.
func (f *File) Resident(off int64) bool { return f.isKnown(off / PageSize) }

// isKnown reports whether a page is known to be in memory. It also notes that the page is
// used now, because the system keeps used pages in memory.
func (f *File) isKnown(page int64) bool {
	g := f.files.Bits.generation()
	if f.known[g].Test(page) {
		return true
	}
	if !f.known[generationBefore(g, 1)].Test(page) {
		return false
	}
	// Used in this epoch, so it is believed to be there until the next one ends.
	f.known[g].Set(page)
	if rand.Uint32()%useShare == 0 {
		f.tellUsed(page)
	}
	return true
}

// useShare is how many pages are used again in another epoch for each of which the
// system is told.
const useShare = 4

// tellUsed tells the system that a page is used, by a read of one byte. Without that the system
// does not know: since Linux 6.3 it ignores reads through a mapping with MADV_RANDOM.
func (f *File) tellUsed(page int64) {
	d := f.descriptor.Load()
	if d == nil || !d.admitReader() {
		return
	}
	defer f.files.releaseDescriptor(d)
	p := answers.Get().(*answer)
	_, _ = d.ReadAt(p[:1], page*PageSize) // an error is met again by the reader that needs the page
	answers.Put(p)
}

// noteResident notes that pages are in memory.
func (f *File) noteResident(first, last int64) {
	for g := f.files.Bits.generation(); first <= last; first++ {
		f.known[g].Set(first)
	}
}

// countUnnoted counts the pages that are not noted to be in memory in this epoch.
func (f *File) countUnnoted(first, last int64) (n int64) {
	for g := f.files.Bits.generation(); first <= last; first++ {
		if !f.known[g].Test(first) {
			n++
		}
	}
	return n
}

// firstAbsent is the first page from first to last that is not known to be in memory, or
// last+1.
func (f *File) firstAbsent(first, last int64) int64 {
	for first <= last && f.isKnown(first) {
		first++
	}
	return first
}

// readAndDrop reads n bytes at off by pread, and forgets them.
func (f *File) readAndDrop(off, n int64) error {
	d, err := f.openForRead()
	if err != nil {
		// The mapping still works: the page fault does what this read would have done.
		return nil
	}
	defer f.files.releaseDescriptor(d)
	f.files.coldReaders.beginRead(d, off, n)
	defer f.files.coldReaders.endRead()
	p := scratchPool.Get().(*scratch)
	defer scratchPool.Put(p)
	for n > 0 {
		m := min(n, scratchSize)
		if err := ReadFull(d, p[:m], off); err != nil {
			return err
		}
		off, n = off+m, n-m
	}
	return nil
}

const (
	// PageSize is what a checksum or tag covers, in bytes, and what is in memory or not.
	PageSize = 4096

	pageShift = 12
	probeSize = 1 << 20 // what one question about resident pages covers

	probePages = probeSize / PageSize
	inOrder    = 16 // pages that the system is asked about at a time while they are used in order
)

// answer is memory for what the system says. Cold reads must not make garbage: the Go heap
// would grow, and leave less memory for the page cache.
type answer [probePages]byte

var answers = sync.Pool{New: func() any { return new(answer) }}

// askResidency notes which of the pages around first, and up to last, are in memory now. It
// reports whether the system has told. One question covers a megabyte, and costs far
// less than the reads that it saves. If a page was not in memory, most others of its
// megabyte will have to be read as well: from then on only the range itself is asked for.
func (f *File) askResidency(first, last int64) (told bool) {
	m, ok := f.mapping.(vfs.Resident)
	if !ok {
		return false
	}
	begin, end := first&^(probePages-1), first|(probePages-1)
	// See above: most of the others would be missing, and their answer is worth nothing.
	if f.cold.Test(first / probePages) {
		begin, end = first, last
	}
	buf := answers.Get().(*answer)
	defer answers.Put(buf)
	found := buf[:min(end, (f.size-1)/PageSize)-begin+1]
	if m.Resident(begin*PageSize, found) != nil {
		return false
	}
	g := f.files.Bits.generation()
	for i, p := range found {
		if p&1 != 0 {
			f.known[g].Set(begin + int64(i))
		}
	}
	in := found[first-begin]&1 != 0
	if !in {
		f.cold.Set(first / probePages)
	}
	for epochs := believed; epochs < generations; epochs++ {
		if f.known[generationBefore(g, epochs)].Test(first) {
			f.files.Bits.countUsedAgain(epochs, in)
			break
		}
	}
	return true
}

// probeEnd returns the last page to ask the system about, if pages first to last of a megabyte
// that was not in memory are used. If the page before them is known, pages are used in order,
// and the system is already reading those behind: to ask about them too costs little more.
func (f *File) probeEnd(first, last int64) int64 {
	if g := f.files.Bits.generation(); first%probePages == 0 || !f.known[g].Test(first-1) {
		return last
	}
	return max(last, min(first+inOrder-1, first|(probePages-1)))
}

// Close unmaps and closes the file.
func (f *File) Close() error {
	var err error
	if f.mapping != nil {
		for i := range f.known {
			f.known[i].Free()
		}
		f.cold.Free()
		// A late use fails on nil, and not on memory that now may be another mapping.
		f.data = nil
		err = f.mapping.Close()
		mapped.Add(-1)
		f.files.mapped.Add(-1)
	}
	return errors.Join(err, f.files.closeDescriptor(f.descriptor.Load()))
}

// checkRange reports a range that isn't within the file.
func (f *File) checkRange(off, n int64) error {
	if off < 0 || n < 0 || off > f.size || n > f.size-off {
		return errs.NewCorruption(f.name, off, "%d bytes don't fit into a file of %d", n, f.size)
	}
	return nil
}
