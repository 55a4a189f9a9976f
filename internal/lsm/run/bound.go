package run

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// The bounds of chunks, as a directory has them. keys.go has them as a Reader searches them.

// boundSize is how much of a key a directory has at most, in bytes.
const boundSize = layout.BoundSize

// bound is what a directory says of where a chunk begins: enough of its first key to tell it from
// the last one of the chunk before, as the separators of a prefix B-tree (Bayer and Unterauer,
// "Prefix B-Trees", 1977), and to have the prefix that the chunk's keys share. What is longer than
// boundSize is in the chunk.
type bound struct {
	key   []byte // beginning of the first key, at most boundSize bytes
	apart int    // length of the shortest part of key that sorts above the last key before
	again bool   // the first key is an older version of that key; then apart is all of it
	long  bool   // boundSize bytes don't suffice to sort above it; then apart is boundSize
}

// newBound returns the bound of a chunk with this first key and prefix. shared is the number of
// bytes that the key has in common with the last key of the chunk before; -1 for the first chunk.
func newBound(first []byte, shared, prefix int) bound {
	// No key before first is longer and begins with it, so what it shares as a whole is itself.
	b := bound{apart: len(first), again: shared == len(first)}
	// One byte more than what is shared sorts above the last key.
	if shared >= 0 {
		b.apart = min(shared+1, len(first))
	}
	b.long = b.apart > boundSize
	// Long enough for the prefix, too: then a search need not open the chunk for it.
	b.key = bytes.Clone(first[:min(max(b.apart, prefix), boundSize)])
	b.apart = min(b.apart, boundSize)
	return b
}

// separator is the part of the key that sorts above the last key of the chunk before.
func (b *bound) separator() []byte { return b.key[:b.apart:b.apart] }

// place is where a key is, compared with the bound of a chunk.
type place uint8

const (
	before    place = iota // before the chunk, or in the chunk before
	notBefore              // in the chunk or behind
	unknown                // only the chunk's first key tells
)

// compareKey returns where key is.
func (b *bound) compareKey(key []byte) place {
	s := b.separator()
	// The bound was cut: keys that begin with it may be on either side.
	if b.long && bytes.HasPrefix(key, s) {
		return unknown
	}
	// The chunk begins with an older version of the bound: the newest is in the chunk before.
	if c := bytes.Compare(key, s); c < 0 || c == 0 && b.again {
		return before
	}
	return notBefore
}

// hasPrefix reports whether key begins as the chunk's keys do, in the first n bytes: in fewer, if
// only boundSize bytes are in memory.
func (b *bound) hasPrefix(key []byte, n int) bool {
	n = min(n, boundSize)
	return len(key) >= n && string(key[:n]) == string(b.key[:n])
}

// mayFollow reports whether b may be the bound of the chunk after that with the bound a.
func (b *bound) mayFollow(a *bound) bool {
	return bytes.Compare(a.separator(), b.separator()) <= 0
}

// suitsChunk reports whether a chunk with the bound b may begin with the key first. before is the
// last key of the chunk before; nil: there is no such chunk.
func (b *bound) suitsChunk(first, before []byte, prefix int) bool {
	if before == nil {
		return bytes.HasPrefix(first, b.key)
	}
	want := newBound(first, entry.CommonPrefix(first, before), prefix)
	return bytes.Equal(b.key, want.key) && b.apart == want.apart && b.again == want.again && b.long == want.long
}
