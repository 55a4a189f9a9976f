package entry

import (
	"encoding/binary"
	"math/bits"
)

// Word is the first 8 bytes of key, zeros after its end, as a number that sorts
// as the bytes do. Keys with equal words must be compared whole.
func Word(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var w uint64
	for i, c := range key {
		// The first byte is the highest, as bytes compare.
		w |= uint64(c) << (56 - 8*i)
	}
	return w
}

// CommonPrefix is how many bytes a and b share at their start.
func CommonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	// Words of 8 bytes, the first byte lowest: the lowest bit that differs tells
	// the first byte that does.
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)>>3
		}
	}
	for ; i < n && a[i] == b[i]; i++ {
	}
	return i
}
