package brock

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/internal/txn/pending"
)

// TestMemoryOfWrites grows each part of a transaction's memory, which must then be too large for
// the pool.
func TestMemoryOfWrites(t *testing.T) {
	db := openTest(t, Options{})
	encoder := db.main.encoder.Load()
	set := func(w *writes, key string, value []byte) {
		w.Add(encoder, &entry.Entry{Key: []byte(key), Value: value, Kind: entry.Set})
	}
	for name, grow := range map[string]func(w *writes){
		"values": func(w *writes) { set(w, "k", make([]byte, pending.MaxPooled)) },
		"index": func(w *writes) {
			w.Indexed = true
			for range 50_000 {
				set(w, "k", nil)
			}
		},
		"keys read": func(w *writes) {
			for i := range 100_000 {
				w.reads.AddKey(fmt.Appendf(nil, "%d", i), uint64(i))
			}
		},
		"ranges read": func(w *writes) {
			for i := range 50_000 {
				w.reads.AddRange(fmt.Appendf(nil, "%06d", i), fmt.Appendf(nil, "%06d5", i))
			}
		},
		"keyspaces": func(w *writes) {
			for _, set := range []*commit.Keyspaces{&w.written, &w.addressed} {
				for range 100_000 {
					set.Add(new(commit.Keyspace))
				}
			}
		},
	} {
		w := new(writes)
		grow(w)
		w.returnToPool()
		if got := w.memoryBytes(); got <= pending.MaxPooled {
			t.Errorf("%s: %d bytes of memory", name, got)
		}
	}
}
