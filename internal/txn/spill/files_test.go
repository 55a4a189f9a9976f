package spill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/segment"
	"github.com/brockdb/brock/vfs"
)

const testSeed = 5

func testStore(fs vfs.FS, noMap bool) filename.Store {
	return filename.Store{FS: fs, Dir: "/k", ValueDir: "/v", UUID: [16]byte{7}, Seed: testSeed, NoMap: noMap}
}

func newTestFiles(t *testing.T, fs vfs.FS, segmentBytes int64, noMap bool) *Files {
	t.Helper()
	for _, dir := range []string{"/k", "/v"} {
		if err := fs.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	files := view.NewOpener(view.OpenerConfig{Store: testStore(fs, noMap), RunFileBytes: 64 << 10})
	return New(Config{Files: files, NoMap: noMap, SegmentBytes: segmentBytes})
}

// spilledWrite is a write of the model.
type spilledWrite struct {
	value string
	kind  entry.Kind
	meta  byte
	gone  bool // by the delete of a range: no entry is left
}

func files(t *testing.T, fs *vfs.Mem) (names []string) {
	t.Helper()
	for _, dir := range []string{"/k", "/v"} {
		list, err := fs.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, list...)
	}
	slices.Sort(names)
	return names
}

// compare holds all ways of reading against the model.
func compare(t *testing.T, s *Files, model map[string]spilledWrite) {
	t.Helper()
	same := func(e *entry.Entry, key string) {
		want, value := model[key], e.Value
		if e.Separated {
			var err error
			if value, _, err = s.Value([]byte(key), e, nil); err != nil {
				t.Fatal(err)
			}
		}
		if string(value) != want.value || e.Kind != want.kind || e.Meta != want.meta || e.Version != rangedel.Pending {
			t.Fatalf("%q: kind %d, meta %d, version %d, %d bytes, want %+v", key, e.Kind, e.Meta, e.Version, len(value), want)
		}
	}
	for i := range 80 {
		key := testKey(i)
		var e entry.Entry
		found, err := s.Get([]byte(key), checksum.HashKey(testSeed, []byte(key)), &e)
		if _, want := model[key]; found != want || err != nil {
			t.Fatalf("get %q: %v, %v, want %v", key, found, err, want)
		}
		if found {
			same(&e, key)
		}
	}
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(model)), func(k string) bool { return model[k].gone })
	it := iterator.Merge(s.Iterators(nil))
	defer it.Close()
	i := 0
	for ok := it.First(); ok; ok = it.Next() {
		if i == len(keys) || string(it.Entry().Key) != keys[i] {
			t.Fatalf("entry %d is %q, want one of %q", i, it.Entry().Key, keys)
		}
		same(it.Entry(), keys[i])
		i++
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		if i--; i < 0 || string(it.Entry().Key) != keys[i] {
			t.Fatalf("back to %q, want place %d of %q", it.Entry().Key, i, keys)
		}
	}
	if i != 0 || it.Err() != nil {
		t.Fatalf("%d entries are missing, %v", i, it.Err())
	}
}

func testKey(i int) string { return fmt.Sprintf("\x00key%d", i*i%61) }

func TestFilesAgainstModel(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		fs := vfs.NewMem()
		s := newTestFiles(t, fs, 4096+int64(rng.IntN(20_000)), seed%3 == 0)
		model := map[string]spilledWrite{}
		var ranges *rangedel.Set
		last := 0
		for range 1 + rng.IntN(120) {
			var records []byte
			before := last
			for range 1 + rng.IntN(8) {
				last++
				if seed%4 > 0 && rng.IntN(30) == 0 {
					lo, hi := testKey(rng.IntN(61)), testKey(rng.IntN(61))+"a"
					if lo < hi {
						ranges = ranges.With(rangedel.Delete{Lo: []byte(lo), Hi: []byte(hi), Version: entry.Version(last)})
						records = entry.AppendRecord(records, &entry.Entry{Key: []byte(lo), Value: []byte(hi), Kind: entry.RangeDelete}, false)
						for i := range 61 {
							if k := testKey(i); lo <= k && k < hi {
								model[k] = spilledWrite{kind: entry.Delete, gone: true}
							}
						}
						continue
					}
				}
				w := spilledWrite{kind: pick(rng, entry.Set, entry.Set, entry.Delete, entry.SetLatest), meta: byte(rng.IntN(3))}
				if w.kind != entry.Delete {
					w.value = string(bytes.Repeat([]byte{byte(rng.Uint32())}, pick(rng, 0, 3, 10, 50, 300, 9000)))
				}
				key := testKey(rng.IntN(61))
				if w.kind != entry.Delete && len(w.value) >= 300 && rng.IntN(3) == 0 {
					if err := errors.Join(s.Add(context.Background(), records, before, ranges),
						s.AddLarge(context.Background(), &entry.Entry{Key: []byte(key), Value: []byte(w.value), Kind: w.kind, Meta: w.meta})); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					records, before, ranges, model[key] = nil, last, nil, w
					continue
				}
				records = entry.AppendRecord(records, &entry.Entry{Key: []byte(key), Value: []byte(w.value), Kind: w.kind, Meta: w.meta},
					w.kind != entry.Delete && len(w.value) >= 10)
				model[key] = w
			}
			if err := s.Add(context.Background(), records, before, ranges); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			clear(records)
			ranges = nil
			if rng.IntN(10) == 0 {
				compare(t, s, model)
			}
		}
		if err := s.FinishRun(context.Background()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		compare(t, s, model)
		if err := s.Add(context.Background(), []byte("x"), last, nil); err == nil {
			t.Error("something was added to a finished spill")
		}
		checkRanges(t, s, model)
		maps.DeleteFunc(model, func(_ string, w spilledWrite) bool { return w.gone })
		checkOutput(t, s, fs, model)
		if seed%2 == 0 {
			s.kept = true
		}
		out := s.out
		s.Discard(true)
		s.Discard(true)
		var want []string
		if seed%2 == 0 {
			for _, f := range out.Run.Files {
				want = append(want, filename.Of(filename.Run, f.Num))
			}
			for _, v := range out.Values {
				want = append(want, filename.Of(filename.Value, v.Num))
			}
			slices.Sort(want)
		}
		if got := files(t, fs); !slices.Equal(got, want) {
			t.Errorf("seed %d: files %q are left, want %q", seed, got, want)
		}
	}
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// ranges are the ranges that s deletes.
func ranges(s *Files) (list []rangedel.Delete) {
	_ = rangedel.NewCover(entry.MaxVersion, s.Ranges()...).EachRange([]byte{0}, func(lo, hi []byte) error {
		list = append(list, rangedel.Delete{Lo: bytes.Clone(lo), Hi: bytes.Clone(hi)})
		return nil
	})
	return list
}

// checkRanges: what is gone is in a range.
func checkRanges(t *testing.T, s *Files, model map[string]spilledWrite) {
	t.Helper()
	for i := range 80 {
		key := testKey(i)
		in := slices.ContainsFunc(ranges(s), func(r rangedel.Delete) bool { return string(r.Lo) <= string(key) && string(key) < string(r.Hi) })
		if model[key].gone && !in {
			t.Errorf("%q is in no range of %v", key, ranges(s))
		}
	}
}

// checkOutput: each record of a segment is referred to by one entry, or dead.
func checkOutput(t *testing.T, s *Files, fs vfs.FS, model map[string]spilledWrite) {
	t.Helper()
	out := s.out
	if out.Run.Entries != uint64(len(model)) || out.Run.RangeDeletes != uint64(len(ranges(s))) || out.Run.MaxVersion != 0 {
		t.Errorf("%d entries up to version %d, want %d", out.Run.Entries, out.Run.MaxVersion, len(model))
	}
	owned := map[entry.FileNum][2]uint64{}
	for _, r := range out.Run.Refs {
		owned[r.Segment] = [2]uint64{r.Records, r.Bytes}
	}
	for _, d := range out.Dead.Lists() {
		o := owned[d.Segment]
		owned[d.Segment] = [2]uint64{o[0] + uint64(len(d.Granules)), o[1] + d.Bytes}
		if !slices.IsSorted(d.Granules) || len(slices.Compact(slices.Clone(d.Granules))) != len(d.Granules) {
			t.Errorf("dead granules %d", d.Granules)
		}
	}
	for _, v := range out.Values {
		if o := owned[v.Num]; o[0] != v.Records || o[1] != v.Bytes {
			t.Errorf("segment %d: %d records of %d bytes, owned or dead are %d", v.Num, v.Records, v.Bytes, o)
		}
		if int64(v.FileBytes) > s.cfg.SegmentBytes && v.Records > 1 {
			t.Errorf("segment %d is %d bytes long, %d are allowed", v.Num, v.FileBytes, s.cfg.SegmentBytes)
		}
		delete(owned, v.Num)
	}
	if len(owned) > 0 {
		t.Errorf("segments %v are not there", owned)
	}
	checkStamp(t, s, fs, out.Run)
}

// checkStamp opens what was finished as the store will: with a version.
func checkStamp(t *testing.T, s *Files, fs vfs.FS, m layout.RunMeta) {
	t.Helper()
	const stamp = 1<<40 + 5
	m.Stamp, m.MinVersion, m.MaxVersion = stamp, stamp, stamp
	r, err := run.Open(run.OpenConfig{FS: fs, Dir: "/k", UUID: testStore(fs, false).UUID, Seed: testSeed}, m)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Verify(t.Context(), func(c *errs.Corruption) { t.Error(c) }, nil)
	if r.MaxVersion() != stamp {
		t.Errorf("greatest version %d", r.MaxVersion())
	}
	err = r.RangeDeletes().Since(0, func(d rangedel.Delete) error {
		if d.Version != stamp {
			t.Errorf("range delete of version %d", d.Version)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		since entry.Version
		want  bool
	}{{stamp - 1, m.Entries > 0}, {stamp, false}} {
		if changed, err := r.ChangedSince(nil, nil, c.since); changed != c.want || err != nil {
			t.Errorf("changed since %d: %v, %v", c.since, changed, err)
		}
	}
	it := r.Iterator()
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		e := *it.Entry()
		if e.Version != stamp {
			t.Fatalf("%q has version %d", e.Key, e.Version)
		}
		var got entry.Entry
		h := checksum.HashKey(testSeed, e.Key)
		if found, err := r.Get(e.Key, h, stamp, &got); !found || got.Version != stamp || err != nil {
			t.Fatalf("get %q: %v, version %d, %v", e.Key, found, got.Version, err)
		}
		if found, err := r.Get(e.Key, h, stamp-1, &got); found || err != nil {
			t.Fatalf("get %q before its version: %v, %v", e.Key, found, err)
		}
		if !e.Separated {
			continue
		}
		f, err := segment.Open(s.cfg.Files.SegmentConfig(), filename.Value, e.Handle.Segment, segment.OpenOptions{Stamp: stamp})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Stored(e.Handle, e.Key, stamp); err != nil {
			t.Fatal(err)
		}
		for _, v := range []entry.Version{0, 1, stamp - 1, stamp + 1} {
			if _, err := f.Stored(e.Handle, e.Key, v); !errors.Is(err, errs.ErrCorrupt) {
				t.Fatalf("as version %d: %v, want damage", v, err)
			}
		}
		f.Close()
	}
	m.MinVersion, m.MaxVersion = stamp+1, stamp+1
	if _, err := run.Open(run.OpenConfig{FS: fs, Dir: "/k", UUID: testStore(fs, false).UUID, Seed: testSeed}, m); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("opened with another version than its stamp: %v", err)
	}
}

// A spill that failed takes nothing more, and leaves no file.
func TestFilesStayFailed(t *testing.T) {
	for nth := 1; ; nth++ {
		mem := vfs.NewMem()
		faulty := faultfs.New(mem, faultfs.Options{})
		s := newTestFiles(t, faulty, 20_000, false)
		faulty.Inject(faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs, Nth: nth})
		var err error
		for i := 0; err == nil && i < 25; i++ {
			err = s.Add(context.Background(), entry.AppendRecord(nil,
				&entry.Entry{Key: fmt.Appendf(nil, "\x00%d", i), Value: make([]byte, 3000), Kind: entry.Set}, true), i, nil)
		}
		if err == nil {
			err = s.FinishRun(context.Background())
		}
		struck := faulty.Struck() > 0
		faulty.Heal()
		if err == nil && struck && faulty.Count(faultfs.Remove, "") == 0 {
			t.Errorf("operation %d failed, and nobody was told", nth)
		}
		if s.Add(context.Background(), []byte("x"), 25, nil) == nil {
			t.Error("it goes on")
		}
		s.Discard(true)
		if left := files(t, mem); err != nil && len(left) > 0 {
			t.Errorf("operation %d failed: %q are left", nth, left)
		}
		if !struck {
			return
		}
	}
}
