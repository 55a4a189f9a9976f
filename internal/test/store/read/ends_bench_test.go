package read

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// BenchmarkStoreEnds finds the first and the last key, as a log does that is kept in a store: what
// it has in memory only, in a run, and in both.
func BenchmarkStoreEnds(b *testing.B) {
	const keys = 20_000
	key := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	for _, where := range []string{"memory", "run", "both", "runs"} {
		db := storetest.Open(b, brock.Options{Dir: b.TempDir(), Durability: brock.Buffered})
		w := db.NewWriter(context.Background())
		for i := range keys {
			assert.OK(b, w.Set(key(i), make([]byte, 100)))
		}
		assert.OK(b, w.Close())
		if where != "memory" {
			assert.OK(b, db.Compact(context.Background()))
		}
		more := 0
		switch where {
		case "both":
			more = 1
		case "runs":
			more = 3
		}
		for r := range more {
			for i := range 1000 {
				assert.OK(b, db.Set(key(keys+r*1000+i), make([]byte, 100)))
			}
			if r < more-1 {
				assert.OK(b, db.Flush(context.Background()))
			}
		}
		at := keys + more*1000 - 1
		b.Run(where+"/get", func(b *testing.B) {
			k := key(at)
			b.ReportAllocs()
			begin := process.ReadProcessorTime()
			for b.Loop() {
				if err := db.View(func(txn *brock.Txn) error {
					it, err := txn.Get(k)
					if err == nil {
						_, err = it.Value()
					}
					return err
				}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(process.ReadProcessorTime()-begin)/float64(b.N), "cpu-ns/op")
		})
		for name, o := range map[string]brock.IteratorOptions{"first": {}, "last": {Reverse: true}, "lastkey": {Reverse: true, KeysOnly: true, Limit: 1}} {
			b.Run(where+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				begin := process.ReadProcessorTime()
				for b.Loop() {
					err := db.View(func(txn *brock.Txn) error {
						it := txn.NewIterator(o)
						it.Rewind()
						if !it.Valid() {
							b.Fatal(it.Err())
						}
						if _, err := it.Item().Value(); err != nil {
							return err
						}
						return it.Close()
					})
					if err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(process.ReadProcessorTime()-begin)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}
