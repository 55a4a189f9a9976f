package run

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
)

// allSee is the watermark of the tests: range deletes up to it are flat.
const allSee = 10

// addRangeDeletes adds range deletes: those up to allSee flat, in their order, and the others
// as a history.
func addRangeDeletes(t testing.TB, w *Writer, list []rangedel.Delete) {
	t.Helper()
	var history []rangedel.Delete
	for _, d := range list {
		if d.Version > allSee {
			history = append(history, d)
		} else if err := w.AddRangeDelete(d); err != nil {
			t.Fatal(err)
		}
	}
	addHistory(t, w, history, []int{0, 16, 5, 2}[len(history)%4])
}

// addHistory adds range deletes in forests of size each; 0 = in one.
func addHistory(t testing.TB, w *Writer, history []rangedel.Delete, size int) {
	t.Helper()
	slices.SortFunc(history, rangedel.Compare)
	n := 0
	for list := range slices.Chunk(history, cmp.Or(size, len(history)+1)) {
		if err := w.AddHistory(list); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n < 2 {
		return
	}
	err := rangedel.NewCover(entry.MaxVersion, rangedel.New(history...)).Flatten([]byte{0}, nil, w.AddNewest)
	if err != nil {
		t.Fatal(err)
	}
}

// allRangeDeletes are those of a run, in the order of rangedel.Compare.
func allRangeDeletes(r *Reader) (list []rangedel.Delete, err error) {
	err = r.RangeDeletes().Since(0, func(d rangedel.Delete) error {
		list = append(list, rangedel.Delete{Lo: bytes.Clone(d.Lo), Hi: bytes.Clone(d.Hi), Version: d.Version})
		return nil
	})
	slices.SortFunc(list, rangedel.Compare)
	return list, err
}

// askRangeDeletes asks a run for its range deletes, which are these: every answer must be right or
// an error. It reports whether there was an error.
func askRangeDeletes(t *testing.T, r *Reader, want []rangedel.Delete) (failed bool) {
	t.Helper()
	set := rangedel.New(want...)
	got, err := allRangeDeletes(r)
	if err != nil {
		failed = true
		checkKind(t, err)
	} else if !slices.EqualFunc(got, set.All(), func(a, b rangedel.Delete) bool { return rangedel.Compare(a, b) == 0 }) {
		t.Fatalf("range deletes %v, want %v", got, want)
	}
	for _, d := range want {
		for _, key := range [][]byte{d.Lo, d.Hi, append(bytes.Clone(d.Lo), 0)} {
			for _, at := range []entry.Version{d.Version - 1, d.Version, entry.MaxVersion} {
				if at <= allSee {
					continue
				}
				var around rangedel.Stretch
				v, err := r.RangeDeletes().Find(key, at, &around)
				if err != nil {
					failed = true
					checkKind(t, err)
				} else if want := set.Newest(key, at); v != want {
					t.Fatalf("newest over %q at %d: %d, want %d", key, at, v, want)
				}
			}
		}
	}
	return failed
}

// A run's bounds of keys and versions are those of its range deletes too.
func TestRangeDeletesExtendTheBounds(t *testing.T) { forms(t, testRangeDeletesExtendTheBounds) }

func testRangeDeletesExtendTheBounds(t *testing.T) {
	for which, want := range []struct {
		first, last string
		min, max    entry.Version
	}{
		{"\x00apple", string(layout.UpperBound([]byte("\x00fig" + strings.Repeat("g", 300)))), 10, 1 << 50},
		{"\x00", "\x01", 8, 1 << 55},
		{"\x00", "\x01", 8, 1 << 55},
	} {
		_, m := goldenFile(t, which)
		if string(m.First) != want.first || string(m.Last) != want.last || m.MinVersion != want.min || m.MaxVersion != want.max {
			t.Errorf("%s: %q to %q, versions %d to %d", goldens[which].name, m.First, m.Last, m.MinVersion, m.MaxVersion)
		}
		if n := len(goldens[which].rangeDeletes); m.RangeDeletes != uint64(n) {
			t.Errorf("%s: %d range deletes, want %d", goldens[which].name, m.RangeDeletes, n)
		}
	}
}

// A run of range deletes alone is found empty whatever it is asked.
func TestRunWithoutEntries(t *testing.T) { forms(t, testRunWithoutEntries) }

func testRunWithoutEntries(t *testing.T) {
	dir := t.TempDir()
	m := writeRun(t, writerConfig(dir), nil, goldenRangeDeletes()...)
	r := openRun(t, openConfig(dir, false), m)
	it := r.Iterator()
	var e entry.Entry
	key := []byte("\x00c")
	found, err := r.Get(key, 1, entry.MaxVersion, &e)
	if found || err != nil || it.First() || it.Last() || it.SeekGE(key) || it.SeekLT(key) || it.Next() || it.Prev() || it.Err() != nil {
		t.Error("there is an entry", found, err, it.Err())
	}
	changed, err := r.ChangedSince(key, nil, 0)
	if n, _, _ := r.Size(nil, nil, true); n != 0 || changed || err != nil || len(r.Split(nil, nil, 4)) != 0 {
		t.Error("there is something", n, changed, err)
	}
	r.Verify(t.Context(), func(c *errs.Corruption) { t.Error(c) }, nil)
}

func TestWriterRefusesBadRangeDeletes(t *testing.T) {
	d := func(lo, hi string, v entry.Version) rangedel.Delete {
		return rangedel.Delete{Lo: []byte(lo), Hi: []byte(hi), Version: v}
	}
	for name, add := range map[string]func(w *Writer) error{
		"bounds": func(w *Writer) error { return w.AddRangeDelete(d("b", "a", 1)) },
		"order": func(w *Writer) error {
			_ = w.AddRangeDelete(d("c", "d", 1))
			return w.AddRangeDelete(d("a", "b", 1))
		},
		"versions": func(w *Writer) error {
			return w.AddHistory([]rangedel.Delete{d("a", "b", 2), d("a", "b", 1)})
		},
		"versions of two forests": func(w *Writer) error {
			_ = w.AddHistory([]rangedel.Delete{d("a", "b", 2)})
			return w.AddHistory([]rangedel.Delete{d("a", "b", 1)})
		},
		"two forests without their newest": func(w *Writer) error {
			_ = w.AddHistory([]rangedel.Delete{d("a", "b", 2)})
			_ = w.AddHistory([]rangedel.Delete{d("a", "b", 3)})
			_, err := w.Finish()
			return err
		},
		"the newest of one forest": func(w *Writer) error {
			_ = w.AddHistory([]rangedel.Delete{d("a", "b", 2)})
			return w.AddNewest(d("a", "b", 2))
		},
		"an entry behind them": func(w *Writer) error {
			_ = w.AddRangeDelete(d("c", "d", 1))
			return w.Add(&entry.Entry{Key: []byte("x"), Version: 1, Kind: entry.Set})
		},
		"an entry among them": func(w *Writer) error {
			return w.Add(&entry.Entry{Key: []byte{tagFlat}, Version: 1, Kind: entry.Set})
		},
	} {
		if err := add(NewWriter(writerConfig(t.TempDir()))); !errors.Is(err, errs.ErrInvalid) {
			t.Error(name, err)
		}
	}
}

// Range deletes in a run answer as a Set in memory does, at every key and version, mapped or
// not, in one file or in several: nested, apart, equal, and in any number.
func TestRangeDeletesAnswerAsASet(t *testing.T) { forms(t, testRangeDeletesAnswerAsASet) }

func testRangeDeletesAnswerAsASet(t *testing.T) {
	key := func(i int) []byte { return fmt.Appendf(nil, "\x00k%04d", i) }
	const keys = 60
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var list []rangedel.Delete
		for at := rng.IntN(8); at < keys && rng.IntN(20) > 0; {
			to := at + 1 + rng.IntN(6)
			list = append(list, rangedel.Delete{Lo: key(at), Hi: key(to), Version: entry.Version(1 + rng.IntN(allSee))})
			at = to + rng.IntN(3)
		}
		v := entry.Version(allSee)
		for range rng.IntN(1 << rng.IntN(10)) {
			v += entry.Version(rng.IntN(3))
			lo := rng.IntN(keys)
			list = append(list, rangedel.Delete{Lo: key(lo), Hi: key(lo + 1 + rng.IntN(1+rng.IntN(keys))), Version: max(v, allSee+1)})
		}
		if len(list) == 0 {
			continue
		}
		slices.SortStableFunc(list[:], func(a, b rangedel.Delete) int { return bytes.Compare(a.Lo, b.Lo) })
		list = dedupe(list)
		dir := t.TempDir()
		cfg := writerConfig(dir)
		if seed%2 == 0 {
			cfg.FileBytes = 1
		}
		m := writeRun(t, cfg, goldenEntries()[:int(seed)%3], list...)
		r := openRun(t, openConfig(dir, seed%3 == 0), m)
		r.Verify(t.Context(), func(c *errs.Corruption) { t.Error(seed, c) }, nil)
		compareWithSet(t, rng, r, rangedel.New(list...), keys, key)
	}
}

// A Copier keeps no chunk that is a single long span: there may be a Copier for each of many
// runs. It keeps others, of which it is asked again and again.
func TestCopierKeepsNoLongSpan(t *testing.T) { forms(t, testCopierKeepsNoLongSpan) }

func testCopierKeepsNoLongSpan(t *testing.T) {
	for size, kept := range map[int]bool{10: true, 8 << 10: true, 400 << 10: false} {
		key := func(i int) []byte { return append(fmt.Appendf(nil, "\x00k%04d", i), make([]byte, size)...) }
		var list []rangedel.Delete
		for i := range 4 {
			list = append(list, rangedel.Delete{Lo: key(2 * i), Hi: key(2*i + 1), Version: entry.Version(i + 1)})
		}
		dir := t.TempDir()
		r := openRun(t, openConfig(dir, false), writeRun(t, writerConfig(dir), nil, list...))
		c := r.RangeDeletes().Copier()
		for range 2 {
			for i := range 8 {
				v, err := c.Newest(key(i), entry.MaxVersion)
				if want := entry.Version(i/2 + 1); err != nil || i%2 == 0 && v != want || i%2 == 1 && v != 0 {
					t.Errorf("bounds of %d: newest is %d over key %d, %v", size, v, i, err)
				}
				if has := c.copier.i >= 0; has != kept {
					t.Errorf("bounds of %d: a chunk is kept: %v", size, has)
				}
			}
		}
		c.Close()
	}
}

// dedupe leaves of equal range deletes one.
func dedupe(list []rangedel.Delete) []rangedel.Delete {
	var kept []rangedel.Delete
	for _, d := range list {
		if !slices.ContainsFunc(kept, func(o rangedel.Delete) bool { return rangedel.Compare(o, d) == 0 }) {
			kept = append(kept, d)
		}
	}
	return kept
}

func compareWithSet(t *testing.T, rng *rand.Rand, r *Reader, set *rangedel.Set, keys int, key func(i int) []byte) {
	t.Helper()
	for at := entry.Version(allSee); at < set.MaxVersion()+2; at += 1 + set.MaxVersion()/50 {
		for i := range keys + 2 {
			k := key(i)
			var around rangedel.Stretch
			v, err := r.RangeDeletes().Find(k, at, &around)
			if want := set.Newest(k, at); v != want || err != nil {
				t.Fatalf("over %q at %d: %d, %v, want %d", k, at, v, err, want)
			}
			lo, hi := around.Bounds()
			for j := range keys + 2 {
				if x := key(j); (lo == nil || bytes.Compare(lo, x) <= 0) && (hi == nil || bytes.Compare(x, hi) < 0) && set.Newest(x, at) != v {
					t.Fatalf("at %d: %d at %q, %d at %q, both in [%q, %q)", at, v, k, set.Newest(x, at), x, lo, hi)
				}
			}
			to := key(rng.IntN(keys + 2))
			if rng.IntN(5) == 0 {
				to = nil
			}
			changed, err := r.RangeDeletes().ChangedSince(k, to, at)
			if want := set.ChangedSince(k, to, at); changed != want || err != nil {
				t.Fatalf("[%q, %q) changed since %d: %v, %v", k, to, at, changed, err)
			}
		}
	}
	for at := entry.Version(allSee); at < set.MaxVersion(); at += 1 + set.MaxVersion()/10 {
		var want []rangedel.Delete
		for _, d := range set.All() {
			if d.Version > at && d.Version != flatVersion {
				want = append(want, d)
			}
		}
		from := r.RangeDeletes().Ordered(at)
		for _, d := range want {
			if got, ok, err := from.Next(); !ok || err != nil || rangedel.Compare(got, d) != 0 {
				t.Fatalf("newer than %d: %v, %v, %v, want %v", at, got, ok, err, d)
			}
		}
		if got, ok, err := from.Next(); ok || err != nil {
			t.Fatalf("newer than %d: %v behind the end, %v", at, got, err)
		}
	}
	sum := int64(0)
	r.RangeDeletes().Some(4, func(_ rangedel.Delete, each int64) { sum += each })
	if n := int64(set.Len()); sum > n || sum < n/4 {
		t.Errorf("some range deletes stand for %d of %d", sum, n)
	}
}

// However many range deletes a history has, a reader of a version behind them all finds them, also
// if a flat one, of a keyspace that retains less, is newer than its version.
func TestFlatRangeDeleteNewerThanTheHistory(t *testing.T) {
	forms(t, testFlatRangeDeleteNewerThanTheHistory)
}

// flatVersion is that of a flat range delete that is newer than a history.
const flatVersion = 10_000

func testFlatRangeDeleteNewerThanTheHistory(t *testing.T) {
	key := func(i int) []byte { return fmt.Appendf(nil, "\x00k%04d", i) }
	const keys = 20
	for _, n := range []int{1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 4096} {
		rng := rand.New(rand.NewPCG(uint64(n), 3))
		dir := t.TempDir()
		w := NewWriter(writerConfig(dir))
		flat := rangedel.Delete{Lo: key(keys), Hi: key(keys + 1), Version: flatVersion}
		if err := w.AddRangeDelete(flat); err != nil {
			t.Fatal(err)
		}
		var history []rangedel.Delete
		for i := range n {
			lo := rng.IntN(keys)
			history = append(history, rangedel.Delete{Lo: key(lo), Hi: key(lo + 1 + rng.IntN(keys-lo)), Version: entry.Version(allSee + 1 + i)})
		}
		addHistory(t, w, history, []int{0, 1 + n/2, 16, 17}[n%4])
		m, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		r := openRun(t, openConfig(dir, n%2 == 0), m)
		compareWithSet(t, rng, r, rangedel.New(append(history, flat)...), keys, key)
	}
}
