package read

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// BenchmarkQueue takes the first key of a queue of 100,000, deletes it, and appends a new one: one
// transaction each.
func BenchmarkQueue(b *testing.B) {
	db, key := deletable(b, 100_000)
	next := 100_000
	b.ResetTimer()
	begin := process.ReadProcessorTime()
	for range b.N {
		assert.OK(b, db.Update(func(txn *brock.Txn) error {
			it := txn.NewIterator(brock.IteratorOptions{Limit: 1})
			defer it.Close()
			if it.Rewind(); !it.Valid() {
				b.Fatal(it.Err())
			}
			if err := txn.Delete(it.Item().KeyCopy(nil)); err != nil {
				return err
			}
			next++
			return txn.Set(key(next), make([]byte, 16))
		}))
	}
	b.ReportMetric(float64(process.ReadProcessorTime()-begin)/float64(b.N), "cpu-ns/op")
}

// BenchmarkDeletes deletes nine tenths of 300,000 keys, and seeks past them twice. It reports the
// processor's time of a delete, with and without the seeks, and of each seek.
func BenchmarkDeletes(b *testing.B) {
	const keys, gone = 300_000, 270_000
	for _, order := range []string{"up", "down", "random"} {
		for _, batch := range []int{1, 1000} {
			b.Run(order+map[int]string{1: "/one by one", 1000: "/by a writer"}[batch], func(b *testing.B) {
				var deletes, first, second time.Duration
				for range b.N {
					db, key := deletable(b, keys)
					places := rand.New(rand.NewPCG(1, 2)).Perm(gone)
					for i := range places {
						switch order {
						case "up":
							places[i] = i
						case "down":
							places[i] = gone - 1 - i
						}
					}
					begin := process.ReadProcessorTime()
					w := db.NewWriter(context.Background())
					for _, i := range places {
						if batch == 1 {
							assert.OK(b, db.Delete(key(i)))
						} else {
							assert.OK(b, w.Delete(key(i)))
						}
					}
					assert.OK(b, w.Close())
					deletes += process.ReadProcessorTime() - begin
					for _, took := range []*time.Duration{&first, &second} {
						begin := process.ReadProcessorTime()
						assert.OK(b, db.View(func(txn *brock.Txn) error {
							it := txn.NewIterator(brock.IteratorOptions{})
							defer it.Close()
							if it.Rewind(); !it.Valid() || string(it.Item().Key()) != string(key(gone)) {
								b.Fatal("at a deleted key")
							}
							return nil
						}))
						*took += process.ReadProcessorTime() - begin
					}
					assert.OK(b, db.Close())
				}
				n := float64(b.N * gone)
				b.ReportMetric(float64(deletes.Nanoseconds())/n, "ns/delete")
				b.ReportMetric(float64((deletes+first+second).Nanoseconds())/n, "ns/all")
				b.ReportMetric(float64(first.Microseconds())/float64(b.N), "us/first")
				b.ReportMetric(float64(second.Microseconds())/float64(b.N), "us/second")
			})
		}
	}
}

// deletable returns a compacted store of small pairs.
func deletable(b *testing.B, n int) (db *brock.DB, key func(i int) []byte) {
	key = func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	db = storetest.Open(b, brock.Options{Dir: b.TempDir(), Durability: brock.Buffered})
	w := db.NewWriter(context.Background())
	for i := range n {
		assert.OK(b, w.Set(key(i), make([]byte, 16)))
	}
	assert.OK(b, w.Close())
	assert.OK(b, db.Compact(context.Background()))
	return db, key
}
