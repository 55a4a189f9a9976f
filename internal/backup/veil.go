package backup

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/brockdb/brock/vfs"
)

// veil is a file system for the temporary files of a plain backup of an encrypted store. Nobody
// can read them on the disk, also after a crash: each is encrypted by AES-CTR under a random key
// that only memory has. Their contents have checksums of their own. A file begins with a page
// that names the store, so that the next Open removes files that a crash has left. Only files
// that the veil has created can be opened.
type veil struct {
	vfs.FS
	uuid [16]byte // of the store

	mu   sync.Mutex
	keys map[string]cipher.Block // by path
}

// veilHead is the length of the first page of a file.
const veilHead = 4096

func newVeil(fsys vfs.FS, uuid [16]byte) *veil {
	return &veil{FS: fsys, uuid: uuid, keys: make(map[string]cipher.Block)}
}

// Create makes a file. Each of its bytes can be written once: CTR must not encrypt two texts
// for one place.
func (v *veil) Create(name string) (vfs.File, error) {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	f, err := v.FS.Create(name)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(v.uuid[:], 0); err != nil {
		return nil, errors.Join(err, f.Close(), v.Remove(name))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keys[name] = block
	return &veiled{File: f, key: block}, nil
}

// Open opens a file that was written.
func (v *veil) Open(name string) (vfs.File, error) {
	v.mu.Lock()
	block := v.keys[name]
	v.mu.Unlock()
	if block == nil {
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	f, err := v.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &veiled{File: f, key: block, sealed: true}, nil
}

// OpenReadWrite is not supported.
func (v *veil) OpenReadWrite(string) (vfs.File, error) { return nil, errors.ErrUnsupported }

// veiled is an open file of a veil. It is written by one goroutine, and can't be mapped.
type veiled struct {
	vfs.File
	key    cipher.Block
	buf    []byte // what is being written
	end    int64  // offset behind the last byte that was written, or may have been
	sealed bool   // it was opened to be read
}

// errTwice is the error of a second write at one place.
var errTwice = errors.New("a temporary file of a backup can't be written twice at one place")

// WriteAt writes behind all that was written before.
func (f *veiled) WriteAt(p []byte, off int64) (n int, err error) {
	if f.sealed || off < f.end {
		return 0, errTwice
	}
	f.end = off + int64(len(p))
	for n < len(p) {
		f.buf = resize(f.buf, min(len(p)-n, pieceBytes))
		b := f.buf
		f.turn(b, p[n:n+len(b)], off+int64(n))
		wrote, err := f.File.WriteAt(b, veilHead+off+int64(n))
		n += wrote
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// WriteVec writes behind all that was written before.
func (f *veiled) WriteVec(bufs [][]byte, off int64) (n int, err error) {
	for _, b := range bufs {
		wrote, err := f.WriteAt(b, off+int64(n))
		n += wrote
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// ReadAt reads what was written.
func (f *veiled) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, veilHead+off)
	f.turn(p[:n], p[:n], off)
	return n, err
}

// Size returns the size without the first page.
func (f *veiled) Size() (int64, error) {
	n, err := f.File.Size()
	return max(n-veilHead, 0), err
}

// Truncate cuts the file.
func (f *veiled) Truncate(size int64) error { return f.File.Truncate(veilHead + size) }

// Preallocate reserves nothing.
func (f *veiled) Preallocate(int64, int64) error { return errors.ErrUnsupported }

// StartWriteback asks for a part of the file to be written, as vfs.File does.
func (f *veiled) StartWriteback(off, n int64) { f.File.StartWriteback(veilHead+off, n) }

// StartRead asks for a part of the file to be read, as vfs.File does.
func (f *veiled) StartRead(off, n int64) { f.File.StartRead(veilHead+off, n) }

// Map is not supported: the bytes of the file are encrypted.
func (f *veiled) Map(int64) (vfs.Mapping, error) { return nil, errors.ErrUnsupported }

// turn encrypts or decrypts the bytes from, which lie at off, into to, which may be the same
// memory.
func (f *veiled) turn(to, from []byte, off int64) {
	var counter [aes.BlockSize]byte
	binary.BigEndian.PutUint64(counter[8:], uint64(off)/aes.BlockSize)
	stream := cipher.NewCTR(f.key, counter[:])
	var skipped [aes.BlockSize]byte
	before := skipped[:off%aes.BlockSize]
	stream.XORKeyStream(before, before)
	stream.XORKeyStream(to, from)
}
