package spill

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
)

// The store seeks past deleted keys, from some of them (engine/search.go).
const (
	soughtEvery   = 1 << 9  // deletes for each key that is kept, at least
	longestSought = 1 << 10 // bytes of a key that is kept
	mostSought    = 1 << 12 // keys that are kept: 4 MB at most
)

// someDeletes returns some of the keys that writes delete: fewer than mostSought,
// evenly spread, however many deletes there are.
func someDeletes(writes iterator.Iterator) (keys [][]byte) {
	defer writes.Close()
	n, step := 0, soughtEvery
	for ok := writes.First(); ok; ok = writes.Next() {
		e := writes.Entry()
		if e.Kind != entry.Delete || len(e.Key) > longestSought {
			continue
		}
		if n%step == 0 {
			keys = append(keys, bytes.Clone(e.Key))
		}
		if n++; len(keys) == mostSought {
			keys, step = everySecond(keys), 2*step
		}
	}
	return keys
}

// everySecond returns the keys of even index, in the memory of keys.
func everySecond(keys [][]byte) [][]byte {
	half := (len(keys) + 1) / 2
	for i := range half {
		keys[i] = keys[2*i]
	}
	clear(keys[half:]) // frees the others
	return keys[:half]
}
