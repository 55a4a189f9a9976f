package checkpoint

import (
	"errors"
	"hash/maphash"
	"io"
	"path/filepath"
	"sync"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/vfs"
)

// Steady is a file system that returns *errs.Corruption if a part of a file has other bytes than
// when it was read before. A backup reads a file more than once, to verify it and to send or
// store it: so the bytes that are sent are those that were verified. The last 8 MB that were
// read stay in memory, so that most bytes are read from the disk once. Its methods may run
// together.
type Steady struct {
	vfs.FS

	seed maphash.Seed // random, so that no file can be made to have equal hashes

	mu    sync.Mutex          // held while a part is read, too
	files map[string]*witness // by path
	parts [recent]part        // those read last, used in turn
	next  int                 // index of the part to be replaced next
}

const (
	partBytes = 64 << 10
	recent    = 128 // parts in memory, 8 MB in all
)

// witness has the hashes of the parts of one file that were read so far.
type witness struct {
	size int64
	sums []uint64 // of each part, with bit 0 set; 0: it was not read yet
}

// part is partBytes of a file, or less at its end. It begins at a multiple of partBytes.
type part struct {
	of     *witness // nil: there is none
	number int64
	bytes  []byte
}

// NewSteady returns a Steady that has read nothing yet.
func NewSteady(fsys vfs.FS) *Steady {
	return &Steady{FS: fsys, seed: maphash.MakeSeed(), files: make(map[string]*witness)}
}

// Open opens a file to be read. Its size is what it was at the first Open.
func (s *Steady) Open(name string) (vfs.File, error) {
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.files[name]
	if w == nil {
		size, err := f.Size()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		w = &witness{size: size, sums: make([]uint64, (size+partBytes-1)/partBytes)}
		s.files[name] = w
	}
	return &steadyFile{File: f, steady: s, witness: w}, nil
}

// Forget drops the hashes and parts of a file. A File of it that is still open goes on to compare
// with what was read before.
func (s *Steady) Forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.parts {
		if p := &s.parts[i]; p.of == s.files[name] {
			p.of = nil
		}
	}
	delete(s.files, name)
}

// steadyFile is an open file. It can't be mapped.
type steadyFile struct {
	vfs.File
	steady  *Steady
	witness *witness
}

// Size is that of the first Open.
func (f *steadyFile) Size() (int64, error) { return f.witness.size, nil }

// Map is not supported: bytes in a mapping can change after they were compared.
func (f *steadyFile) Map(int64) (vfs.Mapping, error) { return nil, errors.ErrUnsupported }

// ReadAt copies from parts, each of which was compared with what was read before.
func (f *steadyFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.steady.mu.Lock()
	defer f.steady.mu.Unlock()
	for n < len(p) {
		at := off + int64(n)
		if at >= f.witness.size {
			return n, io.EOF
		}
		b, err := f.partLocked(at / partBytes)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], b[at%partBytes:])
	}
	return n, nil
}

// partLocked returns a part of the file, valid until the next call.
func (f *steadyFile) partLocked(number int64) ([]byte, error) {
	s, w := f.steady, f.witness
	for i := range s.parts {
		if p := &s.parts[i]; p.of == w && p.number == number {
			return p.bytes, nil
		}
	}
	p := &s.parts[s.next]
	s.next = (s.next + 1) % recent
	p.of = nil // until it is read
	length := int(min(partBytes, w.size-number*partBytes))
	if cap(p.bytes) < length {
		p.bytes = make([]byte, length)
	}
	p.bytes = p.bytes[:length]
	if err := pageio.ReadFull(f.File, p.bytes, number*partBytes); err != nil {
		return nil, err
	}
	// Bit 0 tells a hash from a part that was not read yet.
	sum := maphash.Bytes(s.seed, p.bytes) | 1
	if w.sums[number] == 0 {
		w.sums[number] = sum
	}
	if w.sums[number] != sum {
		return nil, errs.NewCorruption(filepath.Base(f.Name()), number*partBytes, "other bytes than a moment ago")
	}
	p.of, p.number = w, number
	return p.bytes, nil
}
