package read

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// The benchmarks in this file use a store in the file system: n keys of 22 bytes
// with random values, loaded in random order, then compacted. Clustering is off,
// unless a benchmark says otherwise, and no background work runs.

type storeShape struct{ keys, value, threshold int }

func (s storeShape) String() string {
	return fmt.Sprintf("keys=%d/value=%d/threshold=%d", s.keys, s.value, s.threshold)
}

func (s storeShape) key(i int) []byte { return fmt.Appendf(nil, "user/%017d", i*7919) }

// open loads a store of this shape.
func (s storeShape) open(tb testing.TB) *brock.DB {
	return s.openWith(tb, brock.Options{Maintenance: brock.Maintenance{NoClustering: true}})
}

func (s storeShape) openWith(tb testing.TB, o brock.Options) *brock.DB {
	o.Dir, o.Durability, o.KeyspaceDefaults.ValueThreshold = tb.TempDir(), brock.Buffered, s.threshold
	db, err := brock.Open(o)
	assert.OK(tb, err)
	tb.Cleanup(func() { assert.OK(tb, db.Close()) })
	s.load(tb, db)
	assert.OK(tb, db.Compact(context.Background()))
	return db
}

const loadBatch = 1000

// load writes every key once, in batches from two goroutines.
func (s storeShape) load(tb testing.TB, db *brock.DB) {
	order := rand.New(rand.NewPCG(1, 2)).Perm(s.keys)
	var wg sync.WaitGroup
	for part := range 2 {
		wg.Go(func() {
			value := make([]byte, s.value)
			for at := part * loadBatch; at < len(order); at += 2 * loadBatch {
				batch := db.NewBatch()
				for _, i := range order[at:min(at+loadBatch, len(order))] {
					for j := 0; j+8 <= len(value); j += 8 {
						binary.LittleEndian.PutUint64(value[j:], uint64(i*j+1)*0x9e3779b97f4a7c15)
					}
					if err := batch.Set(s.key(i), value); err != nil {
						tb.Error(err)
						return
					}
				}
				if _, err := batch.Commit(context.Background(), 0); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// storeShapes are of 2^18 keys. With -short there are fewer: it only shows that the
// benchmarks run.
func storeShapes() []storeShape {
	keys := 1 << 18
	if testing.Short() {
		keys = 1 << 13
	}
	return []storeShape{{keys, 128, 512}, {keys, 1024, 512}}
}

// touch reads every cache line of v.
func touch(v []byte) (sum byte) {
	for i := 0; i < len(v); i += 64 {
		sum += v[i]
	}
	return sum
}

func BenchmarkStoreScan(b *testing.B) {
	for _, shape := range storeShapes() {
		b.Run(shape.String(), func(b *testing.B) {
			db := shape.open(b)
			for _, bench := range []struct {
				name string
				o    brock.IteratorOptions
			}{
				{"keys", brock.IteratorOptions{KeysOnly: true}},
				{"values", brock.IteratorOptions{}},
				{"reverse", brock.IteratorOptions{Reverse: true}},
				{"no prefetch", brock.IteratorOptions{Prefetch: -1}},
			} {
				b.Run(bench.name, func(b *testing.B) {
					b.ReportAllocs()
					assert.OK(b, db.View(func(txn *brock.Txn) error {
						for it := range txn.All() { // maps files, and verifies checksums for the first time
							it.Value()
						}
						b.ResetTimer()
						for i := 0; i < b.N; {
							it := txn.NewIterator(bench.o)
							for it.Rewind(); it.Valid() && i < b.N; it.Next() {
								i++
								if bench.o.KeysOnly {
									continue
								}
								v, err := it.Item().Value()
								if err != nil {
									return err
								}
								touch(v)
							}
							assert.OK(b, it.Close())
						}
						return nil
					}))
				})
			}
		})
	}
}

// BenchmarkStoreClustered compares values as they were loaded with values that were
// clustered after a scan: whole scans, and seeks that read 50 pairs.
func BenchmarkStoreClustered(b *testing.B) {
	shape := storeShapes()[1]
	b.Run("as loaded", func(b *testing.B) { shape.benchScans(b, shape.open(b)) })
	b.Run("clustered", func(b *testing.B) {
		db := shape.openWith(b, brock.Options{Maintenance: brock.Maintenance{IdleAfter: 1}})
		shape.scan(b, db, nil, 1<<30)
		deadline.Wait(b, "a clustering", func() bool { return db.Metrics().Tree.JumpedBytes == 0 })
		shape.benchScans(b, db)
	})
}

func (s storeShape) benchScans(b *testing.B, db *brock.DB) {
	s.scan(b, db, nil, 1<<30) // maps files, and verifies checksums for the first time
	b.Run("scan", func(b *testing.B) {
		b.ReportAllocs()
		for n := b.N; n > 0; n -= s.keys {
			s.scan(b, db, nil, n)
		}
	})
	b.Run("seek", func(b *testing.B) {
		b.ReportAllocs()
		r := rand.New(rand.NewPCG(3, 4))
		var key []byte
		for b.Loop() {
			key = fmt.Appendf(key[:0], "user/%017d", r.IntN(s.keys)*7919)
			s.scan(b, db, key, 50)
		}
	})
}

// scan touches up to n pairs from a key on.
func (s storeShape) scan(b *testing.B, db *brock.DB, from []byte, n int) {
	assert.OK(b, db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{})
		defer it.Close()
		it.Seek(from)
		for ; n > 0 && it.Valid(); n-- {
			v, err := it.Item().Value()
			if err != nil {
				return err
			}
			touch(v)
			it.Next()
		}
		return it.Err()
	}))
}

// BenchmarkStoreFirstScan scans keys and values that the process has not read yet,
// but that are in the system's page cache.
func BenchmarkStoreFirstScan(b *testing.B) {
	shape := storeShapes()[1]
	db := shape.open(b)
	o := db.Options()
	assert.OK(b, db.Close())
	for _, prefetch := range []int{0, -1} {
		b.Run(fmt.Sprintf("prefetch=%d", prefetch), func(b *testing.B) {
			entries := 0
			for b.Loop() {
				db, err := brock.Open(brock.Options{Dir: o.Dir})
				assert.OK(b, err)
				assert.OK(b, db.View(func(txn *brock.Txn) error {
					for it, err := range txn.Items(brock.IteratorOptions{Prefetch: prefetch}) {
						if err != nil {
							return err
						}
						v, err := it.Value()
						if err != nil {
							return err
						}
						touch(v)
						entries++
					}
					return nil
				}))
				assert.OK(b, db.Close())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(entries), "ns/entry")
		})
	}
}

func BenchmarkStoreGet(b *testing.B) {
	for _, shape := range storeShapes() {
		b.Run(shape.String(), func(b *testing.B) {
			db := shape.open(b)
			r := rand.New(rand.NewPCG(3, 4))
			var key []byte
			b.Run("present", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					key = fmt.Appendf(key[:0], "user/%017d", r.IntN(shape.keys)*7919)
					assert.OK(b, db.View(func(txn *brock.Txn) error {
						it, err := txn.Get(key)
						assert.OK(b, err)
						v, err := it.Value()
						touch(v)
						return err
					}))
				}
			})
		})
	}
}

// BenchmarkGetLarge: gets of 8 KB, copied to new memory or to that of the caller. Run it with several
// values of GOGC.
func BenchmarkGetLarge(b *testing.B) {
	db := storetest.Open(b, brock.DefaultOptions(b.TempDir()))
	const pairs = 20000
	w := db.NewWriter(b.Context())
	for i := range pairs {
		assert.OK(b, w.Set(fmt.Appendf(nil, "%09d", i), storetest.RandomBytes(i, 8<<10)))
	}
	assert.OK(b, w.Close())
	assert.OK(b, db.Compact(b.Context()))
	var key, value []byte
	next := func(i int) []byte {
		key = fmt.Appendf(key[:0], "%09d", i*7919%pairs)
		return key
	}
	b.Run("Get", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			value = assert.Must(db.Get(next(i)))
		}
	})
	b.Run("AppendValue", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			value = assert.Must(db.AppendValue(value[:0], next(i)))
		}
	})
}
