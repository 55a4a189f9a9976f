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

// someDeletes returns some of the keys that writes delete: fewer than mostSought, evenly spread.
// There are so many deletes.
func someDeletes(writes iterator.Iterator, deletes uint64) (keys [][]byte) {
	defer writes.Close()
	step := max(soughtEvery, deletes/(mostSought-1)+1)
	n := uint64(0)
	for ok := writes.First(); ok; ok = writes.Next() {
		e := writes.Entry()
		if e.Kind != entry.Delete || len(e.Key) > longestSought {
			continue
		}
		if n%step == 0 {
			keys = append(keys, bytes.Clone(e.Key))
		}
		n++
	}
	return keys
}
