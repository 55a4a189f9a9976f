package brock

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// A stored key is the keyspace's prefix followed by the user's key. Packages below this one know
// stored keys only.

// cloneKey copies key, which the user may have in a mapped file.
func cloneKey(key []byte) (clone []byte, err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	return bytes.Clone(key), nil
}

// userKey returns the user's part of a stored key. Its capacity is its length, so that an
// append by the user can't overwrite what follows.
func userKey(stored []byte) []byte {
	if len(stored) == 0 {
		return nil
	}
	if entry.PrefixLen(stored[0]) == 1 { // nearly all keyspaces
		return stored[1:len(stored):len(stored)]
	}
	return stored[entry.PrefixLen(stored[0]):len(stored):len(stored)]
}

// PrefixRange returns the range [lo, hi) of the keys that begin with prefix, for calls that take a
// range: EstimateSize, Split, DeleteRange, Txn.Range. lo is prefix itself. hi is new memory, or nil,
// no bound, if prefix is empty or all 0xff.
func PrefixRange(prefix []byte) (lo, hi []byte) { return prefix, afterPrefix(nil, prefix) }

// afterPrefix returns the least key above all keys that begin with p; nil if there is none
// (p is empty or all 0xff, which no stored prefix is). It is appended to room.
func afterPrefix(room, p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0xff {
			hi := append(room, p[:i+1]...)
			hi[len(hi)-1]++
			return hi
		}
	}
	return nil
}
