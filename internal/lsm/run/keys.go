package run

import (
	"bytes"
	"sort"

	"github.com/brockdb/brock/internal/base/entry"
)

// keys finds chunks by their bounds: by a number of 8 bytes for each chunk but the first, taken
// after a prefix that all these bounds share. The numbers of 1,000 chunks take 8 KB, which stay in
// the nearest caches. However long keys are, a chunk takes a bounded part of it.
type keys struct {
	prefix []byte   // shared by the bounds of all chunks but the first
	words  []uint64 // 8 bytes of each of these bounds, after prefix
	chunks []record // all chunks
}

// newKeys lays out the bounds of chunks. It moves their keys to one block of memory: they would
// keep the whole directory in memory.
func newKeys(chunks []record) keys {
	k := keys{chunks: chunks}
	n := 0
	for i := range chunks {
		n += len(chunks[i].key)
	}
	blob := make([]byte, 0, n)
	for i := range chunks {
		b := &chunks[i].bound
		blob = append(blob, b.key...)
		b.key = blob[len(blob)-len(b.key) : len(blob) : len(blob)]
	}
	if len(chunks) > 1 {
		k.words = make([]uint64, len(chunks)-1)
		first, last := chunks[1].separator(), chunks[len(k.words)].separator()
		// The prefix ends 8 bytes before the end of a long bound, so that search can
		// compare its whole word.
		k.prefix = first[:min(entry.CommonPrefix(first, last), boundSize-8)]
	}
	for i := range k.words {
		k.words[i] = entry.Word(chunks[i+1].separator()[len(k.prefix):])
	}
	return k
}

// searchChunks returns the chunks lo to hi, of which one has key if the run has it. Mostly lo
// equals hi. Else the bounds of the chunks lo+1 to hi are long and begin key: only the first keys
// of these chunks tell which one it is.
func (k *keys) searchChunks(key []byte) (lo, hi int) {
	p := len(k.prefix)
	if len(key) < p || string(key[:p]) != string(k.prefix) {
		if bytes.Compare(key, k.prefix) < 0 {
			return 0, 0
		}
		return len(k.words), len(k.words)
	}
	// Without branches on the words: the outcome of each step is a coin toss.
	word := entry.Word(key[p:])
	words := k.words
	base, n := 0, len(words)
	for n > 0 {
		half := (n + 1) >> 1
		if words[base+half-1] < word {
			base += half
		}
		n -= half
	}
	if base == len(words) || words[base] != word {
		return base, base
	}
	return k.searchEqual(base, key)
}

// searchEqual is searchChunks among the bounds whose words equal that of key; base is the first.
func (k *keys) searchEqual(base int, key []byte) (lo, hi int) {
	// Doubled steps: usually only a few words are equal.
	end := base
	for step := 1; end < len(k.words) && k.words[end] == k.words[base]; step *= 2 {
		end += step
	}
	n := min(end, len(k.words)) - base
	lo = base + sort.Search(n, func(i int) bool { return k.chunks[base+i+1].compareKey(key) != notBefore })
	hi = lo + sort.Search(base+n-lo, func(i int) bool { return k.chunks[lo+i+1].compareKey(key) == before })
	return lo, hi
}

// liesBelow reports whether all keys of chunk i are known to be less than key. Of the last chunk
// that is not known.
func (k *keys) liesBelow(i int, key []byte) bool {
	return i+1 < len(k.chunks) && k.chunks[i+1].compareKey(key) == notBefore
}
