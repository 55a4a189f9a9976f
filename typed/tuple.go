package typed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// The first byte of an element: https://github.com/apple/foundationdb/blob/main/design/tuple.md.
const (
	codeNull    = 0x00
	codeBytes   = 0x01
	codeString  = 0x02
	codeNested  = 0x05
	codeZero    = 0x14 // n below or above it: a negative or positive integer of n bytes
	codeFloat32 = 0x20
	codeFloat64 = 0x21
	codeFalse   = 0x26
	codeTrue    = 0x27
	codeUUID    = 0x30

	// afterAll is above the first byte of every element. Behind a zero byte it says that this is one
	// of a string, or a null of a tuple, and not the end.
	afterAll = 0xff
)

// maxDepth is how deep tuples may lie in each other: a decoder must not exhaust the stack.
const maxDepth = 100

// appendElement appends an element of a tuple that lies in depth others.
func appendElement(dst []byte, e any, depth int) ([]byte, error) {
	switch e := e.(type) {
	case nil:
		return append(dst, codeNull), nil
	case []byte:
		return appendText(dst, codeBytes, string(e)), nil
	case string:
		return appendText(dst, codeString, e), nil
	case int:
		return appendInteger(dst, uint64(e), e < 0), nil
	case int64:
		return appendInteger(dst, uint64(e), e < 0), nil
	case uint64:
		return appendInteger(dst, e, false), nil
	// Bits of a float sort as it does once those of a negative one are inverted, and the sign of others.
	case float32:
		u := math.Float32bits(e)
		return binary.BigEndian.AppendUint32(append(dst, codeFloat32), u^(uint32(int32(u)>>31)|1<<31)), nil
	case float64:
		u := math.Float64bits(e)
		return binary.BigEndian.AppendUint64(append(dst, codeFloat64), u^(uint64(int64(u)>>63)|1<<63)), nil
	case bool:
		if e {
			return append(dst, codeTrue), nil
		}
		return append(dst, codeFalse), nil
	case [16]byte:
		return append(append(dst, codeUUID), e[:]...), nil
	case []any:
		return appendTuple(dst, e, depth)
	}
	return nil, misuse("an element of a tuple is a %T", e)
}

// appendTuple appends a tuple in a tuple. A null is escaped there: a zero byte ends it.
func appendTuple(dst []byte, elements []any, depth int) (_ []byte, err error) {
	if depth == maxDepth {
		return nil, misuse("tuples lie %d deep", depth)
	}
	dst = append(dst, codeNested)
	for _, e := range elements {
		if dst, err = appendElement(dst, e, depth+1); err != nil {
			return nil, err
		}
		if e == nil {
			dst = append(dst, afterAll)
		}
	}
	return append(dst, 0), nil
}

// appendText appends a string. A zero byte ends it.
func appendText(dst []byte, code byte, s string) []byte {
	dst = append(append(dst, code), strings.ReplaceAll(s, "\x00", "\x00\xff")...)
	return append(dst, 0)
}

// appendInteger appends an integer in as many bytes as it needs. Those of a negative one are
// inverted, so that the larger number sorts first. v has the bits of an int64 then.
func appendInteger(dst []byte, v uint64, negative bool) []byte {
	magnitude, sign := v, 1
	if negative {
		magnitude, v, sign = -v, v-1, -1 // v-1 is the magnitude inverted
	}
	n := (bits.Len64(magnitude) + 7) / 8
	var all [8]byte
	binary.BigEndian.PutUint64(all[:], v)
	return append(append(dst, byte(codeZero+sign*n)), all[8-n:]...)
}

// cutElement cuts the first element of p. Integers come as int64, or as uint64 if that is too small.
func cutElement(p []byte, depth int) (e any, rest []byte, err error) {
	if len(p) == 0 {
		return nil, nil, fmt.Errorf("%w: an element is missing", ErrDecode)
	}
	code, p := p[0], p[1:]
	switch n := len(p); {
	case code == codeNull:
		return nil, p, nil
	case code == codeBytes || code == codeString:
		return cutText(p, code)
	case code == codeNested:
		return cutTuple(p, depth)
	case code == codeFloat32 && n >= 4:
		u := binary.BigEndian.Uint32(p)
		return math.Float32frombits(u ^ (uint32(int32(^u)>>31) | 1<<31)), p[4:], nil
	case code == codeFloat64 && n >= 8:
		u := binary.BigEndian.Uint64(p)
		return math.Float64frombits(u ^ (uint64(int64(^u)>>63) | 1<<63)), p[8:], nil
	case code == codeFalse || code == codeTrue:
		return code == codeTrue, p, nil
	case code == codeUUID && n >= 16:
		return [16]byte(p[:16]), p[16:], nil
	}
	return cutInteger(p, int(code)-codeZero)
}

func cutText(p []byte, code byte) (e any, rest []byte, err error) {
	end := 0
	for more := true; more; more = end < len(p) && p[end] == afterAll {
		i := bytes.IndexByte(p[end:], 0)
		if i < 0 {
			return nil, nil, fmt.Errorf("%w: a string has no end", ErrDecode)
		}
		end += i + 1
	}
	text := bytes.ReplaceAll(p[:end-1], []byte{0, afterAll}, []byte{0}) // a copy
	if code == codeString {
		return string(text), p[end:], nil
	}
	return text, p[end:], nil
}

func cutTuple(p []byte, depth int) (any, []byte, error) {
	elements := []any{}
	for len(p) > 0 && depth < maxDepth {
		if p[0] == codeNull {
			if len(p) == 1 || p[1] != afterAll {
				return elements, p[1:], nil
			}
			elements, p = append(elements, nil), p[2:]
			continue
		}
		e, rest, err := cutElement(p, depth+1)
		if err != nil {
			return nil, nil, err
		}
		elements, p = append(elements, e), rest
	}
	return nil, nil, fmt.Errorf("%w: a tuple has no end, or lies %d deep", ErrDecode, depth)
}

// cutInteger cuts an integer of n bytes, a negative one of -n. It takes no other form of a number
// than that of appendInteger, so that each has one.
func cutInteger(p []byte, n int) (any, []byte, error) {
	size, invert, v := max(n, -n), byte(0), uint64(0)
	if n < 0 {
		invert = 0xff
	}
	if size > 8 || size > len(p) || size > 0 && p[0] == invert {
		return nil, nil, fmt.Errorf("%w: no element, or its end is missing", ErrDecode)
	}
	for _, b := range p[:size] {
		v = v<<8 | uint64(b^invert)
	}
	switch {
	case n < 0 && v <= 1<<63:
		return -int64(v), p[size:], nil
	case n >= 0 && v <= math.MaxInt64:
		return int64(v), p[size:], nil
	case n > 0:
		return v, p[size:], nil
	}
	return nil, nil, fmt.Errorf("%w: a negative integer has more than 64 bits", ErrDecode)
}
