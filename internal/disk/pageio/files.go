package pageio

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// Files opens the files of one store for reading and keeps a limited number of
// descriptors: a file whose descriptor was closed is opened again when it is needed.
// Mappings outlive their descriptors. Any number of goroutines may use it.
//
// A file must keep its name, and the name its file, until File.Close. If it is
// replaced none the less, checksums find it: they are bound to the store, the file
// and the place.
type Files struct {
	Bits *BitMemory // what is known of the files' pages; it can be replaced before a file is opened

	coldReaders readers

	fs       vfs.FS
	limit    int   // most open descriptors
	mappings int64 // most mappings of the process

	mapped  atomic.Int64 // files that are mapped
	waiting atomic.Int32 // goroutines that may wait for a descriptor

	mu      sync.Mutex    // guards:
	room    sync.Cond     // a descriptor has become idle, or was closed
	ring    []*descriptor // the open descriptors, in no order
	hand    int           // where the search for an idle descriptor goes on
	opening int           // descriptors that are being opened
}

// MaxMappings (32,768) is how many files a process maps; others are read by pread.
// Linux allows 65,530 mappings, and the Go runtime, which ends the process when
// it gets none, needs some too.
const MaxMappings = 1 << 15

// mapped counts the mappings of this process.
var mapped atomic.Int64

// NewFiles returns a Files that keeps at most limit descriptors; 0 = any number.
func NewFiles(fs vfs.FS, limit int) *Files {
	if limit <= 0 {
		limit = math.MaxInt
	}
	s := &Files{Bits: NewBitMemory(0, false), fs: fs, limit: limit, mappings: MaxMappings}
	s.coldReaders.began = time.Now()
	s.room.L = &s.mu
	return s
}

// descriptor is an open file. Readers are admitted and released. It is closed only while no
// reader is in, and none is admitted afterwards.
type descriptor struct {
	vfs.File
	readers atomic.Int64 // readers within; far below zero: closed for good
	used    atomic.Bool  // since the hand came by last
	at      int          // its index in the ring
}

// closedForGood is so far below zero that no number of readers that come in vain brings it back.
const closedForGood = math.MinInt64 / 2

// admitReader lets a reader in; it returns false if the descriptor is closed for good.
func (d *descriptor) admitReader() bool {
	if d.readers.Add(1) <= 0 {
		return false // whatever the count is now, it stays far below zero
	}
	// Written only where that changes it: many readers share this cache line.
	if !d.used.Load() {
		d.used.Store(true)
	}
	return true
}

// closeToReaders closes the descriptor to readers, unless there are any.
func (d *descriptor) closeToReaders() bool { return d.readers.CompareAndSwap(0, closedForGood) }

// releaseDescriptor ends what admitReader, or open, began. Who waits for a descriptor looks again.
func (s *Files) releaseDescriptor(d *descriptor) {
	if d.readers.Add(-1) == 0 && s.waiting.Load() > 0 {
		s.mu.Lock()
		s.room.Broadcast()
		s.mu.Unlock()
	}
}

// openDescriptor opens a file; the caller has entered the descriptor.
func (s *Files) openDescriptor(path string) (*descriptor, error) {
	// Counted before the search: a reader that leaves after the search sees it, and
	// wakes this goroutine.
	s.waiting.Add(1)
	s.mu.Lock()
	for len(s.ring)+s.opening >= s.limit && !s.evictLocked() {
		s.room.Wait()
	}
	s.waiting.Add(-1)
	// Its place is taken before the lock is given up: the limit holds.
	s.opening++
	s.mu.Unlock()

	// Without the lock, as opening may take as long as a disk access.
	f, err := s.fs.Open(path)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening--
	if err != nil {
		// The place is free again.
		s.room.Broadcast()
		return nil, err
	}
	d := &descriptor{File: f, at: len(s.ring)}
	d.readers.Store(1)
	s.ring = append(s.ring, d)
	return d, nil
}

// evictLocked closes a descriptor that no reader is in and that was not used for
// long, found by the clock algorithm (Corbato, "A Paging Experiment with the Multics
// System", 1968): the hand takes the mark of used ones, and comes by again.
func (s *Files) evictLocked() bool {
	// Twice around: the first round may only take marks.
	for range 2 * len(s.ring) {
		s.hand++
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		d := s.ring[s.hand]
		if d.used.Swap(false) || !d.closeToReaders() {
			continue
		}
		s.forgetLocked(d)
		_ = d.Close() // it was only read
		return true
	}
	return false
}

// forgetLocked takes d out of the ring: the last descriptor gets its place.
func (s *Files) forgetLocked(d *descriptor) {
	last := s.ring[len(s.ring)-1]
	s.ring[d.at], last.at = last, d.at
	s.ring = s.ring[:len(s.ring)-1]
	s.room.Broadcast()
}

// closeDescriptor closes a descriptor that no reader is in, unless that was done already.
func (s *Files) closeDescriptor(d *descriptor) error {
	if d == nil || !d.closeToReaders() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(d)
	return d.Close()
}

// Mapped is how many files are mapped now.
func (s *Files) Mapped() int { return int(s.mapped.Load()) }

// Count is how many descriptors are open now.
func (s *Files) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ring) + s.opening
}

// Open opens the file at path, and maps it if it can. A mapping that fails, also for
// want of memory or address space, or because there are MaxMappings, is no error:
// the file is read by pread. It returns an *errs.Corruption if the file is shorter
// than o.Size.
func (s *Files) Open(path string, o Options) (*File, error) {
	f := &File{files: s, path: path, name: filepath.Base(path), size: o.Size}
	d, err := s.openDescriptor(path)
	if err != nil {
		return nil, err
	}
	f.descriptor.Store(d)
	err = f.findSize(d, o)
	if err == nil && !o.NoMap && f.size > 0 {
		f.mapFile(d)
	}
	// From here on d may be closed for another file. The mapping stays.
	s.releaseDescriptor(d)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// findSize finds the size of the file, or checks that it is at least o.Size.
func (f *File) findSize(d *descriptor, o Options) error {
	if o.Grows {
		return nil
	}
	length, err := d.Size()
	switch {
	case err != nil:
		return err
	case o.Size == 0:
		f.size = length
	case length < o.Size:
		return errs.NewCorruption(f.name, -1, "%d bytes long, want %d", length, o.Size)
	}
	return nil
}

// mapFile maps the file if it can.
func (f *File) mapFile(d *descriptor) {
	// Counted first, so that two goroutines can't both take the last one.
	if mapped.Add(1) > f.files.mappings {
		mapped.Add(-1)
		return
	}
	m, err := d.Map(f.size)
	if err != nil {
		mapped.Add(-1)
		return
	}
	f.files.mapped.Add(1)
	f.mapping, f.data = m, m.Data()
	for g := range f.known {
		f.known[g] = f.files.Bits.newBits(f.size/PageSize+1, g)
	}
	f.cold = f.files.Bits.newBits(f.size/probeSize+1, untilForgotten)
}

// openForRead returns the file's descriptor for one read, after which it is left.
func (f *File) openForRead() (*descriptor, error) {
	if d := f.descriptor.Load(); d != nil && d.admitReader() {
		return d, nil
	}
	// One goroutine opens the file again; the others use its descriptor.
	f.opening.Lock()
	defer f.opening.Unlock()
	if d := f.descriptor.Load(); d != nil && d.admitReader() {
		return d, nil
	}
	d, err := f.files.openDescriptor(f.path)
	// Nobody removes a file that is open, so somebody else has.
	if errors.Is(err, fs.ErrNotExist) {
		c := errs.NewCorruption(f.name, -1, "it was there when it was opened first, and no longer is")
		c.Err = err
		return nil, c
	}
	if err != nil {
		return nil, err
	}
	f.descriptor.Store(d)
	return d, nil
}
