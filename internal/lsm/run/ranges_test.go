package run

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

func TestVerifyFindsNothingInASoundRun(t *testing.T) { forms(t, testVerifyFindsNothingInASoundRun) }

func testVerifyFindsNothingInASoundRun(t *testing.T) {
	each(t, func(t *testing.T, s *shape, all []entry.Entry, m layout.RunMeta, r *Reader) {
		r.Verify(t.Context(), func(c *errs.Corruption) { t.Error(c) }, nil)
	})
}

// randomRange is two keys at or near those of the run; hi may be nil.
func randomRange(rng *rand.Rand, all []entry.Entry) (lo, hi []byte) {
	pick := func() []byte {
		k := slices.Clone(all[rng.IntN(len(all))].Key)
		if rng.IntN(3) == 0 {
			k = append(k, 0)
		}
		return k
	}
	lo, hi = pick(), pick()
	switch rng.IntN(10) {
	case 0:
		lo = nil
	case 1:
		hi = nil
	}
	return lo, hi
}

func TestChangedSinceIsExact(t *testing.T) { forms(t, testChangedSinceIsExact) }

func testChangedSinceIsExact(t *testing.T) {
	each(t, func(t *testing.T, s *shape, all []entry.Entry, m layout.RunMeta, r *Reader) {
		rng := rand.New(rand.NewPCG(5, 5))
		for range 100 {
			lo, hi := randomRange(rng, all)
			since := all[rng.IntN(len(all))].Version - entry.Version(rng.IntN(2))
			if rng.IntN(2) == 0 {
				since = m.MaxVersion - entry.Version(rng.IntN(4))
			}
			want := false
			for i := lowerBound(all, lo); i < len(all) && (hi == nil || bytes.Compare(all[i].Key, hi) < 0); i++ {
				want = want || all[i].Version > since
			}
			if got, err := r.ChangedSince(lo, hi, since); got != want || err != nil {
				t.Fatalf("changed in [%.20q, %.20q) since %d: %v %v", lo, hi, since, got, err)
			}
		}
	})
}

func TestSizeIsNearTheTruth(t *testing.T) { forms(t, testSizeIsNearTheTruth) }

func testSizeIsNearTheTruth(t *testing.T) {
	each(t, func(t *testing.T, s *shape, all []entry.Entry, m layout.RunMeta, r *Reader) {
		if n, size, sep := r.Size(nil, nil, true); n != m.Entries || size != m.KeyBytes+m.ValueBytes || sep != m.SeparatedBytes {
			t.Errorf("whole run: %d %d %d", n, size, sep)
		}
		if s.value > 1000 || s.versions > 100 || s.keys < 100 || len(all[0].Key) > 1000 {
			return // a page holds too much of these
		}
		rng := rand.New(rand.NewPCG(6, 5))
		for range 50 {
			lo, hi := randomRange(rng, all)
			end := len(all)
			if hi != nil {
				end = lowerBound(all, hi)
			}
			want := max(end-lowerBound(all, lo), 0)
			n, _, _ := r.Size(lo, hi, true)
			if d := int(n) - want; d < -600-want/4 || d > 600+want/4 {
				t.Errorf("[%q, %q): %d entries, want about %d", lo, hi, n, want)
			}
		}
	})
}

func TestSplitCutsInOrder(t *testing.T) { forms(t, testSplitCutsInOrder) }

func testSplitCutsInOrder(t *testing.T) {
	each(t, func(t *testing.T, s *shape, all []entry.Entry, m layout.RunMeta, r *Reader) {
		for _, n := range []int{0, 1, 2, 3, 1000} {
			cuts := r.Split(nil, nil, n)
			if len(cuts) > max(n-1, 0) {
				t.Errorf("%d cuts for %d pieces", len(cuts), n)
			}
			prev := m.First
			for _, c := range cuts {
				if bytes.Compare(prev, c) >= 0 {
					t.Errorf("cut %.30q is not after %.30q", c, prev)
				}
				prev = c
			}
		}
		if len(r.chunks) > 4 && s.versions < 100 && len(r.Split(nil, nil, 2)) != 1 {
			t.Error("no cut in two")
		}
		if s.versions == 1 && len(all) > 10_000 && len(r.Split(nil, nil, 5)) != 4 {
			t.Error("no cuts in five")
		}
	})
}

func TestWriterRefusesDisorderAndRemovesItsFiles(t *testing.T) {
	forms(t, testWriterRefusesDisorderAndRemovesItsFiles)
}

func testWriterRefusesDisorderAndRemovesItsFiles(t *testing.T) {
	good := []entry.Entry{{Key: []byte("b"), Version: 5, Kind: entry.Set}}
	for name, bad := range map[string]entry.Entry{
		"lesser key":    {Key: []byte("a"), Version: 1, Kind: entry.Set},
		"newer version": {Key: []byte("b"), Version: 6, Kind: entry.Set},
		"same version":  {Key: []byte("b"), Version: 5, Kind: entry.Set},
		"no key":        {Version: 5, Kind: entry.Set},
		"long key":      {Key: bytes.Repeat([]byte("c"), entry.MaxKey+1), Version: 5, Kind: entry.Set},
		"unknown kind":  {Key: []byte("c"), Version: 5, Kind: 9},
		"high version":  {Key: []byte("c"), Version: entry.MaxVersion + 1, Kind: entry.Set},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := writerConfig(t.TempDir())
			w := NewWriter(cfg)
			if err := w.Add(&good[0]); err != nil {
				t.Fatal(err)
			}
			if err := w.flushChunk(); err != nil { // the file exists now
				t.Fatal(err)
			}
			if err := w.Add(&bad); !errors.Is(err, errs.ErrInvalid) {
				t.Fatalf("error %v", err)
			}
			if _, err := w.Finish(); !errors.Is(err, errs.ErrInvalid) {
				t.Errorf("finish: %v", err)
			}
			noFiles(t, cfg)
		})
	}
}

func noFiles(t *testing.T, cfg WriterConfig) {
	t.Helper()
	if names, err := vfs.OS().List(cfg.Dir); err != nil || len(names) != 0 {
		t.Errorf("files left: %q %v", names, err)
	}
}

func TestAbortRemovesFiles(t *testing.T) { forms(t, testAbortRemovesFiles) }

func testAbortRemovesFiles(t *testing.T) {
	s := &shapes[2]
	cfg := writerConfig(t.TempDir())
	cfg.FileBytes = s.fileBytes
	w := NewWriter(cfg)
	all := s.generate(1)
	for i := range all {
		if err := w.Add(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.created) < 2 {
		t.Fatal("no files to remove")
	}
	w.Abort()
	noFiles(t, cfg)
	if err := w.Add(&all[0]); err == nil {
		t.Error("add after abort")
	}
}

func TestEmptyRunHasNoFiles(t *testing.T) { forms(t, testEmptyRunHasNoFiles) }

func testEmptyRunHasNoFiles(t *testing.T) {
	cfg := writerConfig(t.TempDir())
	m, err := NewWriter(cfg).Finish()
	if err != nil || len(m.Files) != 0 {
		t.Fatal(m, err)
	}
	noFiles(t, cfg)
	if _, err := Open(openConfig(cfg.Dir, false), m); !errors.Is(err, errs.ErrInvalid) {
		t.Error(err)
	}
}
