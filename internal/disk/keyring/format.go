package keyring

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
)

// The bytes of a keyring file: two copies of one content. docs/format.md, "Keyring", has the format.

const (
	magic      = "BROCKKEY"
	version    = 2
	headerSize = 48
	sumAt      = 44
	keyHeader  = 48 // of a data key, before what is wrapped

	maxKeys    = 64
	maxWrapped = 16 << 10
	pageSize   = 4096 // copies begin at multiples of it: one damaged page concerns one copy
)

// maxFile is the length of the longest keyring.
const maxFile = 2 * (headerSize + maxKeys*(keyHeader+maxWrapped) + pageSize)

// Key is a data key as the file has it.
type Key struct {
	ID      crypt.ID
	Cipher  crypt.Cipher
	Created int64       // Unix milliseconds
	Check   crypt.Check // of the key
	Wrapped []byte      // what the provider made of the key
}

// Content is what one keyring file says.
type Content struct {
	UUID   [16]byte      // of the store
	Number entry.FileNum // of the file
	Keys   []Key         // in the order in which they were made
}

// Has reports whether the data key with the id is there.
func (c *Content) Has(id crypt.ID) bool { return c.findKey(id) != nil }

// findKey returns the key with the id, or nil.
func (c *Content) findKey(id crypt.ID) *Key {
	i := slices.IndexFunc(c.Keys, func(k Key) bool { return k.ID == id })
	if i < 0 {
		return nil
	}
	return &c.Keys[i]
}

// binding is what a provider must bind the wrapped key k to: it can't be unwrapped with another
// binding.
func (c *Content) binding(k *Key) []byte {
	b := append([]byte(nil), "brock data key 1"...)
	b = append(b, c.UUID[:]...)
	b = append(b, k.ID[:]...)
	return append(b, byte(k.Cipher))
}

// Encode returns the bytes of the file: both copies.
func (c *Content) Encode() []byte {
	one := c.encodeCopy(0)
	return append(one, c.encodeCopy(int64(len(one)))...)
}

// encodeCopy returns the copy for an offset, filled up to a multiple of a page.
func (c *Content) encodeCopy(offset int64) []byte {
	p := append(make([]byte, 0, headerSize), magic...)
	p = binary.LittleEndian.AppendUint16(p, version)
	p = append(p, make([]byte, 6)...) // reserved; length, below
	p = append(p, c.UUID[:]...)
	p = binary.LittleEndian.AppendUint64(p, uint64(c.Number))
	p = binary.LittleEndian.AppendUint32(p, uint32(len(c.Keys)))
	p = append(p, make([]byte, 4)...) // checksum, below
	for i := range c.Keys {
		k := &c.Keys[i]
		p = append(p, k.ID[:]...)
		p = append(p, byte(k.Cipher), 0, 0, 0)
		p = binary.LittleEndian.AppendUint32(p, uint32(len(k.Wrapped)))
		p = binary.LittleEndian.AppendUint64(p, uint64(k.Created))
		p = append(p, k.Check[:]...)
		p = append(p, k.Wrapped...)
		p = padTo(p, 8)
	}
	binary.LittleEndian.PutUint32(p[12:], uint32(len(p)))
	binary.LittleEndian.PutUint32(p[sumAt:], c.checksumOf(offset, p))
	return padTo(p, pageSize)
}

// padTo appends zeros up to a multiple of to.
func padTo(p []byte, to int) []byte {
	return append(p, make([]byte, (to-len(p)%to)%to)...)
}

// checksumOf is the checksum of the copy p at an offset: of all but the checksum itself.
func (c *Content) checksumOf(offset int64, p []byte) uint32 {
	crc := checksum.Extend(checksum.Plain(p[:sumAt]), p[headerSize:])
	return crc ^ checksum.New(c.UUID, byte(filename.Keyring), uint64(c.Number)).Mask(offset)
}

// Decode reads the bytes of the keyring file with this number in the store uuid. One whole copy
// is enough: else the content is nil. The errors say what is wrong with each copy: they are
// *errs.Corruption, or wrap errs.ErrFormat or, for a file of another store, errs.ErrKey.
func Decode(p []byte, uuid [16]byte, number entry.FileNum) (*Content, []error) {
	var found *Content
	var wrong []error
	for _, offset := range []int{0, len(p) / 2} {
		c, err := decodeCopy(p[offset:], int64(offset), uuid, number)
		if err != nil {
			wrong = append(wrong, err)
		} else if found == nil {
			found = c
		}
	}
	return found, wrong
}

// decodeCopy reads the copy at the beginning of p, which lies at offset of the file.
func decodeCopy(p []byte, offset int64, uuid [16]byte, number entry.FileNum) (*Content, error) {
	name := filename.Of(filename.Keyring, number)
	if len(p) < headerSize || string(p[:8]) != magic {
		return nil, errs.NewCorruption(name, offset, "a copy of the keyring begins with %q, but has %d bytes and begins otherwise", magic, len(p))
	}
	size := int64(binary.LittleEndian.Uint32(p[12:]))
	if size < headerSize || size > int64(len(p)) {
		return nil, errs.NewCorruption(name, offset, "the copy's length is %d, and %d bytes are there", size, len(p))
	}
	p = p[:size]
	c := &Content{UUID: [16]byte(p[16:]), Number: entry.FileNum(binary.LittleEndian.Uint64(p[32:]))}
	if sum, want := c.checksumOf(offset, p), binary.LittleEndian.Uint32(p[sumAt:]); sum != want {
		return nil, errs.NewCorruption(name, offset, "the copy's checksum is %#x, it says %#x", sum, want)
	}
	// The checksum is right for this other store, so the file is whole and in the wrong place.
	if c.UUID != uuid {
		return nil, fmt.Errorf("%w: %s is of the store %x, this one is %x", errs.ErrKey, name, c.UUID, uuid)
	}
	if c.Number != number {
		return nil, errs.NewCorruption(name, offset, "the copy is of the file with the number %d", c.Number)
	}
	if v := binary.LittleEndian.Uint16(p[8:]); v != version {
		return nil, fmt.Errorf("%w: %s has version %d, this release reads %d", errs.ErrFormat, name, v, version)
	}
	if err := c.decodeKeys(p); err != nil {
		return nil, errs.NewCorruption(name, offset, "%v", err)
	}
	return c, nil
}

// decodeKeys reads the keys of the copy p, whose checksum is right.
func (c *Content) decodeKeys(p []byte) error {
	n := binary.LittleEndian.Uint32(p[40:])
	if n > maxKeys {
		return fmt.Errorf("it has %d data keys, more than %d", n, maxKeys)
	}
	p = p[headerSize:]
	for i := range n {
		if len(p) < keyHeader {
			return fmt.Errorf("it ends in the header of data key %d", i)
		}
		k := Key{ID: crypt.ID(p), Cipher: crypt.Cipher(p[16]), Created: int64(binary.LittleEndian.Uint64(p[24:])), Check: crypt.Check(p[32:])}
		size := binary.LittleEndian.Uint32(p[20:])
		p = p[keyHeader:]
		// The checksum is right, but it is no secret: anybody can make one. So lengths are checked.
		if size > maxWrapped || int(size+7)&^7 > len(p) {
			return fmt.Errorf("data key %d has %d bytes, %d are left", i, size, len(p))
		}
		if c.findKey(k.ID) != nil {
			return fmt.Errorf("data key %x is there twice", k.ID)
		}
		k.Wrapped = slices.Clone(p[:size])
		p = p[int(size+7)&^7:]
		c.Keys = append(c.Keys, k)
	}
	if len(p) > 0 {
		return fmt.Errorf("%d bytes follow the last data key", len(p))
	}
	return nil
}
