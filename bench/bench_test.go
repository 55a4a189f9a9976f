package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// The tests start this binary again as a child, as the command does.
func TestMain(m *testing.M) {
	runChild()
	os.Exit(m.Run())
}

// TestStores checks that every store returns what was written to it, so that
// none is fast by doing less.
func TestStores(t *testing.T) {
	for _, m := range Makers() {
		t.Run(m.Name, func(t *testing.T) {
			for _, size := range []int{0, 16, 1024} {
				data := NewDataset(5000, size)
				s := loaded(t, m, data, Config{})
				if err := data.Check(s); err != nil {
					t.Errorf("values of %d B: %v", size, err)
				}
				for i := range 1000 {
					sum, found, err := s.Get(data.AppendKey(nil, i))
					if err != nil || !found || sum != touch(data.Value(i)) {
						t.Fatalf("values of %d B: Get of key %d: sum %d, found %v, %v", size, i, sum, found, err)
					}
					if found, err := s.Has(data.AppendKey(nil, i)); err != nil || !found {
						t.Fatalf("values of %d B: Has of key %d: %v, %v", size, i, found, err)
					}
					if found, err := s.Has(data.AppendMissing(nil, i)); err != nil || found {
						t.Fatalf("values of %d B: Has of the missing key behind %d: %v, %v", size, i, found, err)
					}
					if _, found, err := s.Get(data.AppendMissing(nil, i)); err != nil || found {
						t.Fatalf("values of %d B: Get of the missing key behind %d: %v, %v", size, i, found, err)
					}
				}
			}
		})
	}
}

// TestSeekN checks that seeks see the same pairs everywhere, at the end too.
func TestSeekN(t *testing.T) {
	data := NewDataset(1000, 100)
	for _, m := range Makers() {
		s := loaded(t, m, data, Config{})
		for _, from := range []int{0, 7, 500, 949, 950, 951, 999} {
			var want Tally
			for i := from; i < min(from+seekPairs, data.Keys); i++ {
				want.add(data.AppendKey(nil, i))
				want.add(data.Value(i))
				want.Entries++
			}
			if got, err := s.SeekN(data.AppendKey(nil, from), seekPairs); err != nil || got != want {
				t.Errorf("%s: SeekN from key %d saw %v, %v; want %v", m.Name, from, got, err, want)
			}
		}
	}
}

// TestCheckNotices makes sure that Check can fail.
func TestCheckNotices(t *testing.T) {
	data := NewDataset(100, 16)
	for _, m := range Makers() {
		s := loaded(t, m, data, Config{Sync: true, Writers: 1})
		if err := s.CommitOne(data.AppendKey(nil, 3), []byte("another value")); err != nil {
			t.Fatal(err)
		}
		if err := data.Check(s); err == nil {
			t.Errorf("%s: Check passed a changed value", m.Name)
		}
	}
}

func TestKeysSortAsNumbers(t *testing.T) {
	data := NewDataset(1, 1024)
	for _, i := range []int{0, 1, 9, 10, 99_999, 1_000_000} {
		if got, want := string(data.AppendKey(nil, i)), fmt.Sprintf("vsz=%05d-k=%010d", 1024, 2*i); got != want {
			t.Errorf("key %d is %q, want %q", i, got, want)
		}
		if got, want := string(data.AppendMissing(nil, i)), fmt.Sprintf("vsz=%05d-k=%010d", 1024, 2*i+1); got != want {
			t.Errorf("missing key %d is %q, want %q", i, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		in := slices.Clone(c.in)
		if got := median(c.in); got != c.want || !slices.Equal(in, c.in) {
			t.Errorf("median(%v) = %v, want %v; left %v", in, got, c.want, c.in)
		}
	}
}

// TestCommand runs everything at a small scale, from flags to tables.
func TestCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for stores to come to rest")
	}
	dir := t.TempDir()
	var out, log bytes.Buffer
	err := run([]string{
		"-workloads", "load,get,miss,scan,seek,reopen,empty", "-values", "1024", "-keys", "2000",
		"-rounds", "1", "-ops", "1000", "-dir", dir, "-json", filepath.Join(dir, "results.json"),
	}, &out, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	for _, m := range Makers() {
		want := 9
		if m.MinValue > commitValue {
			want-- // for an empty store a variant is no different
		}
		if got := strings.Count(out.String(), "\n  "+m.Name+" "); got != want {
			t.Errorf("%s is in %d tables, want %d\n%s", m.Name, got, want, out.String())
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left in the directory: %v, %v; want the results only", left, err)
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"-stores", "nosuch"}, {"-workloads", "nosuch"}, {"-values", "16,x"}, {"-rounds", "0"}, {"-nosuch"},
	} {
		if err := run(args, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// loaded opens a store with data in a directory of the test, which closes it.
func loaded(tb testing.TB, m Maker, data *Dataset, c Config) Store {
	tb.Helper()
	c.Dir, c.ValueSize, c.DataBytes = tb.TempDir(), data.ValueSize, data.RawBytes()
	s, err := m.Open(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := data.Load(s); err != nil {
		tb.Fatal(err)
	}
	return s
}

// The benchmarks are the workloads at a small scale: a smoke test, and a first
// look while working. What they leave out is in the command.

const benchKeys = 50_000

var benchSizes = []int{16, 128, 1024}

func eachStore(b *testing.B, bench func(b *testing.B, m Maker, data *Dataset)) {
	keys, sizes := benchKeys, benchSizes
	if testing.Short() {
		keys, sizes = 5000, []int{128}
	}
	for _, size := range sizes {
		data := NewDataset(keys, size)
		for _, m := range Makers() {
			if size >= m.MinValue {
				b.Run(fmt.Sprintf("%s/value=%d", m.Name, size), func(b *testing.B) { bench(b, m, data) })
			}
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	eachStore(b, func(b *testing.B, m Maker, data *Dataset) {
		for b.Loop() {
			b.StopTimer()
			s, err := m.Open(Config{Dir: b.TempDir(), ValueSize: data.ValueSize, DataBytes: data.RawBytes()})
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			err = data.Load(s)
			b.StopTimer()
			if err := errors.Join(err, s.Close()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*data.Keys), "ns/entry")
	})
}

func BenchmarkGet(b *testing.B) {
	eachStore(b, func(b *testing.B, m Maker, data *Dataset) {
		s, keys := loaded(b, m, data, Config{}), data.Sample(1<<14, 1, false)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if err := getPresent(s, keys[i%len(keys)]); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}

func BenchmarkMiss(b *testing.B) {
	eachStore(b, func(b *testing.B, m Maker, data *Dataset) {
		s, keys := loaded(b, m, data, Config{}), data.Sample(1<<14, 1, true)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if found, err := s.Has(keys[i%len(keys)]); err != nil || found {
				b.Fatal(found, err)
			}
			i++
		}
	})
}

func BenchmarkScanKeys(b *testing.B) {
	eachStore(b, func(b *testing.B, m Maker, data *Dataset) {
		benchScan(b, loaded(b, m, data, Config{}).ScanKeys)
	})
}

func BenchmarkScanValues(b *testing.B) {
	eachStore(b, func(b *testing.B, m Maker, data *Dataset) {
		benchScan(b, loaded(b, m, data, Config{}).ScanValues)
	})
}

func benchScan(b *testing.B, scan func() (Tally, error)) {
	b.ReportAllocs()
	entries := 0
	for b.Loop() {
		t, err := scan()
		if err != nil {
			b.Fatal(err)
		}
		entries += t.Entries
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(entries), "ns/entry")
}

func BenchmarkSeek50(b *testing.B) {
	eachStore(b, func(b *testing.B, m Maker, data *Dataset) {
		s, keys := loaded(b, m, data, Config{}), data.Sample(1<<14, 1, false)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, err := s.SeekN(keys[i%len(keys)], seekPairs); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}

func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 64} {
		for _, m := range Makers() {
			if commitValue < m.MinValue {
				continue
			}
			b.Run(fmt.Sprintf("%s/writers=%d", m.Name, writers), func(b *testing.B) {
				data := NewDataset(1000, commitValue)
				s := loaded(b, m, data, Config{Sync: true, Writers: writers})
				keys := data.Sample(1<<14, 1, true)
				var next atomic.Int64
				b.ResetTimer()
				err := parallel(writers, func(int) error {
					for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
						if err := s.CommitOne(keys[i%int64(len(keys))], data.Value(int(i))); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			})
		}
	}
}
