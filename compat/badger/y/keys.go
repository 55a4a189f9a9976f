package y

import (
	"bytes"
	"encoding/binary"
	"math"
)

// KeyWithTs returns key with a version after it, in 8 bytes that sort the newest first.
func KeyWithTs(key []byte, ts uint64) []byte {
	out := make([]byte, 0, len(key)+8)
	return binary.BigEndian.AppendUint64(append(out, key...), math.MaxUint64-ts)
}

// ParseTs returns the version of a key from KeyWithTs, 0 if it is too short to have one.
func ParseTs(key []byte) uint64 {
	if len(key) <= 8 {
		return 0
	}
	return math.MaxUint64 - binary.BigEndian.Uint64(key[len(key)-8:])
}

// ParseKey returns a key from KeyWithTs without its version, as a part of key, or nil if it is too
// short.
func ParseKey(key []byte) []byte {
	if len(key) < 8 {
		return nil
	}
	return key[:len(key)-8]
}

// CompareKeys compares two keys from KeyWithTs: by key, then the newer one first. Both must have 8
// bytes or more.
func CompareKeys(a, b []byte) int {
	if order := bytes.Compare(a[:len(a)-8], b[:len(b)-8]); order != 0 {
		return order
	}
	return bytes.Compare(a[len(a)-8:], b[len(b)-8:])
}

// SameKey says whether two keys from KeyWithTs differ in their versions only.
func SameKey(a, b []byte) bool {
	return len(a) == len(b) && bytes.Equal(ParseKey(a), ParseKey(b))
}

// SafeCopy returns src in the memory of dst, or in new memory if that is too small. It is never nil.
func SafeCopy(dst, src []byte) []byte {
	out := append(dst[:0], src...)
	if out == nil {
		return []byte{}
	}
	return out
}

// Copy returns a copy that is not nil.
func Copy(b []byte) []byte { return append([]byte{}, b...) }

// Slice is memory that is used again and again.
type Slice struct{ memory []byte }

// Resize returns size bytes of the memory. What they hold is not defined; the next call reuses them.
func (s *Slice) Resize(size int) []byte {
	if cap(s.memory) < size {
		s.memory = make([]byte, size)
	}
	return s.memory[:size]
}

// U16ToBytes returns v in big-endian order.
func U16ToBytes(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

// BytesToU16 reads a big-endian number. It panics if b has less than 2 bytes.
func BytesToU16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }

// U32ToBytes returns v in big-endian order.
func U32ToBytes(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }

// BytesToU32 reads a big-endian number. It panics if b has less than 4 bytes.
func BytesToU32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

// U64ToBytes returns v in big-endian order.
func U64ToBytes(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// BytesToU64 reads a big-endian number. It panics if b has less than 8 bytes.
func BytesToU64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
