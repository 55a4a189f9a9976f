package run

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
)

const benchKeys = 2_000_000

func benchEntry(key []byte, i int) []byte { return fmt.Appendf(key[:0], "\x00vsz=%05d-k=%010d", 16, i) }

// benchRun writes n entries, each with every other number as its key.
func benchRun(b *testing.B, n, value int) *Reader {
	dir := b.TempDir()
	w := NewWriter(writerConfig(dir))
	e := entry.Entry{Kind: entry.Set, Value: make([]byte, value)}
	if value > 1000 {
		e.Value, e.Separated = nil, true
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		e.Key = benchEntry(e.Key, 2*i)
		if e.Separated {
			e.Handle = entry.Handle{Segment: entry.FileNum(rng.IntN(100) + 1), Offset: uint64(rng.IntN(1<<25)) * 8, Length: uint64(value)}
		}
		e.Version = entry.Version(rng.IntN(1<<30)) + 1
		if err := w.Add(&e); err != nil {
			b.Fatal(err)
		}
	}
	m, err := w.Finish()
	if err != nil {
		b.Fatal(err)
	}
	r := openRun(b, openConfig(dir, false), m)
	it := r.Iterator()
	for ok := it.First(); ok; ok = it.Next() {
	}
	if it.Err() != nil {
		b.Fatal(it.Err())
	}
	// Verify the pages of the index too.
	var d entry.Entry
	for i := range 200000 {
		k := benchEntry(nil, 2*((i*104729)%n))
		if ok, err := r.Get(k, checksum.HashKey(testSeed, k), entry.MaxVersion, &d); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
	return r
}

func BenchmarkBuild(b *testing.B) {
	for _, value := range []int{16, 128} {
		b.Run(fmt.Sprint(value), func(b *testing.B) {
			const n = 1_000_000
			keys := make([]byte, 0, 24*n)
			for i := range n {
				keys = append(keys, benchEntry(nil, i)...)
			}
			size := len(keys) / n
			e := entry.Entry{Kind: entry.Set, Value: make([]byte, value)}
			dir := b.TempDir()
			cfg := writerConfig(dir)
			b.ResetTimer()
			for range b.N {
				w := NewWriter(cfg)
				for i := range n {
					e.Key = keys[i*size:][:size]
					e.Version = entry.Version(i) + 1
					if err := w.Add(&e); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				b.StartTimer()
				if err := w.flushChunk(); err != nil {
					b.Fatal(err)
				}
				if err := w.writeFilter(true); err != nil {
					b.Fatal(err)
				}
				b.StopTimer() // the sync is the device's
				w.Abort()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, value := range []int{16, 128, 1024} { // the last is separated
		r := benchRun(b, benchKeys, value)
		for _, missing := range []int{0, 1} {
			b.Run(fmt.Sprintf("value=%d/missing=%d", value, missing), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 2))
				const probes = 1 << 18
				var keys []byte
				for range probes {
					keys = append(keys, benchEntry(nil, 2*rng.IntN(benchKeys)+missing)...)
				}
				size := len(keys) / probes
				var e entry.Entry
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					k := keys[i&(probes-1)*size:][:size]
					i++
					ok, err := r.Get(k, checksum.HashKey(testSeed, k), entry.MaxVersion, &e)
					if err != nil || ok != (missing == 0) {
						b.Fatal(ok, err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("value=%d/filtered", value), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			yes := 0
			for b.Loop() {
				if r.MayContain(nil, rng.Uint64()) {
					yes++
				}
			}
			b.ReportMetric(100*float64(yes)/float64(b.N), "%false")
		})
	}
}

func BenchmarkScan(b *testing.B) {
	for _, value := range []int{16, 128, 1024} { // the last is separated
		r := benchRun(b, benchKeys, value)
		it := r.Iterator()
		for _, dir := range []string{"forward", "backward"} {
			b.Run(fmt.Sprintf("value=%d/%s", value, dir), func(b *testing.B) {
				b.ReportAllocs()
				start, move := it.First, it.Next
				if dir == "backward" {
					start, move = it.Last, it.Prev
				}
				ok := start()
				for b.Loop() {
					if !ok {
						start()
					}
					ok = move()
				}
			})
		}
		b.Run(fmt.Sprintf("value=%d/seek", value), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			var k []byte
			b.ReportAllocs()
			for b.Loop() {
				k = benchEntry(k, rng.IntN(2*benchKeys-2))
				if !it.SeekGE(k) {
					b.Fatal(it.Err())
				}
			}
		})
	}
}
