package backup

import (
	"errors"
	"io"
	"path/filepath"
	"sync"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/vfs"
)

// steady is a file system that returns an error if a part of a file does not read the same
// as before. A file is read twice, once to verify it and once to send it. So the bytes that
// are sent are those that were verified. The last parts that were read are in memory, so
// that most are read from the disk once.
type steady struct {
	vfs.FS

	mu    sync.Mutex // held while a part is read, too
	files map[string]*witness
	parts [recent]part // used in turn
	next  int
}

// recent is how many parts are in memory, 8 MB in all.
const recent = 32

// witness has the checksums of the parts of one file that were read.
type witness struct {
	name string
	size int64
	sums []uint64 // of each part: 1 << 32 + its checksum; 0: it was not read yet
}

// part is up to pieceBytes of a file, from a multiple of it on.
type part struct {
	of     *witness // nil: there is none
	number int64
	bytes  []byte
}

// Open opens a file to be read. Its size is what it was at the first Open.
func (s *steady) Open(name string) (vfs.File, error) {
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
		w = &witness{name: filepath.Base(name), size: size, sums: make([]uint64, (size+pieceBytes-1)/pieceBytes)}
		s.files[name] = w
	}
	return &steadyFile{File: f, steady: s, witness: w}, nil
}

// forget drops what is known of all files. None may be open.
func (s *steady) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.files)
	for i := range s.parts {
		s.parts[i].of = nil
	}
}

// steadyFile is an open file. It can't be mapped.
type steadyFile struct {
	vfs.File
	steady  *steady
	witness *witness
}

func (f *steadyFile) Size() (int64, error) { return f.witness.size, nil }

func (f *steadyFile) Map(int64) (vfs.Mapping, error) { return nil, errors.ErrUnsupported }

func (f *steadyFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.steady.mu.Lock()
	defer f.steady.mu.Unlock()
	for n < len(p) {
		at := off + int64(n)
		if at >= f.witness.size {
			return n, io.EOF
		}
		b, err := f.partLocked(at / pieceBytes)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], b[at%pieceBytes:])
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
	length := int(min(pieceBytes, w.size-number*pieceBytes))
	if cap(p.bytes) < length {
		p.bytes = make([]byte, length)
	}
	p.bytes = p.bytes[:length]
	if n, err := f.File.ReadAt(p.bytes, number*pieceBytes); n < length {
		if err == nil || errors.Is(err, io.EOF) {
			err = errs.NewCorruption(w.name, number*pieceBytes, "file ends after %d of %d bytes", n, length)
		}
		return nil, err
	}
	sum := 1<<32 + uint64(checksum.Plain(p.bytes))
	if w.sums[number] == 0 {
		w.sums[number] = sum
	}
	if w.sums[number] != sum {
		return nil, errs.NewCorruption(w.name, number*pieceBytes, "other bytes than a moment ago")
	}
	p.of, p.number = w, number
	return p.bytes, nil
}
