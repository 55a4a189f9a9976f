package iterator

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
)

// slice is as cheap a source as there can be.
type slice struct {
	source
}

func (s *slice) First() bool         { s.pos = 0; return len(s.entries) > 0 }
func (s *slice) Next() bool          { s.pos++; return s.pos < len(s.entries) }
func (s *slice) Entry() *entry.Entry { return &s.entries[s.pos] }

func benchSources(k, n, run int) []Iterator {
	r := rand.New(rand.NewPCG(1, 2))
	lists := make([][]entry.Entry, k)
	to := 0
	for i := range n {
		if i%run == 0 {
			to = r.IntN(k)
		}
		lists[to] = append(lists[to], entry.Entry{Key: fmt.Appendf(nil, "vsz=00016-k=%010d", i), Version: 1, Kind: entry.Set})
	}
	its := make([]Iterator, k)
	for i, l := range lists {
		its[i] = &slice{source{entries: l}}
	}
	return its
}

func BenchmarkMerge(b *testing.B) {
	const n = 100_000
	for _, run := range []int{1, 100} {
		for _, k := range []int{1, 2, 4, 8} {
			b.Run(fmt.Sprintf("k=%d/run=%d", k, run), func(b *testing.B) {
				it := Merge(benchSources(k, n, run))
				walk(b, it, n)
			})
		}
	}
}

func walk(b *testing.B, it Iterator, n int) {
	for b.Loop() {
		count := 0
		for ok := it.First(); ok; ok = it.Next() {
			count++
		}
		if count != n {
			b.Fatalf("%d entries", count)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
	b.ReportMetric(0, "ns/op")
}
