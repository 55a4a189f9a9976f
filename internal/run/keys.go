package run

import (
	"bytes"
	"sort"

	"github.com/brockdb/brock/internal/entry"
)

// keys is the first and last key of every chunk of a run, laid out for search:
// without pointers, and with a number of 8 bytes for each last key, taken after the
// prefix that all keys of the run share. The numbers of 1,000 chunks take 8 KB,
// which stay in the nearest caches.
type keys struct {
	prefix []byte   // of all keys
	words  []uint64 // one for each chunk's last key
	spans  []span
	blob   []byte
}

type span struct {
	first, last       uint64 // where they begin in blob
	firstLen, lastLen uint32
}

func newKeys(chunks []record) keys {
	var k keys
	if len(chunks) == 0 {
		return k
	}
	// One block of memory for all keys, and nothing in it for the collector to scan.
	k.words = make([]uint64, len(chunks))
	k.spans = make([]span, len(chunks))
	n := 0
	for i := range chunks {
		n += len(chunks[i].first) + len(chunks[i].last)
	}
	k.blob = make([]byte, 0, n)
	for i := range chunks {
		r, s := &chunks[i], &k.spans[i]
		s.first, s.firstLen = uint64(len(k.blob)), uint32(len(r.first))
		k.blob = append(k.blob, r.first...)
		s.last, s.lastLen = s.first, s.firstLen
		if !bytes.Equal(r.first, r.last) {
			s.last, s.lastLen = uint64(len(k.blob)), uint32(len(r.last))
			k.blob = append(k.blob, r.last...)
		}
	}
	first, last := k.first(0), k.last(len(chunks)-1)
	k.prefix = first[:entry.CommonPrefix(first, last)]
	for i := range chunks {
		k.words[i] = entry.Word(k.last(i)[len(k.prefix):])
	}
	return k
}

func (k *keys) first(i int) []byte {
	s := &k.spans[i]
	return k.blob[s.first:][:s.firstLen:s.firstLen]
}

func (k *keys) last(i int) []byte {
	s := &k.spans[i]
	return k.blob[s.last:][:s.lastLen:s.lastLen]
}

// search returns the first chunk whose last key is not less than key, or len().
func (k *keys) search(key []byte) int {
	p := len(k.prefix)
	if len(key) < p || string(key[:p]) != string(k.prefix) {
		if bytes.Compare(key, k.prefix) < 0 {
			return 0
		}
		return len(k.words)
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
		return base
	}
	return k.searchEqual(base, key)
}

// searchEqual goes on among the last keys whose words equal that of key.
func (k *keys) searchEqual(base int, key []byte) int {
	// Doubled steps: usually only a few words are equal.
	end := base
	for step := 1; end < len(k.words) && k.words[end] == k.words[base]; step *= 2 {
		end += step
	}
	n := min(end, len(k.words)) - base
	return base + sort.Search(n, func(i int) bool { return bytes.Compare(k.last(base+i), key) >= 0 })
}

// hasPrefix reports whether key begins with the first n bytes of chunk i's keys.
func (k *keys) hasPrefix(i int, key []byte, n int) bool {
	at := k.spans[i].first
	return len(key) >= n && string(key[:n]) == string(k.blob[at:at+uint64(n)])
}
