// Package filter is the filter of a run: a blocked Bloom filter (Putze, Sanders
// and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", WEA 2007)
// with blocks of one 64-bit word. Each key sets five bits of one word, so a probe
// costs one cache line, and probes of several runs can wait for memory together.
package filter

import "encoding/binary"

// KeysPerWord sets the size of a filter: about 16 bits a key, and so about 1.5 % false positives.
const KeysPerWord = 4

const wordBytes = 8 // bytes of a word

// Words is the length of the filter of n keys.
func Words(n int) int { return (n + KeysPerWord - 1) / KeysPerWord }

// Mask is the five bits (fewer if some coincide) that a key with this hash sets.
func Mask(hash uint64) uint64 {
	return 1<<(hash&63) | 1<<(hash>>6&63) | 1<<(hash>>12&63) | 1<<(hash>>18&63) | 1<<(hash>>24&63)
}

// Index is the word of n, at least one, in which a key with this hash sets its bits. It uses the
// upper half of the hash, Mask the lower one: two keys of one word differ in their bits.
func Index(hash uint64, n int) int { return int(hash >> 32 * uint64(n) >> 32) }

// Filter is the words of a filter as a file has them, so that it may be read in
// place. An empty one may contain every key.
type Filter []byte

// New returns an empty filter with this number of words.
func New(words int) Filter { return make(Filter, words*wordBytes) }

// Add enters a key; the filter must not be empty.
func (f Filter) Add(hash uint64) {
	// Bytes, not words, as a file has them: the filter may be read in place.
	word := f[Index(hash, len(f)/wordBytes)*wordBytes:]
	binary.LittleEndian.PutUint64(word, binary.LittleEndian.Uint64(word)|Mask(hash))
}

// Word is what Mask(hash) is to be compared with: the key may be there only if
// the word has all bits of the mask. Loading the words of several filters before
// looking at any lets their cache misses overlap.
func (f Filter) Word(hash uint64) uint64 {
	if len(f) == 0 {
		return ^uint64(0)
	}
	return binary.LittleEndian.Uint64(f[f.At(hash):])
}

// At is where the word of this hash begins; the filter must not be empty.
func (f Filter) At(hash uint64) int { return Index(hash, len(f)/wordBytes) * wordBytes }

// MayContain is false only if no key with this hash was added.
func (f Filter) MayContain(hash uint64) bool {
	m := Mask(hash)
	return f.Word(hash)&m == m
}
