package brock

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// openFlat opens a store of n keys, all in memory, so that most of what is measured
// is the root.
func openFlat(tb testing.TB, n int) *DB {
	db := openTest(tb, Options{})
	b := db.NewBatch()
	for i := range n {
		must(tb, b.Set(flatKey(i), make([]byte, 128)))
	}
	_, err := b.Commit(tb.Context(), DefaultDurability)
	must(tb, err)
	return db
}

func flatKey(i int) []byte { return fmt.Appendf(nil, "key %018d", i) }

func BenchmarkViewGet(b *testing.B) {
	db := openFlat(b, 1000)
	key := flatKey(7)
	b.ReportAllocs()
	for b.Loop() {
		err := db.View(func(txn *Txn) error {
			it, err := txn.Get(key)
			if err == nil {
				_, err = it.Value()
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTxnGet(b *testing.B) {
	db := openFlat(b, 1000)
	key := flatKey(7)
	txn := db.NewTransaction(false)
	defer txn.Discard()
	b.ReportAllocs()
	for b.Loop() {
		it, err := txn.Get(key)
		if err == nil {
			_, err = it.Value()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFirst(b *testing.B) { benchmarkEnds(b, (*Txn).First) }

func BenchmarkLast(b *testing.B) { benchmarkEnds(b, (*Txn).Last) }

// benchmarkEnds compares find with BenchmarkTxnGet, which gets from the same store, and with an
// iterator.
func benchmarkEnds(b *testing.B, find func(t *Txn, lo, hi []byte) (*Item, error)) {
	db := openFlat(b, 1000)
	lo, hi := flatKey(500), flatKey(700)
	for _, files := range []bool{false, true} {
		name := "memory"
		if files {
			name = "files"
			must(b, db.Flush(b.Context()))
		}
		b.Run(name, func(b *testing.B) {
			txn := db.NewTransaction(false)
			defer txn.Discard()
			b.ReportAllocs()
			for b.Loop() {
				it, err := find(txn, lo, hi)
				if err == nil {
					_, err = it.Value()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+" by iterator", func(b *testing.B) {
			txn := db.NewTransaction(false)
			defer txn.Discard()
			b.ReportAllocs()
			for b.Loop() {
				it := txn.NewIterator(IteratorOptions{Upper: hi})
				it.Seek(lo)
				if _, err := it.Item().Value(); err != nil {
					b.Fatal(err)
				}
				it.Close()
			}
		})
		b.Run(name+" by get", func(b *testing.B) {
			txn := db.NewTransaction(false)
			defer txn.Discard()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := txn.Get(lo); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDBGet(b *testing.B) {
	db := openFlat(b, 1000)
	key := flatKey(7)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.Get(key); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIterator(b *testing.B) {
	const n = 1000
	db := openFlat(b, n)
	for _, bench := range []struct {
		name string
		o    IteratorOptions
	}{
		{"forward", IteratorOptions{}},
		{"reverse", IteratorOptions{Reverse: true}},
		{"all versions", IteratorOptions{AllVersions: true}},
		{"prefix", IteratorOptions{Prefix: []byte("key 0")}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			txn := db.NewTransaction(false)
			defer txn.Discard()
			b.ReportAllocs()
			for i := 0; i < b.N; {
				it := txn.NewIterator(bench.o)
				for it.Rewind(); it.Valid() && i < b.N; it.Next() {
					i++
					if len(it.Item().Key()) == 0 {
						b.Fatal("no key")
					}
				}
				it.Close()
			}
		})
	}
	b.Run("source alone", func(b *testing.B) {
		txn := db.NewTransaction(false)
		defer txn.Discard()
		src := txn.pin.Iterator()
		for i := 0; i < b.N; {
			for ok := src.First(); ok && i < b.N; ok = src.Next() {
				i++
				if len(src.Entry().Key) == 0 {
					b.Fatal("no key")
				}
			}
		}
	})
	b.Run("seek and close", func(b *testing.B) {
		txn := db.NewTransaction(false)
		defer txn.Discard()
		b.ReportAllocs()
		for b.Loop() {
			it := txn.NewIterator(IteratorOptions{})
			it.Seek([]byte("key"))
			it.Close()
		}
	})
}

func BenchmarkUpdateSet(b *testing.B) {
	db := openTest(b, Options{Durability: Buffered})
	key, value := []byte("0123456789abcdef"), make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		if err := db.Update(func(txn *Txn) error { return txn.Set(key, value) }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTxnSet(b *testing.B) {
	db := openTest(b, Options{})
	value := make([]byte, 100)
	var key [8]byte
	b.ReportAllocs()
	txn := db.NewTransaction(true)
	for i := 0; b.Loop(); i++ {
		binary.BigEndian.PutUint64(key[:], uint64(i))
		if err := txn.Set(key[:], value); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 999 {
			txn.Discard()
			txn = db.NewTransaction(true)
		}
	}
	txn.Discard()
}

// BenchmarkVersionSuffix reads the newest version at or below one of a key in a store whose keys end
// in ^version, big-endian, as Dgraph and Cosmos have them: by an iterator for each read, and by one
// that stays open, beside a get of the whole key. Keys and version are different each time; all of the
// store is in runs, and in memory.
func BenchmarkVersionSuffix(b *testing.B) {
	const keys, versions = 20_000, 10
	db := openTest(b, Options{})
	suffixed := func(dst []byte, i, v int) []byte {
		dst = fmt.Appendf(dst[:0], "account/%012d/", i)
		return binary.BigEndian.AppendUint64(dst, ^uint64(v))
	}
	batch := db.NewBatch()
	for i := range keys {
		for v := range versions {
			must(b, batch.Set(suffixed(nil, i, 10*v), make([]byte, 32)))
		}
	}
	_, err := batch.Commit(b.Context(), Buffered)
	must(b, err)
	must(b, db.Compact(b.Context()))
	txn := db.NewTransaction(false)
	defer txn.Discard()
	run := func(name string, off int, read func(key []byte) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var list [1 << 12][]byte
			for n := range list {
				list[n] = suffixed(nil, n*7919%keys, 10*(n%versions)+off)
			}
			n := 0
			for b.Loop() {
				n++
				if err := read(list[n%len(list)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("get", 0, func(key []byte) error {
		_, err := txn.Get(key)
		return err
	})
	seek := func(it *Iterator, key []byte) error {
		it.Seek(key)
		if !it.Valid() || len(it.Item().Key()) != len(key) {
			return fmt.Errorf("%q: %w", key, it.Err())
		}
		return nil
	}
	run("open", 5, func(key []byte) error {
		it := txn.NewIterator(IteratorOptions{KeysOnly: true, Prefix: key[:len(key)-8]})
		defer it.Close()
		return seek(it, key)
	})
	it := txn.NewIterator(IteratorOptions{KeysOnly: true})
	defer it.Close()
	run("seek", 5, func(key []byte) error { return seek(it, key) })
}

// BenchmarkAdd adds to durable counters, in a store on disk: each of so many goroutines to a key of its
// own, or all to one.
func BenchmarkAdd(b *testing.B) {
	for _, c := range []struct{ goroutines, keys int }{{1, 1}, {64, 1}, {64, 64}} {
		b.Run(fmt.Sprintf("goroutines=%d/keys=%d", c.goroutines, c.keys), func(b *testing.B) {
			db := openTest(b, Options{Dir: b.TempDir()})
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var work sync.WaitGroup
			for g := range c.goroutines {
				work.Go(func() {
					key := fmt.Appendf(nil, "counter %d", g%c.keys)
					for left.Add(-1) >= 0 {
						if _, err := db.main.Add(b.Context(), key, 1); err != nil {
							b.Error(err)
						}
					}
				})
			}
			work.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "adds/s")
		})
	}
}

// BenchmarkLoaderSorted and BenchmarkWriterSorted write the same pairs, in the order of keys, and
// end when they are durable. Compare their MB/s.
func BenchmarkLoaderSorted(b *testing.B) {
	benchmarkSorted(b, func(db *DB) (func(key, value []byte) error, func() error) {
		l, err := db.main.NewLoader(b.Context(), LoadOptions{Sorted: true})
		must(b, err)
		return l.Set, func() error {
			_, err := l.Finish()
			return err
		}
	})
}

func BenchmarkWriterSorted(b *testing.B) {
	benchmarkSorted(b, func(db *DB) (func(key, value []byte) error, func() error) {
		w := db.NewWriter(b.Context())
		return w.Set, w.Close
	})
}

// benchmarkSorted writes 256 MB of pairs b.N times, each time to a new store.
func benchmarkSorted(b *testing.B, begin func(*DB) (set func(key, value []byte) error, end func() error)) {
	for _, size := range []int{16, 128, 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			value, key := make([]byte, size), make([]byte, 16)
			n := 256 << 20 / (size + len(key))
			b.SetBytes(int64(n * (size + len(key))))
			for b.Loop() {
				b.StopTimer()
				db, err := Open(Options{Dir: b.TempDir()})
				must(b, err)
				b.StartTimer()
				set, end := begin(db)
				for i := range n {
					binary.BigEndian.PutUint64(key[8:], uint64(i))
					binary.LittleEndian.PutUint64(value, uint64(i)*0x9e3779b97f4a7c15)
					if err := set(key, value); err != nil { // must takes as long as a set
						b.Fatal(err)
					}
				}
				must(b, end())
				b.StopTimer()
				must(b, db.Close())
				b.StartTimer()
			}
		})
	}
}
