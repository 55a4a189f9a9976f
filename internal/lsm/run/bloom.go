package run

import "encoding/binary"

// bloom is the words of a filter: a blocked Bloom filter (Putze, Sanders and Singler, "Cache-,
// Hash- and Space-Efficient Bloom Filters", WEA 2007) with blocks of one 64-bit word. Each key sets
// five bits of one word, so a probe costs one cache line. The bytes are those of the file, so that
// it may be read in place. An empty bloom may contain every key.
type bloom []byte

// keysPerWord sets the size of a filter: about 16 bits a key, and so about 1.5 % false positives.
const keysPerWord = 4

const wordBytes = 8 // bytes of a word

// bloomWords is the length in words of the filter of n keys.
func bloomWords(n int) int { return (n + keysPerWord - 1) / keysPerWord }

// bloomMask is the five bits (fewer if some coincide) that a key with this hash sets.
func bloomMask(hash uint64) uint64 {
	return 1<<(hash&63) | 1<<(hash>>6&63) | 1<<(hash>>12&63) | 1<<(hash>>18&63) | 1<<(hash>>24&63)
}

// bloomOffset is where the word of a key with this hash begins, in a filter of words, at least one.
// It uses the upper half of the hash, bloomMask the lower one: else all keys of a word would set
// the same bits.
func bloomOffset(hash uint64, words int) int {
	return int(hash>>32*uint64(words)>>32) * wordBytes
}

// addHash enters a key; the filter must not be empty.
func (f bloom) addHash(hash uint64) {
	word := f[bloomOffset(hash, len(f)/wordBytes):]
	binary.LittleEndian.PutUint64(word, binary.LittleEndian.Uint64(word)|bloomMask(hash))
}

// mayContain is false only if no key with this hash was added.
func (f bloom) mayContain(hash uint64) bool {
	return len(f) == 0 || wordHas(f[bloomOffset(hash, len(f)/wordBytes):], hash)
}

// wordHas reports whether the word at the start of b has the bits of this hash.
func wordHas(b []byte, hash uint64) bool {
	m := bloomMask(hash)
	return binary.LittleEndian.Uint64(b)&m == m
}
