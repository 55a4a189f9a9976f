package repository

import (
	"errors"
	"hash/maphash"
	"io"
	"path/filepath"
	"sync"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// sameFS is a file system that returns an error if a byte is not the same each time that it
// is read. A file is read three times: for its hash, to verify it, and to store it. So the
// bytes that are stored are those that were verified.
type sameFS struct {
	vfs.FS
	mu    sync.Mutex
	files map[string]*sameFile // by path
}

// sameBytes is the length of a block, of which a hash is kept.
const sameBytes = 64 << 10

// sameFile has the hashes of those blocks of a file that were read.
type sameFile struct {
	mu     sync.Mutex
	blocks map[int64]uint64
}

// sameSeed is random, so that no file can be made to have equal hashes.
var sameSeed = maphash.MakeSeed()

// Open opens a file.
func (s *sameFS) Open(name string) (vfs.File, error) {
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.files[name]
	if known == nil {
		known = &sameFile{blocks: map[int64]uint64{}}
		s.files[name] = known
	}
	return &sameReader{File: f, known: known, at: -1}, nil
}

// forget drops the hashes of a file that is not read any more.
func (s *sameFS) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, name)
}

// sameReader is an open file. It keeps the block that was read last.
type sameReader struct {
	vfs.File
	known *sameFile

	mu    sync.Mutex
	block []byte
	at    int64 // number of the block; -1 = none
}

// ReadAt reads whole blocks, and returns *brock.CorruptionError if one has changed.
func (r *sameReader) ReadAt(p []byte, off int64) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n < len(p) {
		at := off + int64(n)
		if err := r.load(at / sameBytes); err != nil {
			return n, err
		}
		from := int(at % sameBytes)
		if from >= len(r.block) {
			return n, io.EOF
		}
		n += copy(p[n:], r.block[from:])
	}
	return n, nil
}

// load reads a block; the last one of a file may be short.
func (r *sameReader) load(at int64) error {
	if r.at == at {
		return nil
	}
	if r.block == nil {
		r.block = make([]byte, sameBytes)
	}
	r.at = -1
	n, err := r.File.ReadAt(r.block[:sameBytes], at*sameBytes)
	if err != nil && err != io.EOF {
		return err
	}
	r.block = r.block[:n]
	sum := maphash.Bytes(sameSeed, r.block)
	r.known.mu.Lock()
	before, seen := r.known.blocks[at]
	r.known.blocks[at] = sum
	r.known.mu.Unlock()
	if seen && before != sum {
		return &brock.CorruptionError{File: filepath.Base(r.Name()), Offset: at * sameBytes, Reason: "was read twice, and was not the same"}
	}
	r.at = at
	return nil
}

// Map refuses: reads of mapped memory would not be compared.
func (r *sameReader) Map(int64) (vfs.Mapping, error) { return nil, errors.ErrUnsupported }
