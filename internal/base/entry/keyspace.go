package entry

import (
	"bytes"
	"math"
)

// KeyspaceID numbers the keyspaces of a store; no number is ever used twice.
type KeyspaceID uint32

// DefaultKeyspace is there in every store and has no name.
const DefaultKeyspace KeyspaceID = 0

// MaxKeyspaceID is the greatest number of a keyspace.
const MaxKeyspaceID KeyspaceID = math.MaxUint32

// A stored key begins with its keyspace: docs/format.md, "Stored key".
const (
	longPrefix = 0xf8 // first bytes from here on are followed by 1, 2, 3 or 4 more
	pastPrefix = 0xfc // no stored key begins with this or more
)

// AppendKeyspace appends the prefix of the keyspace's stored keys to dst. No
// prefix is the beginning of another, and they sort as the numbers do.
func AppendKeyspace(dst []byte, id KeyspaceID) []byte {
	if id < longPrefix {
		return append(dst, byte(id))
	}
	rest := uint32(id) - longPrefix
	n := 1
	for n < 4 && rest>>(8*n) != 0 {
		n++
	}
	// Longer prefixes are of greater numbers, and begin with greater bytes; big-endian within, so
	// that bytes sort as numbers do.
	dst = append(dst, byte(longPrefix+n-1))
	for n--; n >= 0; n-- {
		dst = append(dst, byte(rest>>(8*n)))
	}
	return dst
}

// AfterKeyspace is the bound after the last stored key of the keyspace, and of
// those whose numbers are less.
func AfterKeyspace(id KeyspaceID) []byte {
	p := AppendKeyspace(nil, id)
	for i := len(p) - 1; ; i-- { // a first byte is never 0xff
		if p[i]++; p[i] != 0 {
			return p[:i+1]
		}
	}
}

// OneKeyspace reports whether all stored keys in [lo, hi) are of one keyspace.
func OneKeyspace(lo, hi []byte) bool {
	id, ok := KeyspaceOf(lo)
	if !ok {
		return false
	}
	n := PrefixLen(lo[0])
	// hi is not in the range, so it may be the first key after the keyspace.
	return bytes.HasPrefix(hi, lo[:n]) || bytes.Equal(hi, AfterKeyspace(id))
}

// PrefixLen is the length of the prefix that begins with first.
func PrefixLen(first byte) int {
	if first < longPrefix {
		return 1
	}
	return int(first) - longPrefix + 2
}

// KeyspaceOf is the keyspace of a stored key; ok is false if the key is none.
func KeyspaceOf(key []byte) (id KeyspaceID, ok bool) {
	if len(key) == 0 || key[0] >= pastPrefix {
		return 0, false
	}
	n := PrefixLen(key[0])
	if n == 1 {
		return KeyspaceID(key[0]), true
	}
	// A number has one prefix: with a zero in front it would have two, which sort differently.
	if len(key) < n || n > 2 && key[1] == 0 {
		return 0, false
	}
	rest := uint64(0)
	for _, b := range key[1:n] {
		rest = rest<<8 | uint64(b)
	}
	if rest > uint64(MaxKeyspaceID)-longPrefix {
		return 0, false
	}
	return KeyspaceID(rest + longPrefix), true
}
