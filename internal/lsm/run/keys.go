package run

import (
	"bytes"
	"sort"

	"github.com/brockdb/brock/internal/base/entry"
)

// keys is the bounds of the chunks of a run, laid out for search: without pointers, and
// with a number of 8 bytes for each chunk but the first, taken after a prefix that all
// these bounds share. The numbers of 1,000 chunks take 8 KB, which stay in the nearest
// caches. However long keys are, a chunk takes a bounded part of it.
type keys struct {
	prefix []byte   // of the bounds of all chunks but the first
	words  []uint64 // of the bounds of all chunks but the first
	spans  []span
	blob   []byte
}

// span is a bound whose key lies in the blob.
type span struct {
	at     uint32
	length uint16
	apart  uint16
	again  bool
	long   bool
}

func newKeys(chunks []record) keys {
	var k keys
	if len(chunks) == 0 {
		return k
	}
	// One block of memory for all keys, and nothing in it for the collector to scan.
	k.words = make([]uint64, len(chunks)-1)
	k.spans = make([]span, len(chunks))
	n := 0
	for i := range chunks {
		n += len(chunks[i].key)
	}
	k.blob = make([]byte, 0, n)
	for i := range chunks {
		b := &chunks[i].bound
		k.spans[i] = span{uint32(len(k.blob)), uint16(len(b.key)), uint16(b.apart), b.again, b.long}
		k.blob = append(k.blob, b.key...)
		b.key = nil
	}
	if len(k.words) > 0 {
		first, last := k.apart(1), k.apart(len(k.words))
		// The prefix ends 8 bytes before the end of a long bound, so that search can
		// compare its whole word.
		k.prefix = first[:min(entry.CommonPrefix(first, last), boundSize-8)]
	}
	for i := range k.words {
		k.words[i] = entry.Word(k.apart(i + 1)[len(k.prefix):])
	}
	return k
}

// from is the beginning of chunk i's first key, of at most boundSize bytes. It has all of the
// prefix that the chunk's keys share, unless that is longer.
func (k *keys) from(i int) []byte {
	s := &k.spans[i]
	return k.blob[s.at:][:s.length:s.length]
}

// apart is the part of from(i) that sorts above the last key of the chunk before.
func (k *keys) apart(i int) []byte {
	s := &k.spans[i]
	return k.blob[s.at:][:s.apart:s.apart]
}

// searchChunks returns the chunks lo to hi, of which one has key if the run has it. Mostly lo equals
// hi. Else the bounds of the chunks lo+1 to hi are long and begin key: only the first keys of
// these chunks tell which one it is.
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

// searchEqual is search among the bounds whose words equal that of key; base is the first.
func (k *keys) searchEqual(base int, key []byte) (lo, hi int) {
	// Doubled steps: usually only a few words are equal.
	end := base
	for step := 1; end < len(k.words) && k.words[end] == k.words[base]; step *= 2 {
		end += step
	}
	n := min(end, len(k.words)) - base
	lo = base + sort.Search(n, func(i int) bool { return k.compareBound(base+i+1, key) != notBefore })
	hi = lo + sort.Search(base+n-lo, func(i int) bool { return k.compareBound(lo+i+1, key) == before })
	return lo, hi
}

// place is where a key is, compared with the bound of a chunk.
type place uint8

const (
	before    place = iota // before the chunk, or in the chunk before
	notBefore              // in the chunk or behind
	unknown                // only the chunk's first key tells
)

func (k *keys) compareBound(i int, key []byte) place {
	s, b := &k.spans[i], k.apart(i)
	if s.long && bytes.HasPrefix(key, b) {
		return unknown
	}
	if c := bytes.Compare(key, b); c < 0 || c == 0 && s.again {
		return before
	}
	return notBefore
}

// below reports whether all keys of chunk i are known to be less than key. Of the last chunk
// that is not known.
func (k *keys) below(i int, key []byte) bool {
	return i+1 < len(k.spans) && k.compareBound(i+1, key) == notBefore
}

// hasPrefix reports whether key begins as chunk i's keys do, in the first n bytes: in fewer, if
// only boundSize bytes are in memory.
func (k *keys) hasPrefix(i int, key []byte, n int) bool {
	n = min(n, boundSize)
	at := uint64(k.spans[i].at)
	return len(key) >= n && string(key[:n]) == string(k.blob[at:at+uint64(n)])
}
