package keyring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
)

// The bytes of a keyring file: two copies of one content. docs/format.md, "Keyring", has the
// format.

const (
	magic      = "BROCKKEY"
	version    = 2
	headerSize = 48
	numberAt   = 32
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
	keyHead
	Wrapped []byte // what the provider made of the key
}

// keyHead is the header of a data key, as its bytes are.
type keyHead struct {
	ID      crypt.ID
	Cipher  crypt.Cipher
	_       [3]byte
	Size    uint32      // bytes of what is wrapped; set when it is encoded
	Created int64       // Unix milliseconds
	Check   crypt.Check // of the key
}

// copyHead is the header of a copy, as its bytes are.
type copyHead struct {
	Magic   [8]byte
	Version uint16
	_       [2]byte
	Size    uint32 // bytes of the copy, without the zeros behind it
	UUID    [16]byte
	Number  entry.FileNum
	Keys    uint32 // number of data keys
	Sum     uint32 // of all but itself
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
	var keys []byte
	for _, k := range c.Keys {
		k.Size = uint32(len(k.Wrapped))
		keys, _ = binary.Append(keys, binary.LittleEndian, &k.keyHead)
		keys = padTo(append(keys, k.Wrapped...), 8)
	}
	h := copyHead{Version: version, Size: uint32(headerSize + len(keys)), UUID: c.UUID, Number: c.Number, Keys: uint32(len(c.Keys))}
	copy(h.Magic[:], magic)
	p, _ := binary.Append(nil, binary.LittleEndian, &h)
	p = append(p, keys...)
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

// Decode reads the bytes of the keyring file with this number in the store uuid; number 0 stands
// for the one that the bytes have. One whole copy is enough: else the content is nil. The error
// says what is wrong with each copy, also if the other one is whole: *errs.Corruption,
// errs.ErrFormat or, for a file of another store, errs.ErrKey.
func Decode(p []byte, uuid [16]byte, number entry.FileNum) (found *Content, wrong error) {
	if number == 0 && len(p) >= headerSize {
		number = entry.FileNum(binary.LittleEndian.Uint64(p[numberAt:]))
	}
	for _, offset := range []int{0, len(p) / 2} {
		c, err := decodeCopy(p[offset:], int64(offset), uuid, number)
		if err != nil {
			wrong = errors.Join(wrong, err)
		} else if found == nil {
			found = c
		}
	}
	return found, wrong
}

// decodeCopy reads the copy at the beginning of p, which lies at offset of the file.
func decodeCopy(p []byte, offset int64, uuid [16]byte, number entry.FileNum) (*Content, error) {
	name := filename.Of(filename.Keyring, number)
	var h copyHead
	if _, err := binary.Decode(p, binary.LittleEndian, &h); err != nil || string(h.Magic[:]) != magic {
		return nil, errs.NewCorruption(name, offset, "a copy of the keyring begins with %q, but has %d bytes and begins otherwise", magic, len(p))
	}
	if h.Size < headerSize || int64(h.Size) > int64(len(p)) {
		return nil, errs.NewCorruption(name, offset, "the copy's length is %d, and %d bytes are there", h.Size, len(p))
	}
	p = p[:h.Size]
	c := &Content{UUID: h.UUID, Number: h.Number}
	if sum := c.checksumOf(offset, p); sum != h.Sum {
		return nil, errs.NewCorruption(name, offset, "the copy's checksum is %#x, it says %#x", sum, h.Sum)
	}
	// The checksum is right for this other store, so the file is whole and in the wrong place.
	if c.UUID != uuid {
		return nil, fmt.Errorf("%w: %s is of the store %x, this one is %x", errs.ErrKey, name, c.UUID, uuid)
	}
	if c.Number != number {
		return nil, errs.NewCorruption(name, offset, "the copy is of the file with the number %d", c.Number)
	}
	if h.Version != version {
		return nil, fmt.Errorf("%w: %s has version %d, this release reads %d", errs.ErrFormat, name, h.Version, version)
	}
	if err := c.decodeKeys(p[headerSize:], h.Keys); err != nil {
		return nil, errs.NewCorruption(name, offset, "%v", err)
	}
	return c, nil
}

// decodeKeys reads n keys, which fill p. Its checksum is right.
func (c *Content) decodeKeys(p []byte, n uint32) error {
	if n > maxKeys {
		return fmt.Errorf("it has %d data keys, more than %d", n, maxKeys)
	}
	for i := range n {
		var k Key
		if _, err := binary.Decode(p, binary.LittleEndian, &k.keyHead); err != nil {
			return fmt.Errorf("it ends in the header of data key %d", i)
		}
		p = p[keyHeader:]
		padded := int(k.Size+7) &^ 7
		// The checksum is right, but it is no secret: anybody can make one. So lengths are checked.
		if k.Size > maxWrapped || padded > len(p) {
			return fmt.Errorf("data key %d has %d bytes, %d are left", i, k.Size, len(p))
		}
		if c.Has(k.ID) {
			return fmt.Errorf("data key %x is there twice", k.ID)
		}
		k.Wrapped = slices.Clone(p[:k.Size])
		p = p[padded:]
		c.Keys = append(c.Keys, k)
	}
	if len(p) > 0 {
		return fmt.Errorf("%d bytes follow the last data key", len(p))
	}
	return nil
}
