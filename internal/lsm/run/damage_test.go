package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/version/layout"
)

var (
	rewrite = flag.Bool("rewrite", false, "write the golden files anew")
	every   = flag.Bool("every", false, "flip every bit, and do more of what is random")
)

// goldenEntries has every form of an entry.
func goldenEntries() []entry.Entry {
	h := entry.Handle{Segment: 3, Offset: 4096, Length: 1000}
	return []entry.Entry{
		{Key: []byte("\x00apple"), Value: []byte("red"), Version: 12, Kind: entry.Set},
		{Key: []byte("\x00apple"), Value: []byte("green"), Version: 10, Kind: entry.SetLatest, Meta: 7, Expires: 1_800_000_000_000},
		{Key: []byte("\x00banana"), Version: 11, Kind: entry.Delete},
		{Key: []byte("\x00cherry"), Version: 1 << 50, Kind: entry.Set, Separated: true, Handle: h, Expires: 1 << 60},
		{Key: []byte("\x00date"), Version: 13, Kind: entry.Set, Separated: true, Handle: h},
		{Key: []byte("\x00dill"), Version: 13, Kind: entry.Set, Separated: true, Handle: h, Raw: 3000},
		{Key: []byte("\x00dock"), Version: 1 << 50, Kind: entry.Set, Separated: true, Handle: h, Raw: 64 << 20},
		{Key: []byte("\x00elder"), Value: []byte{}, Version: 14, Kind: entry.Set, Meta: 1},
		{Key: append([]byte("\x00fig"), bytes.Repeat([]byte("g"), 300)...), Value: bytes.Repeat([]byte("v"), 20), Version: 15, Kind: entry.Set},
	}
}

// goldenRangeDeletes are two that all readers see, and three that some don't.
func goldenRangeDeletes() []rangedel.Delete {
	b := func(s string) []byte { return []byte(s) }
	return []rangedel.Delete{
		{Lo: b("\x00"), Hi: b("\x00b"), Version: 9},
		{Lo: b("\x00d"), Hi: b("\x01"), Version: 8},
		{Lo: b("\x00b"), Hi: b("\x00e"), Version: 20},
		{Lo: b("\x00c"), Hi: b("\x00f"), Version: 21},
		{Lo: b("\x00b"), Hi: b("\x00c"), Version: 1 << 55},
	}
}

// goldens are the contents of the golden files: entries alone, both, range deletes
// alone, and entries with filters for some chunks each.
var goldens = []struct {
	name         string
	entries      []entry.Entry
	rangeDeletes []rangedel.Delete
	filterKeys   int // of one filter; 0 = one for all keys
}{
	{"golden", goldenEntries(), nil, 0},
	{"golden_rangedeletes", goldenEntries()[:3], goldenRangeDeletes(), 0},
	{"golden_no_entries", nil, goldenRangeDeletes(), 0},
	{"golden_filters", goldenEntries()[:3], nil, 1},
}

func goldenFile(t testing.TB, which int) ([]byte, layout.RunMeta) {
	dir := t.TempDir()
	cfg := writerConfig(dir)
	cfg.FilterKeys = goldens[which].filterKeys
	m := writeRun(t, cfg, goldens[which].entries, goldens[which].rangeDeletes...)
	b, err := os.ReadFile(filepath.Join(dir, "000007.run"))
	if err != nil {
		t.Fatal(err)
	}
	return b, m
}

func TestGoldenRun(t *testing.T) { forms(t, testGoldenRun) }

func testGoldenRun(t *testing.T) {
	for which := range goldens {
		checkGolden(t, which)
	}
}

func checkGolden(t *testing.T, which int) {
	if ring != nil {
		useGoldenRing(t, which)
	}
	file, _ := goldenFile(t, which)
	var b bytes.Buffer
	if err := Dump(&b, file, ring); err != nil {
		t.Fatal(err)
	}
	for ext, got := range map[string][]byte{".run": file, ".txt": b.Bytes()} {
		name := goldens[which].name + form() + ext
		path := filepath.Join("testdata", name)
		if *rewrite {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what is written now:\n%s", path, b.Bytes())
		}
	}
}

// tryAll opens a damaged run and asks it everything; every answer must be right
// or an error. It reports whether there was an error.
func tryAll(t *testing.T, dir string, m layout.RunMeta, which int, noMap bool) (failed bool) {
	t.Helper()
	r, err := Open(openConfig(dir, noMap), m)
	if err != nil {
		checkKind(t, err)
		return true
	}
	defer r.Close()
	all := goldens[which].entries
	failed = askRangeDeletes(t, r, goldens[which].rangeDeletes)
	for i := range all {
		e := &all[i]
		var got entry.Entry
		ok, err := r.Get(e.Key, checksum.HashKey(testSeed, e.Key), e.Version, &got)
		if err != nil {
			checkKind(t, err)
			failed = true
		} else if !ok || !same(&got, e) || !r.MayContain(e.Key, checksum.HashKey(testSeed, e.Key)) {
			t.Fatalf("get: %v %s, want %s", ok, brief(&got), brief(e))
		}
		it := r.Iterator()
		if it.SeekGE(e.Key) {
			if !bytes.Equal(it.Entry().Key, e.Key) {
				t.Fatalf("seek to %s: %s", brief(e), brief(it.Entry()))
			}
		} else if checkKind(t, it.Err()); true {
			failed = true
		}
	}
	for _, walk := range []struct {
		start, move func(it *cursor) bool
		order       []entry.Entry
	}{{(*cursor).First, (*cursor).Next, all}, {(*cursor).Last, (*cursor).Prev, reversed(all)}} {
		it := r.newCursor()
		i := 0
		for ok := walk.start(it); ok; ok = walk.move(it) {
			if i >= len(all) || !same(it.Entry(), &walk.order[i]) {
				t.Fatalf("entry %d: %s", i, brief(it.Entry()))
			}
			i++
		}
		if it.Err() != nil {
			checkKind(t, it.Err())
			failed = true
		} else if i != len(all) {
			t.Fatalf("%d entries of %d", i, len(all))
		}
	}
	found := 0
	r.Verify(t.Context(), func(*errs.Corruption) { found++ }, nil)
	if failed && found == 0 {
		t.Fatal("Verify found nothing")
	}
	return failed || found > 0
}

func checkKind(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrFormat) {
		t.Fatalf("error %v", err)
	}
}

func reversed(all []entry.Entry) []entry.Entry {
	all = slices.Clone(all)
	slices.Reverse(all)
	return all
}

func TestEveryBitFlipIsDetected(t *testing.T) { forms(t, testEveryBitFlipIsDetected) }

func testEveryBitFlipIsDetected(t *testing.T) {
	for which := range goldens {
		t.Run(goldens[which].name, func(t *testing.T) { flipEveryBit(t, which) })
	}
}

func flipEveryBit(t *testing.T, which int) {
	file, m := goldenFile(t, which)
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "000007.run"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(file); err != nil {
		t.Fatal(err)
	}
	step := 23 // one bit of each third byte; the next draw takes others
	switch {
	case *every:
		step = 1
	case testing.Short() || raceEnabled:
		step = 97
	}
	for bit := draw.Rand(t).IntN(step); bit < 8*len(file); bit += step {
		// In long runs of zeros, which pad pages, one bit of 50 is enough.
		if at := bit / 8; at >= 8 && at+8 < len(file) && allZero(file[at-8:at+8]) && bit%50 != 0 {
			continue
		}
		if _, err := f.WriteAt([]byte{file[bit/8] ^ 1<<(bit%8)}, int64(bit/8)); err != nil {
			t.Fatal(err)
		}
		if !tryAll(t, dir, m, which, bit%2 == 0) {
			t.Fatalf("bit %d of byte %d: not detected", bit%8, bit/8)
		}
		if _, err := f.WriteAt(file[bit/8:bit/8+1], int64(bit/8)); err != nil {
			t.Fatal(err)
		}
	}
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

func TestTruncatedAndForeignFilesAreRefused(t *testing.T) {
	forms(t, testTruncatedAndForeignFilesAreRefused)
}

func testTruncatedAndForeignFilesAreRefused(t *testing.T) {
	for which := range goldens {
		t.Run(goldens[which].name, func(t *testing.T) { truncate(t, which) })
	}
}

func truncate(t *testing.T, which int) {
	file, m := goldenFile(t, which)
	dir := t.TempDir()
	path := filepath.Join(dir, "000007.run")
	for n := 0; n < len(file); n += 61 {
		if err := os.WriteFile(path, file[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(openConfig(dir, false), m); !errors.Is(err, errs.ErrCorrupt) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if err := os.WriteFile(path, append(slices.Clone(file), "garbage"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if tryAll(t, dir, m, which, false) {
		t.Error("appended garbage does harm")
	}
	cfg := openConfig(dir, false)
	cfg.UUID[0]++
	if _, err := Open(cfg, m); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("another store's: %v", err)
	}
	if err := os.Rename(path, filepath.Join(dir, "000008.run")); err != nil {
		t.Fatal(err)
	}
	m.Files[0].Num = 8
	if _, err := Open(openConfig(dir, false), m); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("under another number: %v", err)
	}
}

// FuzzRun damages a run file and then makes its checksums right again, so that
// the damage reaches the decoders: nothing may panic or allocate without bound.
func FuzzRun(f *testing.F) {
	files, metas := make([][]byte, len(goldens)), make([]layout.RunMeta, len(goldens))
	for i := range goldens {
		files[i], metas[i] = goldenFile(f, i)
		size := len(files[i])
		corpus.Add(f, byte(i), uint32(0), uint64(1), uint32(size-48), uint64(0))
		corpus.Add(f, byte(i), uint32(8), uint64(0xffff), uint32(16), uint64(0))
		for _, at := range []int{8, 40, 4096, 8192, 8200, 8208, size - 100, size - 160, size - 200, size - 400, size - 700} {
			corpus.Add(f, byte(i), uint32(at), uint64(0xffffffff), uint32(at+8), uint64(1)<<62)
		}
	}
	f.Fuzz(func(t *testing.T, which byte, at1 uint32, x1 uint64, at2 uint32, x2 uint64) {
		file, m := files[int(which)%len(files)], metas[int(which)%len(files)]
		bad := slices.Clone(file)
		for _, c := range []struct {
			at uint32
			x  uint64
		}{{at1, x1}, {at2, x2}} {
			p := bad[uint64(c.at)%uint64(len(bad)-8):]
			binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^c.x)
		}
		fixChecksums(bad, file)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "000007.run"), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		m.Files = []layout.RunFile{{Num: 7, Size: uint64(len(bad))}}
		for _, noMap := range []bool{false, true} {
			askAll(t, dir, m, noMap)
		}
		if err := Dump(new(bytes.Buffer), bad, testRing); err != nil {
			t.Fatal(err)
		}
		walkRemains(t, dir)
		// Without its end the file has no directory: chunks are found by their trailers.
		if err := os.Truncate(filepath.Join(dir, "000007.run"), int64(len(bad)-footerSize)); err != nil {
			t.Fatal(err)
		}
		walkRemains(t, dir)
	})
}

func walkRemains(t *testing.T, dir string) {
	cfg := openConfig(dir, true)
	cfg.Files = pageio.NewFiles(cfg.FS, 0)
	r, err := OpenRemains(cfg, 7, 0, crypt.FileKeyID{})
	if err != nil {
		checkKind(t, err)
		return
	}
	defer r.Close()
	_, _ = r.About()
	for _, deletes := range []bool{true, false} {
		r.Rewind(deletes)
		limit := 1 << 16
		for e, hole := r.Next(); e != nil || hole != nil; e, hole = r.Next() {
			if e != nil {
				Span(e)
			}
			if limit--; limit == 0 {
				t.Fatal("the walk does not end")
			}
		}
	}
}

// askAll asks a run everything and ignores the answers.
func askAll(t *testing.T, dir string, m layout.RunMeta, noMap bool) {
	r, err := Open(openConfig(dir, noMap), m)
	if err != nil {
		checkKind(t, err)
		return
	}
	defer r.Close()
	it := r.Iterator()
	limit := 1 << 16
	for ok := it.First(); ok && limit > 0; ok = it.Next() {
		limit--
	}
	for ok := it.Last(); ok && limit > 0; ok = it.Prev() {
		limit--
	}
	if limit == 0 {
		t.Fatal("walks do not end")
	}
	var e entry.Entry
	for _, g := range goldenEntries() {
		it.SeekGE(g.Key)
		it.SeekLT(g.Key)
		_, _ = r.Get(g.Key, checksum.HashKey(testSeed, g.Key), g.Version, &e)
		_, _ = r.ChangedSince(g.Key, nil, 11)
		r.Size(g.Key, nil, true)
	}
	for _, d := range goldenRangeDeletes() {
		_, _ = r.RangeDeletes().Newest(d.Lo, d.Version)
		_, _ = r.RangeDeletes().ChangedSince(d.Lo, d.Hi, d.Version-1)
		_, _ = allRangeDeletes(r)
	}
	r.Split(nil, nil, 3)
	r.Verify(t.Context(), func(*errs.Corruption) {}, nil)
}

// fixChecksums makes every checksum right that the undamaged layout has.
func fixChecksums(bad, file []byte) {
	id := checksum.New(testUUID, byte(filename.Run), 7)
	le := binary.LittleEndian
	foot := len(file) - footerSize
	dirOffset := int(le.Uint64(file[foot+16:]))
	d, err := decodeDirectory(file[dirOffset:foot], uint64(dirOffset), false)
	if err != nil {
		panic(err)
	}
	if len(d.chunks) > 0 {
		fixChunk(bad, file, dirOffset, &d.chunks[0])
	}
	le.PutUint32(bad[foot+32:], id.Sum(int64(dirOffset), bad[dirOffset:foot]))
	le.PutUint32(bad[foot:], id.Sum(int64(foot), bad[foot+4:]))
}

func fixChunk(bad, file []byte, dirOffset int, c *record) {
	id := checksum.New(testUUID, byte(filename.Run), 7)
	le := binary.LittleEndian
	start := c.TrailerStart()
	// The page checksums are the only section with this header.
	head := le.AppendUint32(le.AppendUint16(le.AppendUint16(nil, 3), 1), uint32(4*start/4096))
	sums := start + bytes.Index(file[start:], head) + 8
	for p := 0; p < start; p += 4096 {
		le.PutUint32(bad[sums+p/1024:], id.Sum(int64(p), bad[p:p+4096]))
	}
	sum := id.Sum(int64(start), bad[start+4:start+c.TrailerSize])
	le.PutUint32(bad[start:], sum)
	le.PutUint32(bad[dirOffset+8+28:], sum)
}

// A Copier that could not read a chunk reads the one before again: its memory has a part of
// the other one.
func TestCopierAfterAFailedRead(t *testing.T) { forms(t, testCopierAfterAFailedRead) }

func testCopierAfterAFailedRead(t *testing.T) {
	dir := t.TempDir()
	var entries []entry.Entry
	for i := range 40 {
		entries = append(entries, entry.Entry{Key: fmt.Appendf(nil, "\x00k%04d", i), Value: bytes.Repeat([]byte{byte(i)}, 50<<10), Version: 1, Kind: entry.Set})
	}
	m := writeRun(t, writerConfig(dir), entries)
	r := openRun(t, openConfig(dir, true), m)
	if len(r.chunks) < 2 {
		t.Fatalf("%d chunks", len(r.chunks))
	}
	it := r.newCopier()
	defer it.Close()
	for range 2 {
		if !it.First() || !bytes.Equal(it.Entry().Value, entries[0].Value) {
			t.Fatalf("the first entry is not what it was: %v", it.Err())
		}
		name := filepath.Join(dir, filename.Of(filename.Run, m.Files[0].Num))
		if err := os.Truncate(name, r.chunks[1].Offset+8<<10); err != nil {
			t.Fatal(err)
		}
		if it.openChunk(1) || it.Err() == nil {
			t.Fatal("a chunk was read that is not there")
		}
	}
}
