package memtable

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
)

// benchEntries are random keys of 22 bytes with values of 16, and their hashes.
func benchEntries(n int) ([]entry.Entry, []uint64) {
	r := rand.New(rand.NewPCG(1, 2))
	entries, hashes := make([]entry.Entry, n), make([]uint64, n)
	value := make([]byte, 16)
	for i := range entries {
		key := fmt.Appendf(nil, "vsz=%05d-k=%010d", 16, r.IntN(100*n))
		entries[i] = entry.Entry{Key: key, Value: value, Version: entry.Version(i + 1), Kind: entry.Set}
		hashes[i] = hash.Sum(seed, key)
	}
	return entries, hashes
}

func filled(b *testing.B, entries []entry.Entry, hashes []uint64) *Table {
	tab := New(Options{Seed: seed, Limit: 64 << 20})
	for i := range entries {
		if err := tab.Add(hashes[i], &entries[i]); err != nil {
			b.Fatal(err)
		}
	}
	return tab
}

func perEntry(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
	b.ReportMetric(0, "ns/op")
}

var benchSizes = []int{200_000, 1_000_000}

func BenchmarkInsert(b *testing.B) {
	for _, n := range benchSizes {
		entries, hashes := benchEntries(n)
		b.Run(fmt.Sprintf("table/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				filled(b, entries, hashes).Release()
			}
			perEntry(b, n)
		})
		b.Run(fmt.Sprintf("skiplist/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				l := newSkipList(160 * n)
				for i := range entries {
					l.add(&entries[i])
				}
			}
			perEntry(b, n)
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, n := range benchSizes {
		entries, hashes := benchEntries(n)
		tab := filled(b, entries, hashes)
		r := rand.New(rand.NewPCG(3, 4))
		var e entry.Entry
		b.Run(fmt.Sprintf("hit/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				i := r.IntN(n)
				if !tab.Get(entries[i].Key, hashes[i], entry.MaxVersion, &e) {
					b.Fatal("missing")
				}
			}
		})
		b.Run(fmt.Sprintf("miss/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				if tab.Get(entries[0].Key, r.Uint64(), entry.MaxVersion, &e) {
					b.Fatal("found")
				}
			}
		})
	}
}

func BenchmarkSorted(b *testing.B) {
	for _, n := range benchSizes {
		tab := filled(b, first(benchEntries(n)), second(benchEntries(n)))
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			for b.Loop() {
				tab.view.Store(&view{})
				tab.Sorted()
			}
			perEntry(b, n)
		})
	}
}

func BenchmarkIterate(b *testing.B) {
	for _, n := range benchSizes {
		entries, hashes := benchEntries(n)
		tab := filled(b, entries, hashes)
		it := tab.Iterator()
		var sum int
		b.Run(fmt.Sprintf("levels=1/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				for ok := it.First(); ok; ok = it.Next() {
					sum += len(it.Entry().Value)
				}
			}
			perEntry(b, n)
		})
	}
}

// A commit and a short scan, again and again: what the sorted views cost when
// they are asked for all the time.
func BenchmarkInsertThenSeek(b *testing.B) {
	entries, hashes := benchEntries(400_000)
	tab := filled(b, entries[:200_000], hashes[:200_000])
	i := 200_000
	for b.Loop() {
		if i == len(entries) {
			b.StopTimer()
			tab, i = filled(b, entries[:200_000], hashes[:200_000]), 200_000
			b.StartTimer()
		}
		if err := tab.Add(hashes[i], &entries[i]); err != nil {
			b.Fatal(err)
		}
		it := tab.Iterator()
		if !it.SeekGE(entries[i].Key) {
			b.Fatal("missing")
		}
		it.Close()
		i++
	}
}

func BenchmarkChangedSince(b *testing.B) {
	entries, hashes := benchEntries(200_000)
	tab := filled(b, entries, hashes)
	for _, behind := range []int{0, 10, 1000, 100_000} {
		b.Run(fmt.Sprintf("behind=%d", behind), func(b *testing.B) {
			for b.Loop() {
				i := 7
				if tab.ChangedSince(entries[i].Key, append(entries[i].Key[:22:22], 0), entry.Version(200_000-behind)) {
					b.Fatal("changed")
				}
			}
		})
	}
}

func first[A, B any](a A, _ B) A  { return a }
func second[A, B any](_ A, b B) B { return b }
