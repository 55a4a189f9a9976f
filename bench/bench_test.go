package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock/bench/internal/kv"
	"github.com/brockdb/brock/bench/internal/result"
)

// The tests start this binary again as a child, as the command does.
func TestMain(m *testing.M) {
	runChild()
	os.Exit(m.Run())
}

// TestStores checks that every store returns what was written to it, so that
// none is fast by doing less.
func TestStores(t *testing.T) {
	for _, m := range append(kv.Makers(), kv.Encrypted()...) {
		t.Run(m.Name, func(t *testing.T) {
			for _, size := range []int{0, 16, 1024} {
				data := NewDataset(5000, size)
				s := loaded(t, m, data, kv.Config{})
				if err := data.Check(s); err != nil {
					t.Errorf("values of %d B: %v", size, err)
				}
				for i := range 1000 {
					checkKey(t, s, data, i)
				}
			}
		})
	}
}

func checkKey(t *testing.T, s kv.Store, data *Dataset, i int) {
	t.Helper()
	there, missing := data.AppendKey(nil, i), data.AppendMissing(nil, i)
	if sum, found, err := s.Get(there); err != nil || !found || sum != kv.Touch(data.Value(i)) {
		t.Fatalf("Get of key %d: sum %d, found %v, %v", i, sum, found, err)
	}
	if found, err := has(s, there); err != nil || !found {
		t.Fatalf("Has of key %d: %v, %v", i, found, err)
	}
	if found, err := has(s, missing); err != nil || found {
		t.Fatalf("Has of the missing key behind %d: %v, %v", i, found, err)
	}
	if _, found, err := s.Get(missing); err != nil || found {
		t.Fatalf("Get of the missing key behind %d: %v, %v", i, found, err)
	}
	c, ok := s.(kv.Copier)
	if !ok {
		return
	}
	if v, found, err := c.AppendValue([]byte("x"), there); err != nil || !found || string(v) != "x"+string(data.Value(i)) {
		t.Fatalf("AppendValue of key %d: %d bytes, %v, %v", i, len(v), found, err)
	}
	if _, found, err := c.AppendValue(nil, missing); err != nil || found {
		t.Fatalf("AppendValue of the missing key behind %d: %v, %v", i, found, err)
	}
}

// TestSeeks checks that seeks see the same pairs everywhere, at the end too.
func TestSeeks(t *testing.T) {
	data := NewDataset(1000, 100)
	for _, m := range kv.Makers() {
		s := loaded(t, m, data, kv.Config{})
		for _, from := range []int{0, 7, 500, 949, 950, 951, 999} {
			var want kv.Tally
			for i := from; i < min(from+seekPairs, data.Keys); i++ {
				want.Add(data.AppendKey(nil, i))
				want.Add(data.Value(i))
				want.Entries++
			}
			if got, err := scan(s, data.AppendKey(nil, from), seekPairs, true); err != nil || got != want {
				t.Errorf("%s: a scan from key %d saw %v, %v; want %v", m.Name, from, got, err, want)
			}
		}
	}
}

// TestDeletes checks that changes are made, deletes too.
func TestDeletes(t *testing.T) {
	data := NewDataset(100, 16)
	for _, m := range kv.Makers() {
		s := loaded(t, m, data, kv.Config{})
		key := data.AppendKey(nil, 7)
		if err := applier(s).Apply([]kv.Change{{Key: key, Delete: true}, {Key: data.AppendMissing(nil, 7), Value: []byte("v")}}); err != nil {
			t.Fatal(m.Name, err)
		}
		if found, err := has(s, key); found || err != nil {
			t.Errorf("%s: a deleted key is there: %v, %v", m.Name, found, err)
		}
		if got, err := scan(s, nil, -1, false); got.Entries != data.Keys || err != nil {
			t.Errorf("%s: %d keys, %v; want %d", m.Name, got.Entries, err, data.Keys)
		}
	}
}

// TestCheckNotices makes sure that Check can fail.
func TestCheckNotices(t *testing.T) {
	data := NewDataset(100, 16)
	for _, m := range kv.Makers() {
		s := loaded(t, m, data, kv.Config{Sync: true, Writers: 1})
		if err := s.Set(data.AppendKey(nil, 3), []byte("another value")); err != nil {
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

// TestCommand runs every workload on every store at a tiny scale, from flags to
// tables.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "results.json")
	args := []string{"-smoke", "-slices", "1", "-dir", dir, "-json", file, "-report", t.TempDir(),
		"-counts", "500", "-ops", "100", "-large-mb", "3", "-cold-mb", "4"}
	var out, log bytes.Buffer
	if err := run(args, &out, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	r, err := result.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range Workloads() {
		if w.Kind == Cold && len(r.LeftOut) > 0 {
			continue
		}
		for _, m := range kv.Makers() {
			if m.MinValue > onceValue && w.Kind == Once || w.Stores != nil && !slices.Contains(w.Stores, m.Name) {
				continue // without values of its own size, a variant is no different
			}
			if !ran(r, w, m.Name) {
				t.Errorf("%s did not run on %s", w.Name, m.Name)
			}
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

// ran says whether a store has a slice of a workload, with a value for each column.
func ran(r *result.Run, w Workload, store string) bool {
	for _, t := range r.Tables {
		if row := t.Row(store); t.Workload == w.Name && row != nil {
			return len(row.Slices) == 1 && len(row.Slices[0]) == len(w.Figures)
		}
	}
	return false
}

func TestCommandRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"-stores", "nosuch"}, {"-workloads", "nosuch"}, {"-values", "16,x"}, {"-slices", "0"}, {"-nosuch"}, {"word"},
		{"-counts", "12x"}, {"-readme", "README.md"}, {"-compare", "nosuch", "-from", fixedRun}, {"-counts", "1,2,3"}, {"-counts", "9999M"}, {"-from", "nosuch"}, {"-full", "-counts", "900M"},
	} {
		if err := run(append([]string{"-workloads", "get"}, args...), &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// loaded opens a store with data in a directory of the test, which closes it.
func loaded(tb testing.TB, m kv.Maker, data *Dataset, c kv.Config) kv.Store {
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

func eachStore(b *testing.B, bench func(b *testing.B, m kv.Maker, data *Dataset)) {
	keys, sizes := benchKeys, benchSizes
	if testing.Short() {
		keys, sizes = 5000, []int{128}
	}
	for _, size := range sizes {
		data := NewDataset(keys, size)
		for _, m := range kv.Makers() {
			if size >= m.MinValue {
				b.Run(fmt.Sprintf("%s/value=%d", m.Name, size), func(b *testing.B) { bench(b, m, data) })
			}
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	eachStore(b, func(b *testing.B, m kv.Maker, data *Dataset) {
		for b.Loop() {
			b.StopTimer()
			s, err := m.Open(kv.Config{Dir: b.TempDir(), ValueSize: data.ValueSize, DataBytes: data.RawBytes()})
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
	eachStore(b, func(b *testing.B, m kv.Maker, data *Dataset) {
		s, keys := loaded(b, m, data, kv.Config{}), data.Sample(1<<14, 1, false)
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
	eachStore(b, func(b *testing.B, m kv.Maker, data *Dataset) {
		s, keys := loaded(b, m, data, kv.Config{}), data.Sample(1<<14, 1, true)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if found, err := has(s, keys[i%len(keys)]); err != nil || found {
				b.Fatal(found, err)
			}
			i++
		}
	})
}

func BenchmarkScanKeys(b *testing.B) {
	eachStore(b, func(b *testing.B, m kv.Maker, data *Dataset) {
		benchScan(b, loaded(b, m, data, kv.Config{}), false)
	})
}

func BenchmarkScanValues(b *testing.B) {
	eachStore(b, func(b *testing.B, m kv.Maker, data *Dataset) {
		benchScan(b, loaded(b, m, data, kv.Config{}), true)
	})
}

func benchScan(b *testing.B, s kv.Store, values bool) {
	b.ReportAllocs()
	entries := 0
	for b.Loop() {
		t, err := scan(s, nil, -1, values)
		if err != nil {
			b.Fatal(err)
		}
		entries += t.Entries
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(entries), "ns/entry")
}

func BenchmarkSeek50(b *testing.B) {
	eachStore(b, func(b *testing.B, m kv.Maker, data *Dataset) {
		s, keys := loaded(b, m, data, kv.Config{}), data.Sample(1<<14, 1, false)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, err := scan(s, keys[i%len(keys)], seekPairs, true); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}

func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 64} {
		for _, m := range kv.Makers() {
			if commitValue < m.MinValue {
				continue
			}
			b.Run(fmt.Sprintf("%s/writers=%d", m.Name, writers), func(b *testing.B) {
				data := NewDataset(1000, commitValue)
				s := loaded(b, m, data, kv.Config{Sync: true, Writers: writers})
				keys := data.Sample(1<<14, 1, true)
				var next atomic.Int64
				b.ResetTimer()
				err := parallel(writers, func(int) error {
					for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
						if err := s.Set(keys[i%int64(len(keys))], data.Value(int(i))); err != nil {
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
