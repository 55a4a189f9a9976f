// Package checksum computes checksums that say where their bytes belong, and the hash of keys.
//
// A checksum is CRC-32C (Castagnoli) of the bytes, exclusive-ored with a mask
// made from the file's identity and the offset. Bytes that were written to
// another store, another file or another place therefore never validate, and
// moving a value needs a new mask only, not a second pass over its bytes.
package checksum

import (
	"encoding/binary"
	"hash"
	"hash/crc32"
	"math/bits"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Identity names one file of one store; its zero value is a valid identity.
type Identity uint64

// New returns the identity of the file with this kind and number in the store uuid.
func New(uuid [16]byte, kind byte, number uint64) Identity {
	// One after the other, so that each part moves the result of those before.
	id := mix(binary.LittleEndian.Uint64(uuid[:8]), 0x9e3779b97f4a7c15)
	id = mix(id^binary.LittleEndian.Uint64(uuid[8:]), 0xd6e8feb86659fd93)
	id = mix(id^uint64(kind), 0xa0761d6478bd642f)
	return Identity(mix(id^number, 0xe7037ed1a0b428db))
}

// Mask is what the identity and the offset add to a plain CRC.
func (id Identity) Mask(offset int64) uint32 {
	m := mix(uint64(id)^uint64(offset), 0x8ebc6af09c88c6e3)
	// Exclusive-or with a CRC loses nothing: a wrong mask gives a wrong sum, as wrong bytes do.
	return uint32(m) ^ uint32(m>>32)
}

// Sum is the checksum of p stored at offset in the file.
func (id Identity) Sum(offset int64, p []byte) uint32 {
	return Plain(p) ^ id.Mask(offset)
}

// Plain is the CRC-32C of p, bound to no place.
func Plain(p []byte) uint32 { return crc32.Update(0, castagnoli, p) }

// NewPlain returns a writer that computes Plain of what it gets.
func NewPlain() hash.Hash32 { return crc32.New(castagnoli) }

// Extend continues a plain CRC over p.
func Extend(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli, p) }

func mix(a, b uint64) uint64 { return fold(a^0x2d358dccaa6c78a5, b) }

// fold multiplies to 128 bits, and folds the halves.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
