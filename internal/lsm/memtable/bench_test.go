package memtable

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
)

// load is random keys of 22 bytes with their hashes. It is flat, so that the
// collector finds as little to scan in it as in a table.
type load struct {
	keys   []byte
	hashes []uint64
}

const benchKey = 22

func newLoad(n int) *load {
	r := rand.New(rand.NewPCG(1, 2))
	l := &load{}
	for i := range n {
		l.keys = fmt.Appendf(l.keys, "vsz=%05d-k=%010d", 16, r.IntN(100*n))
		l.hashes = append(l.hashes, checksum.HashKey(seed, l.key(i)))
	}
	return l
}

func (l *load) key(i int) []byte { return l.keys[i*benchKey : (i+1)*benchKey] }

// each calls add for the entries from the one on, to the other, with values of 16 bytes.
func (l *load) each(from, to int, add func(e *entry.Entry)) {
	e := entry.Entry{Kind: entry.Set, Value: make([]byte, 16)}
	for i := from; i < to; i++ {
		e.Key, e.Version = l.key(i), entry.Version(i+1)
		add(&e)
	}
}

func (l *load) table(b *testing.B, n int) *Table {
	tab := New(Options{Seed: seed, Limit: 64 << 20})
	l.each(0, n, func(e *entry.Entry) {
		if err := tab.Add(e); err != nil {
			b.Fatal(err)
		}
	})
	return tab
}

func perEntry(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
	b.ReportMetric(0, "ns/op")
}

var benchSizes = []int{200_000, 1_000_000}

func BenchmarkInsert(b *testing.B) {
	for _, n := range benchSizes {
		l := newLoad(n)
		b.Run(fmt.Sprintf("table/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				l.table(b, n).Release()
			}
			perEntry(b, n)
		})
		b.Run(fmt.Sprintf("skiplist/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				list := newSkipList(160 * n)
				l.each(0, n, func(e *entry.Entry) { list.add(e) })
			}
			perEntry(b, n)
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, n := range benchSizes {
		l := newLoad(n)
		tab := l.table(b, n)
		r := rand.New(rand.NewPCG(3, 4))
		var e entry.Entry
		b.Run(fmt.Sprintf("hit/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				i := r.IntN(n)
				if !tab.Get(l.key(i), l.hashes[i], entry.MaxVersion, &e) {
					b.Fatal("missing")
				}
			}
		})
		b.Run(fmt.Sprintf("miss/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				if tab.Get(l.key(0), r.Uint64(), entry.MaxVersion, &e) {
					b.Fatal("found")
				}
			}
		})
	}
}

func BenchmarkSorted(b *testing.B) {
	for _, n := range benchSizes {
		tab := newLoad(n).table(b, n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			for b.Loop() {
				tab.view.Store(&view{arena: &tab.arena})
				tab.Iterator()
			}
			perEntry(b, n)
		})
	}
}

func BenchmarkIterate(b *testing.B) {
	for _, n := range benchSizes {
		l := newLoad(n)
		tab := l.table(b, n)
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
	const half = 200_000
	l := newLoad(2 * half)
	tab, i := l.table(b, half), half
	for b.Loop() {
		if i == 2*half {
			b.StopTimer()
			tab.Release()
			tab, i = l.table(b, half), half
			b.StartTimer()
		}
		l.each(i, i+1, func(e *entry.Entry) {
			if err := tab.Add(e); err != nil {
				b.Fatal(err)
			}
		})
		it := tab.Iterator()
		if !it.SeekGE(l.key(i)) {
			b.Fatal("missing")
		}
		it.Close()
		i++
	}
}

func BenchmarkChangedSince(b *testing.B) {
	const n = 200_000
	l := newLoad(n)
	tab := l.table(b, n)
	lo := l.key(7)
	hi := append(lo[:benchKey:benchKey], 0)
	for _, behind := range []int{0, 10, 1000, 100_000} {
		b.Run(fmt.Sprintf("behind=%d", behind), func(b *testing.B) {
			tab.SortSince(entry.Version(n - behind))
			for b.Loop() {
				if tab.ChangedSince(lo, hi, entry.Version(n-behind)) {
					b.Fatal("changed")
				}
			}
		})
	}
}
