// Package crypt encrypts the pieces of a store's files, each with a tag. Decision 57
// has the design, and the proof that no nonce is used twice under a key.
//
// A data key encrypts nothing itself. Each file has a key that is derived by HKDF-SHA256
// (RFC 5869) from a data key and 16 random bytes, its file key id, which are drawn once, when it is
// created. The ciphers are AES-256-GCM (NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439), both
// with keys of 32, nonces of 12 and tags of 16 bytes.
package crypt

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/sys/cpu"

	"github.com/brockdb/brock/internal/base/invariant"
)

const (
	KeySize = 32 // bytes of a data key
	TagSize = 16 // bytes of a tag
)

// ID names a data key; it is random.
type ID [16]byte

// Check tells one data key from all others: it is derived from the key, and tells nothing of it.
type Check [16]byte

// Tag proves that a unit is what was encrypted at its place.
type Tag [TagSize]byte

// ErrTag says that a tag doesn't fit: the bytes, their place, their unit or the key are not the
// same as at the time of encryption.
var ErrTag = errors.New("tag does not fit")

// Cipher is the number of a cipher in files.
type Cipher uint8

const (
	AES256GCM        Cipher = 1 // of the standard library
	ChaCha20Poly1305 Cipher = 2 // for processors without instructions for AES
)

// Valid reports whether c is a cipher that this release knows.
func (c Cipher) Valid() bool { return c == AES256GCM || c == ChaCha20Poly1305 }

// String is the name of c in standards.
func (c Cipher) String() string {
	switch c {
	case AES256GCM:
		return "AES-256-GCM"
	case ChaCha20Poly1305:
		return "ChaCha20-Poly1305"
	}
	return fmt.Sprintf("cipher %d", uint8(c))
}

// Preferred returns the cipher for a new data key. On a processor without instructions for AES,
// Go's AES is thirty times as slow, and how long it takes depends on the key, so other programs
// on the processor could learn something about the key.
func Preferred() Cipher {
	if cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ || cpu.ARM64.HasAES && cpu.ARM64.HasPMULL ||
		cpu.S390X.HasAES && cpu.S390X.HasAESGCM {
		return AES256GCM
	}
	return ChaCha20Poly1305
}

// newAEAD returns an error where the process may not use the cipher: Go refuses both
// under GODEBUG=fips140=only, as their nonces are not random.
func (c Cipher) newAEAD(key []byte) (cipher.AEAD, error) {
	if c == ChaCha20Poly1305 {
		return chacha20poly1305.New(key)
	}
	if c != AES256GCM {
		return nil, fmt.Errorf("%v is not known", c)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	// Not NewGCMWithRandomNonce: nonces are offsets, so they take no room, and bind a unit to its
	// place.
	return cipher.NewGCM(block)
}

// Unit is the kind of what a tag covers. The tag proves the kind, too, so that nobody can put
// one kind of unit in the place of another one.
type Unit byte

const (
	Header    Unit = 'h' // of a file
	Page      Unit = 'p' // of a run or forwarding table
	Trailer   Unit = 't' // of a chunk
	Directory Unit = 'd' // of a run
	Footer    Unit = 'f' // of a run
	Filter    Unit = 'w' // a page of it
	Record    Unit = 'r' // of a segment
	Piece     Unit = 'c' // of a large value
	Frame     Unit = 'g' // of a segment
	Block     Unit = 'b' // of a frame, behind the first one
	Edit      Unit = 'm' // a frame of the manifest
	Slot      Unit = 's' // of SUPER
	Layout    Unit = 'l' // of a backup stream
)

// File identifies a file of a store. The file's key depends on it.
type File struct {
	UUID   [16]byte // of the store
	Kind   byte     // of the file, as docs/format.md has them
	Number uint64
}

// FileKeyID says how the key of a file, of a frame of the manifest or of a slot of SUPER is
// derived. The header page of the file has it.
type FileKeyID struct {
	Key    ID       // of the data key
	Salt   [16]byte // random; drawn when the file was created
	Cipher Cipher
}

// IsZero reports whether id names no key, as for a plain file.
func (id FileKeyID) IsZero() bool { return id == FileKeyID{} }

// sealerOf returns the sealer of a key that is derived for the file key id of f: of the file's
// own key or, with an offset, of the key of the one unit there.
func (k *DataKey) sealerOf(f File, id FileKeyID, offset ...int64) (sealer, error) {
	label := "brock file 1"
	if len(offset) > 0 {
		label = "brock unit 1"
	}
	// All that identifies the file: a file under another name, or of another store, does not
	// decrypt.
	info := append(append(make([]byte, 0, 64), label...), byte(k.Cipher), f.Kind)
	info = binary.LittleEndian.AppendUint64(info, f.Number)
	info = append(info, f.UUID[:]...)
	for _, at := range offset {
		info = binary.LittleEndian.AppendUint64(info, uint64(at))
	}
	key, err := hkdf.Key(sha256.New, k.Key[:], id.Salt[:], string(info), KeySize)
	if err != nil {
		return sealer{}, err
	}
	return newSealer(k.Cipher, key)
}

// Check returns the check value of the data key in the store uuid.
func (k *DataKey) Check(uuid [16]byte) (Check, error) {
	info := append(make([]byte, 0, 64), "brock check 1"...)
	info = append(info, byte(k.Cipher))
	info = append(info, uuid[:]...)
	// Another text than for keys of files, so that it tells nothing of these.
	b, err := hkdf.Key(sha256.New, k.Key[:], k.ID[:], string(info), len(Check{}))
	if err != nil {
		return Check{}, err
	}
	return Check(b), nil
}

// sealer encrypts and decrypts under one key. It has no state of its own, so any number
// of goroutines may use it.
type sealer struct {
	aead cipher.AEAD
	key  [sha256.Size]byte // a hash of the key, for the ledger; zeros without it
}

// newSealer returns the sealer of a cipher and a key.
func newSealer(c Cipher, key []byte) (sealer, error) {
	aead, err := c.newAEAD(key)
	s := sealer{aead: aead}
	if invariant.Enabled {
		s.key = sha256.Sum256(key)
	}
	return s, err
}

// scratch has the arguments of a call of cipher.AEAD. It is pooled, as arguments of an interface's
// methods would be allocated on the heap in each call.
type scratch struct {
	nonce [12]byte
	tag   [TagSize]byte
	data  []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// maxScratch bounds the associated data that is kept for the next call, in bytes.
const maxScratch = 64 << 10

// newScratch takes a scratch from the pool and fills it in. The nonce is offset and attempt: no two
// units of one key have both.
func newScratch(u Unit, offset int64, attempt uint32, data []byte) *scratch {
	s := scratches.Get().(*scratch)
	binary.LittleEndian.PutUint64(s.nonce[:], uint64(offset))
	binary.LittleEndian.PutUint32(s.nonce[8:], attempt)
	s.data = append(append(s.data[:0], byte(u)), data...)
	return s
}

// putScratch returns s to the pool, unless it holds much memory.
func (s *scratch) putScratch() {
	if cap(s.data) <= maxScratch {
		scratches.Put(s)
	}
}

// sealUnit writes the ciphertext of text to dst and returns the tag. dst must be as long as text,
// with a capacity of TagSize bytes more. These bytes are used meanwhile, and restored.
func (s *sealer) sealUnit(dst, text []byte, u Unit, offset int64, attempt uint32, data []byte) Tag {
	a := newScratch(u, offset, attempt, data)
	defer a.putScratch()
	if invariant.Enabled {
		used.noteNonce(&s.key, &a.nonce)
	}
	n := len(text)
	if n == 0 {
		dst = a.tag[:0]
	}
	behind := dst[n : n+TagSize]
	// cipher.AEAD appends the tag to the text. The caller has something else there.
	kept := Tag(behind)
	s.aead.Seal(dst[:0], a.nonce[:], text, a.data)
	tag := Tag(behind)
	copy(behind, kept[:])
	return tag
}

// openUnit writes the text of b to dst. dst must be as long as b, or be b. b must have a capacity
// of TagSize bytes more. These bytes are used meanwhile, and restored.
func (s *sealer) openUnit(dst, b []byte, tag *Tag, u Unit, offset int64, attempt uint32, data []byte) error {
	a := newScratch(u, offset, attempt, data)
	defer a.putScratch()
	n := len(b)
	if n == 0 {
		b = a.tag[:0]
	}
	whole := b[:n+TagSize]
	kept := Tag(whole[n:])
	// cipher.AEAD wants the tag behind the text. What the caller has there is put back.
	copy(whole[n:], tag[:])
	_, err := s.aead.Open(dst[:0], a.nonce[:], whole, a.data)
	copy(whole[n:], kept[:])
	if err != nil {
		return ErrTag // a wrong tag is the only cause
	}
	return nil
}
