package pageio

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

func TestReadsDoNotDifferWithoutMapping(t *testing.T) {
	path := filepath.Join(t.TempDir(), "000001.run")
	data := make([]byte, 200_000)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	w, err := vfs.OS().Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	size := int64(len(data))
	for _, noMap := range []bool{false, true} {
		f, err := NewFiles(vfs.OS(), 0).Open(path, Options{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if noMap && f.Mapped() != nil {
			t.Error("mapped in spite of NoMap")
		}
		if f.Name() != "000001.run" || f.Size() != size {
			t.Errorf("got %s of %d bytes", f.Name(), f.Size())
		}
		for _, tc := range []struct {
			off int64
			n   int
			ok  bool
		}{
			{0, 0, true}, {0, len(data), true}, {size - 1, 1, true}, {size, 0, true}, {4095, 100_000, true},
			{size, 1, false}, {size - 1, 2, false}, {-1, 1, false}, {0, -1, false}, {1 << 62, 1 << 30, false}, {0, len(data) + 1, false},
		} {
			got, err := bytesAt(f, tc.off, tc.n)
			if tc.ok && (err != nil || !bytes.Equal(got, data[tc.off:tc.off+int64(tc.n)])) {
				t.Errorf("bytes at %d, %d, without mapping %v: wrong bytes or error %v", tc.off, tc.n, noMap, err)
			}
			if !tc.ok && !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("bytes at %d, %d, without mapping %v: got %v, want a corruption", tc.off, tc.n, noMap, err)
			}
			if err := f.Prime(tc.off, tc.n); (err == nil) != tc.ok {
				t.Errorf("Prime(%d, %d) without mapping %v: %v", tc.off, tc.n, noMap, err)
			}
			if tc.n < 0 || tc.n > 1<<20 {
				continue
			}
			p := make([]byte, tc.n)
			err = f.ReadFull(p, tc.off)
			if tc.ok && (err != nil || !bytes.Equal(p, data[tc.off:tc.off+int64(tc.n)])) || !tc.ok && !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("ReadFull(%d, %d) without mapping %v: %v", tc.off, tc.n, noMap, err)
			}
		}
	}
}

// bytesAt returns n verified bytes at off.
func bytesAt(f *File, off int64, n int) ([]byte, error) {
	s, _, err := f.SumPart(off, int64(n))
	if err != nil {
		return nil, err
	}
	defer s.Free()
	return s.Bytes(0, n)
}

func TestShortFile(t *testing.T) {
	raw, err := vfs.OS().Create(filepath.Join(t.TempDir(), "000002.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	files := NewFiles(vfs.OS(), 0)
	var short *errs.Corruption
	if _, err := files.Open(raw.Name(), Options{Size: 100}); !errors.As(err, &short) || short.File != "000002.log" || files.Count() != 0 {
		t.Errorf("opened as longer than it is: got %v, and %d descriptors", err, files.Count())
	}
	f, err := files.Open(raw.Name(), Options{Size: 100, Grows: true, NoMap: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var c *errs.Corruption
	if _, err := bytesAt(f, 10, 20); !errors.As(err, &c) || c.File != "000002.log" || c.Offset != 10 {
		t.Errorf("got %v, want a corruption of 000002.log at 10", err)
	}
}

func TestGuardLetsOtherPanicsPass(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func()
	}{
		{"panic", func() { panic("ours") }},
		{"nil pointer", func() { var p *[10]int; p[3]++ }},
		{"index", func() { p, i := []int{}, 3; p[i]++ }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			var err error
			defer Guard(Arm(), &err, "file")
			tc.do()
		})
	}
}

func TestGuardKeepsTheError(t *testing.T) {
	want := errors.New("other")
	do := func() (err error) {
		defer Guard(Arm(), &err, "file")
		return want
	}
	if err := do(); err != want {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestBits(t *testing.T) {
	const n = 100_000
	seed := draw.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	b, model := NewBitMemory(0, false).newBits(n, eachEpoch), map[int64]bool{}
	for range 20_000 {
		i := rng.Int64N(n)
		if rng.IntN(20) == 0 {
			i = rng.Int64N(n) / 1000 * 1000 // repeats
		}
		if was := b.TestSet(i); was != model[i] {
			t.Fatalf("seed %d: TestSet(%d) = %v, want %v", seed, i, was, model[i])
		}
		model[i] = true
	}
	for i := range int64(n) {
		if b.Test(i) != model[i] {
			t.Fatalf("seed %d: Test(%d) = %v", seed, i, !model[i])
		}
	}
	for _, i := range []int64{-1, n, 1 << 62, -1 << 63} {
		b.Set(i)
		if b.Test(i) {
			t.Errorf("%d is in a set of [0, %d)", i, n)
		}
	}
	b.Clear()
	for i := range model {
		if b.Test(i) {
			t.Fatalf("%d is in a cleared set", i)
		}
	}
}

func TestBitsTogether(t *testing.T) {
	const n = 3 * blockBits
	b := NewBitMemory(0, false).newBits(n, eachEpoch)
	var wg sync.WaitGroup
	first := make([]int, 4) // how many each goroutine was the first to set
	for g := range first {
		wg.Go(func() {
			for i := range int64(n) {
				if !b.TestSet(i) {
					first[g]++
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, k := range first {
		total += k
	}
	if total != n {
		t.Errorf("%d first settings, want %d", total, n)
	}
}

func BenchmarkGuard(b *testing.B) {
	guarded := func(i int) (n int, err error) {
		defer Guard(Arm(), &err, "file")
		return i, nil
	}
	b.ReportAllocs()
	sum := 0
	for i := range b.N {
		n, _ := guarded(i)
		sum += n
	}
	runtime.KeepAlive(sum)
}

func BenchmarkBitsTest(b *testing.B) {
	bits := NewBitMemory(0, false).newBits(1<<20, eachEpoch)
	for i := range int64(1 << 20) {
		bits.Set(i)
	}
	hits := 0
	for i := range b.N {
		if bits.Test(int64(i*7919) & (1<<20 - 1)) {
			hits++
		}
	}
	runtime.KeepAlive(hits)
}
