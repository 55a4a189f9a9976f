package run

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

const testSeed = 0x1234_5678_9abc_def1

var testUUID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func numbers(first entry.FileNum) func() entry.FileNum {
	n := first - 1
	return func() entry.FileNum { n++; return n }
}

func writerConfig(dir string) WriterConfig {
	return WriterConfig{FS: vfs.OS(), Dir: dir, UUID: testUUID, Seed: testSeed, Ring: ring, NextNum: numbers(7)}
}

func openConfig(dir string, noMap bool) OpenConfig {
	return OpenConfig{FS: vfs.OS(), Dir: dir, UUID: testUUID, Ring: testRing, Seed: testSeed, NoMap: noMap}
}

func writeRun(t testing.TB, cfg WriterConfig, entries []entry.Entry, rangeDeletes ...rangedel.Delete) layout.RunMeta {
	t.Helper()
	w := NewWriter(cfg)
	for i := range entries {
		if err := w.Add(&entries[i]); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
	addRangeDeletes(t, w, rangeDeletes)
	m, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func openRun(t testing.TB, cfg OpenConfig, m layout.RunMeta) *Reader {
	t.Helper()
	r, err := Open(cfg, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// shape is a kind of contents that a run may have.
type shape struct {
	name      string
	keys      int
	key       func(r *rand.Rand, i int) string
	versions  int    // at most this many a key
	value     int    // inline values are shorter
	spread    uint64 // versions are below this
	extras    bool   // meta, expiry, handles, deletes
	fileBytes int64

	filterKeys int // of one filter; 0 = one for all keys
}

var shapes = []shape{
	{name: "one entry", keys: 1, key: func(r *rand.Rand, i int) string { return "k" }, versions: 1, value: 5, spread: 9},
	{name: "benchmark keys", keys: 60000, key: func(r *rand.Rand, i int) string { return fmt.Sprintf("\x00vsz=00016-k=%010d", i*37) }, versions: 1, value: 17, spread: 1 << 30},
	{name: "random keys, several files", keys: 50000, key: func(r *rand.Rand, i int) string { return fmt.Sprintf("%x", r.Uint64()) }, versions: 2, value: 100, spread: 1 << 40, extras: true, fileBytes: 2 << 20, filterKeys: 3000},
	{name: "many versions", keys: 40, key: func(r *rand.Rand, i int) string { return fmt.Sprintf("key%d", i) }, versions: 6000, value: 30, spread: 1 << 33, extras: true, fileBytes: 4 << 20, filterKeys: 1},
	{name: "binary keys", keys: 5000, key: func(r *rand.Rand, i int) string {
		return "\x00" + string(bytes.Repeat([]byte{byte(r.IntN(2) * 255)}, r.IntN(20))) + string([]byte{byte(r.IntN(256)), byte(r.IntN(3))})
	}, versions: 3, value: 10, spread: 1 << 55, extras: true},
	{name: "prefixes of each other", keys: 3000, key: func(r *rand.Rand, i int) string { return "a" + string(bytes.Repeat([]byte{'b'}, i)) }, versions: 2, value: 40, spread: 1000, extras: true},
	{name: "shrinking prefixes", keys: 2000, key: func(r *rand.Rand, i int) string { return string(bytes.Repeat([]byte{'a'}, 2000-i)) + "b" }, versions: 1, value: 4, spread: 1000},
	{name: "big values", keys: 60, key: func(r *rand.Rand, i int) string { return fmt.Sprint("big", i) }, versions: 2, value: 1 << 19, spread: 1000, extras: true},
	{name: "huge values", keys: 6, key: func(r *rand.Rand, i int) string { return fmt.Sprint("huge", i) }, versions: 1, value: 3 << 20, spread: 1000},
	{name: "huge keys", keys: 6, key: func(r *rand.Rand, i int) string { return string(bytes.Repeat([]byte{'x'}, entry.MaxKey-i)) }, versions: 2, value: 10, spread: 1000, extras: true},
	{name: "long keys, many versions", keys: 5, key: func(r *rand.Rand, i int) string { return string(bytes.Repeat([]byte{'y'}, 2000)) + fmt.Sprint(i) }, versions: 1500, value: 2000, spread: 1 << 20},
	{name: "long keys alike", keys: 200, key: func(r *rand.Rand, i int) string {
		return string(bytes.Repeat([]byte{'z'}, 200)) + fmt.Sprintf("%04d", i)
	}, versions: 40, value: 3000, spread: 1 << 30},
	{name: "empty values", keys: 2000, key: func(r *rand.Rand, i int) string { return fmt.Sprint(i) }, versions: 2, value: 1, spread: 1000},
}

func (s *shape) generate(seed uint64) []entry.Entry {
	r := rand.New(rand.NewPCG(seed, 1))
	seen := map[string]bool{}
	var all []entry.Entry
	for i := range s.keys {
		k := s.key(r, i)
		if seen[k] {
			continue
		}
		seen[k] = true
		n := 1
		if s.versions > 1 {
			n += r.IntN(s.versions)
		}
		used := map[entry.Version]bool{}
		for range n {
			v := entry.Version(r.Uint64N(s.spread)) + 1
			if used[v] {
				continue
			}
			used[v] = true
			e := entry.Entry{Key: []byte(k), Version: v, Kind: entry.Set}
			e.Value = make([]byte, r.IntN(s.value))
			for j := 0; j < len(e.Value); j += 8 {
				e.Value[j] = byte(r.Uint32())
			}
			if s.extras {
				s.decorate(r, &e)
			}
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b entry.Entry) int { return entry.Compare(&a, &b) })
	return all
}

func (s *shape) decorate(r *rand.Rand, e *entry.Entry) {
	switch r.IntN(8) {
	case 0:
		e.Kind, e.Value = entry.Delete, nil
	case 1:
		e.Kind = entry.SetLatest
	case 2, 3:
		e.Value, e.Separated = nil, true
		e.Handle = entry.Handle{Segment: entry.FileNum(r.Uint64N(50) + 1), Offset: r.Uint64N(1<<25) * 8, Length: r.Uint64N(1 << 20)}
		if r.IntN(50) == 0 {
			e.Handle = entry.Handle{Segment: 1 << 40, Offset: 1 << 50, Length: 1 << 40}
		}
		if r.IntN(2) == 0 {
			e.Raw = 1 + r.Uint32N(1<<26)
		}
	}
	if r.IntN(4) == 0 {
		e.Meta = byte(r.Uint32())
	}
	if r.IntN(4) == 0 {
		e.Expires = r.Uint64() >> r.IntN(60)
	}
}

func same(a, b *entry.Entry) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Handle == b.Handle && a.Version == b.Version &&
		a.Expires == b.Expires && a.Kind == b.Kind && a.Meta == b.Meta && a.Separated == b.Separated && a.Raw == b.Raw && a.Codec == b.Codec
}

func brief(e *entry.Entry) string {
	if e == nil {
		return "nothing"
	}
	return fmt.Sprintf("{key of %d %.30q value of %d %+v version %d kind %d meta %d expires %d}", len(e.Key), e.Key, len(e.Value), e.Handle, e.Version, e.Kind, e.Meta, e.Expires)
}

// each calls fn for every shape, mapped and unmapped.
func each(t *testing.T, fn func(t *testing.T, s *shape, all []entry.Entry, m layout.RunMeta, r *Reader)) {
	const seed = 42
	for i := range shapes {
		s := &shapes[i]
		all := s.generate(seed)
		dir := t.TempDir()
		cfg := writerConfig(dir)
		cfg.FileBytes, cfg.FilterKeys = s.fileBytes, s.filterKeys
		m := writeRun(t, cfg, all)
		for _, noMap := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/nomap=%v/seed=%d", s.name, noMap, seed), func(t *testing.T) {
				oc := openConfig(dir, noMap)
				if noMap {
					oc.Cache = pageio.NewCache(3 << 20)
				}
				fn(t, s, all, m, openRun(t, oc, m))
			})
		}
	}
}

func TestMetaCountsContents(t *testing.T) { forms(t, testMetaCountsContents) }

func testMetaCountsContents(t *testing.T) {
	each(t, func(t *testing.T, s *shape, all []entry.Entry, m layout.RunMeta, r *Reader) {
		var want layout.RunMeta
		refs := map[entry.FileNum]layout.SegmentRef{}
		want.MinVersion = entry.MaxVersion
		for i := range all {
			e := &all[i]
			want.Entries++
			if e.Kind == entry.Delete {
				want.Deletes++
			}
			want.KeyBytes += uint64(len(e.Key))
			want.ValueBytes += uint64(len(e.Value))
			want.MinVersion, want.MaxVersion = min(want.MinVersion, e.Version), max(want.MaxVersion, e.Version)
			if e.Expires != 0 && (want.MinExpiry == 0 || e.Expires < want.MinExpiry) {
				want.MinExpiry = e.Expires
			}
			if e.Separated {
				want.SeparatedBytes += e.Handle.Length
				r := refs[e.Handle.Segment]
				refs[e.Handle.Segment] = layout.SegmentRef{Segment: e.Handle.Segment, Records: r.Records + 1, Bytes: r.Bytes + e.Handle.Length}
			}
		}
		want.First, want.Last = layout.LowerBound(all[0].Key), layout.UpperBound(all[len(all)-1].Key)
		for _, r := range refs {
			want.Refs = append(want.Refs, r)
		}
		slices.SortFunc(want.Refs, func(a, b layout.SegmentRef) int { return cmp.Compare(a.Segment, b.Segment) })
		want.Files = m.Files
		if got, want := fmt.Sprintf("%x", m), fmt.Sprintf("%x", want); got != want {
			t.Errorf("meta\n%.2000s\nwant\n%.2000s", got, want)
		}
		if s.fileBytes > 0 && len(m.Files) < 2 {
			t.Errorf("%d files, want several", len(m.Files))
		}
		for _, f := range m.Files {
			if s.fileBytes > 0 && f.Size > uint64(s.fileBytes)+all0(len(all)) {
				t.Errorf("file of %d bytes", f.Size)
			}
		}
	})
}

// all0 is what the filter may add to the last file.
func all0(n int) uint64 { return uint64(n)*2 + 8192 }

func TestGetFindsNewestVersionNotAfter(t *testing.T) { forms(t, testGetFindsNewestVersionNotAfter) }

func testGetFindsNewestVersionNotAfter(t *testing.T) {
	each(t, func(t *testing.T, s *shape, all []entry.Entry, m layout.RunMeta, r *Reader) {
		rng := rand.New(rand.NewPCG(7, 7))
		step := max(1, len(all)/1000)
		for i := 0; i < len(all); i += 1 + rng.IntN(2*step) {
			e := &all[i]
			h := checksum.HashKey(testSeed, e.Key)
			if !r.MayContain(e.Key, h) {
				t.Fatalf("filter lacks %s", brief(e))
			}
			for _, at := range []entry.Version{e.Version, e.Version - 1, entry.MaxVersion} {
				checkGet(t, r, all, e.Key, at)
			}
			if len(e.Key) < 100 {
				checkGet(t, r, all, append(slices.Clone(e.Key), 0), entry.MaxVersion)
				checkGet(t, r, all, e.Key[:len(e.Key)-1], entry.MaxVersion)
				other := slices.Clone(e.Key)
				other[rng.IntN(len(other))] ^= byte(1 << rng.IntN(8))
				checkGet(t, r, all, other, entry.MaxVersion)
			}
		}
		checkGet(t, r, all, []byte("\x00"), entry.MaxVersion)
		checkGet(t, r, all, []byte("\xff\xff"), entry.MaxVersion)
	})
}

func checkGet(t *testing.T, r *Reader, all []entry.Entry, key []byte, at entry.Version) {
	t.Helper()
	want := modelGet(all, key, at)
	var got entry.Entry
	found, err := r.Get(key, checksum.HashKey(testSeed, key), at, &got)
	if err != nil {
		t.Fatalf("get %.40q at %d: %v", key, at, err)
	}
	if found != (want != nil) || found && !same(&got, want) {
		t.Fatalf("get %.40q at %d: %v %s, want %s", key, at, found, brief(&got), brief(want))
	}
	if found && (got.Separated || got.Kind == entry.Delete) && got.Value != nil {
		t.Fatalf("value of a delete or separated entry is not nil")
	}
}

func modelGet(all []entry.Entry, key []byte, at entry.Version) *entry.Entry {
	i := sort.Search(len(all), func(i int) bool {
		return entry.Compare(&all[i], &entry.Entry{Key: key, Version: at}) >= 0
	})
	if i == len(all) || !bytes.Equal(all[i].Key, key) {
		return nil
	}
	return &all[i]
}

func TestIteratorWalksBothWays(t *testing.T) { forms(t, testIteratorWalksBothWays) }

func testIteratorWalksBothWays(t *testing.T) {
	each(t, func(t *testing.T, s *shape, all []entry.Entry, m layout.RunMeta, r *Reader) {
		it := r.Iterator()
		defer it.Close()
		n := 0
		for ok := it.First(); ok; ok = it.Next() {
			if n >= len(all) || !same(it.Entry(), &all[n]) {
				t.Fatalf("entry %d: %s", n, brief(it.Entry()))
			}
			n++
		}
		if it.Err() != nil || n != len(all) {
			t.Fatalf("%d entries of %d: %v", n, len(all), it.Err())
		}
		if it.Next() || it.Prev() {
			t.Fatal("moved from beyond the end")
		}
		for ok := it.Last(); ok; ok = it.Prev() {
			n--
			if n < 0 || !same(it.Entry(), &all[n]) {
				t.Fatalf("backward, entry %d: %s", n, brief(it.Entry()))
			}
		}
		if it.Err() != nil || n != 0 {
			t.Fatalf("%d entries left of %d: %v", n, len(all), it.Err())
		}
	})
}

// Moves that an iterator knows ahead are made, to the entries that are there: also at the ends of
// chunks, and of the blocks that files are read in which are encrypted or not mapped. Entries
// of different lengths let the end of a block fall on each part of an entry.
func TestKnownMovesAreMade(t *testing.T) { forms(t, testKnownMovesAreMade) }

func testKnownMovesAreMade(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, separated := range []int{0, 50, 100} { // percent of the entries
		var all []entry.Entry
		for i := range 20_000 {
			e := entry.Entry{Key: fmt.Appendf(nil, "%06d%.*s", i, r.IntN(40), strings.Repeat("k", 40)), Version: entry.Version(i + 1), Kind: entry.Set}
			if r.IntN(100) < separated {
				e.Separated, e.Handle = true, entry.Handle{Segment: 3, Offset: uint64(i) * 1024, Length: 1000}
			} else {
				e.Value = make([]byte, r.IntN(100))
			}
			all = append(all, e)
		}
		dir := t.TempDir()
		m := writeRun(t, writerConfig(dir), all)
		for _, noMap := range []bool{false, true} {
			it := openRun(t, openConfig(dir, noMap), m).Iterator()
			known := walkKnown(t, it, all, r)
			it.Close()
			if known < len(all)/2 {
				t.Errorf("%d %% separated, nomap=%v: %d of %d moves were known", separated, noMap, known, len(all))
			}
		}
	}
}

// walkKnown walks over all, asks now and then what is to come, and returns how many moves
// were known.
func walkKnown(t *testing.T, it iterator.Iterator, all []entry.Entry, r *rand.Rand) (known int) {
	t.Helper()
	far := []byte("9999999")
	sure := 0
	for i, ok := 0, it.First(); i < len(all); i, ok = i+1, it.Next() {
		if !ok || !same(it.Entry(), &all[i]) {
			t.Fatalf("entry %d (%d more moves were sure): %t, %s, want %s; %v", i, sure, ok, brief(it.Entry()), brief(&all[i]), it.Err())
		}
		if sure > 0 {
			sure--
			known++
		} else if r.IntN(4) > 0 {
			sure = it.(iterator.Lookahead).LookAhead(far, 0, entry.MaxVersion)
		}
	}
	return known
}

func TestIteratorMovesAsTheModel(t *testing.T) { forms(t, testIteratorMovesAsTheModel) }

func testIteratorMovesAsTheModel(t *testing.T) {
	each(t, func(t *testing.T, s *shape, all []entry.Entry, m layout.RunMeta, r *Reader) {
		rng := rand.New(rand.NewPCG(11, 3))
		it := r.Iterator()
		rounds := 1000
		if s.keys < 100 { // these are big
			rounds = 40
		}
		if *every {
			rounds *= 3
		}
		for range rounds {
			key := all[rng.IntN(len(all))].Key
			switch rng.IntN(4) {
			case 0:
				key = append(slices.Clone(key), 0)
			case 1:
				key = key[:rng.IntN(len(key)+1)]
			}
			var at int
			var ok bool
			switch rng.IntN(10) {
			case 0:
				at, ok = 0, it.First()
			case 1:
				at, ok = len(all)-1, it.Last()
			case 2, 3, 4:
				at = lowerBound(all, key) - 1
				ok = it.SeekLT(key)
			default:
				at = lowerBound(all, key)
				ok = it.SeekGE(key)
			}
			for range rng.IntN(200) {
				if want := at >= 0 && at < len(all); ok != want || it.Err() != nil {
					t.Fatalf("at %d of %d: %v %v", at, len(all), ok, it.Err())
				}
				if !ok {
					break
				}
				if !same(it.Entry(), &all[at]) {
					t.Fatalf("at %d: %s, want %s", at, brief(it.Entry()), brief(&all[at]))
				}
				if rng.IntN(8) < 5 {
					at, ok = at+1, it.Next()
				} else {
					at, ok = at-1, it.Prev()
				}
			}
		}
	})
}

// A skip ends anywhere up to where it must stop, and where every chunk is older
// reads none of those between.
func TestSkipsStopWhereTheyMust(t *testing.T) { forms(t, testSkipsStopWhereTheyMust) }

func testSkipsStopWhereTheyMust(t *testing.T) {
	each(t, func(t *testing.T, s *shape, all []entry.Entry, m layout.RunMeta, r *Reader) {
		rng := rand.New(rand.NewPCG(5, 3))
		it := r.Iterator()
		rounds := 300
		if s.keys < 100 {
			rounds = 20
		}
		for range rounds {
			from := rng.IntN(len(all))
			it.SeekGE(all[from].Key)
			from = lowerBound(all, all[from].Key)
			key, v := all[rng.IntN(len(all))].Key, all[rng.IntN(len(all))].Version
			if rng.IntN(2) == 0 { // some chunks have newer entries, and others don't
				v = r.chunks[rng.IntN(len(r.chunks))].MaxVersion
			}
			if v = max(v, all[from].Version+1); rng.IntN(3) == 0 {
				v = entry.MaxVersion
			}
			at, step, ok := from, 1, false
			if rng.IntN(2) == 0 {
				step, ok = -1, it.SkipLT(key, v)
			} else {
				ok = it.SkipGE(key, v)
			}
			last := from + step
			for last >= 0 && last < len(all) && all[last].Version < v && bytes.Compare(all[last].Key, key) < 0 == (step > 0) {
				last += step
			}
			if at = last; ok {
				at = sort.Search(len(all), func(i int) bool { return entry.Compare(&all[i], it.Entry()) >= 0 })
			}
			if (at-from)*step <= 0 || (last-at)*step < 0 || it.Err() != nil {
				t.Fatalf("a skip from %d to %.40q below %d (by %d) is at %d and had to stop at %d, %v", from, key, v, step, at, last, it.Err())
			}
			if v == entry.MaxVersion && at != last {
				t.Fatalf("a skip from %d by %d over nothing new is at %d, not %d", from, step, at, last)
			}
		}
	})
}

func lowerBound(all []entry.Entry, key []byte) int {
	return sort.Search(len(all), func(i int) bool { return bytes.Compare(all[i].Key, key) >= 0 })
}

var _ iterator.Iterator = (*cursor)(nil)
