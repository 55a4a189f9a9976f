package checksum

import "encoding/binary"

const (
	k0 = 0xa0761d6478bd642f
	k1 = 0xe7037ed1a0b428db
	k2 = 0x8ebc6af09c88c6e3
)

// HashKey is the seeded 64-bit hash of keys that memtables, chunk indexes and filters share, so that
// a get hashes its key once.
//
// It multiplies and folds 64-bit words as wyhash does (Wang Yi, 2019). The result is part of the run
// format: it must never change for a given seed.
func HashKey(seed uint64, key []byte) uint64 {
	n := len(key)
	// Every factor depends on the seed: a constant one could be chosen as a
	// zero by somebody who picks the keys, and all of them would collide.
	s := fold(seed^k0, k1)
	h := s ^ fold(seed^k2, uint64(n)^k1)
	for len(key) > 16 {
		h = fold(binary.LittleEndian.Uint64(key)^s, binary.LittleEndian.Uint64(key[8:])^h)
		key = key[16:]
	}
	var a, b uint64
	switch {
	case len(key) >= 8:
		// The two words overlap in shorter keys: each byte counts, and no loop is needed.
		a = binary.LittleEndian.Uint64(key)
		b = binary.LittleEndian.Uint64(key[len(key)-8:])
	case len(key) >= 4:
		a = uint64(binary.LittleEndian.Uint32(key))
		b = uint64(binary.LittleEndian.Uint32(key[len(key)-4:]))
	case len(key) > 0:
		a = uint64(key[0])<<16 | uint64(key[len(key)/2])<<8 | uint64(key[len(key)-1])
	}
	return fold(k2^uint64(n), fold(a^s, b^h))
}
