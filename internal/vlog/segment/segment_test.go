package segment

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

func testConfig(t testing.TB) Config {
	return Config{FS: vfs.OS(), Dir: t.TempDir(), UUID: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}
}

func key(i int) []byte { return fmt.Appendf(nil, "\x00key%06d", i) }

func value(i, n int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8), 0xa5}, n/3+1)[:n] }

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// plain is the bytes of a value.
func plain(v entry.Stored, err error) ([]byte, error) { return v.Bytes, err }

// writeValues makes value segment 5 with a value of each of these lengths.
func writeValues(t testing.TB, c Config, lengths []int) ([]entry.Handle, Stats) {
	t.Helper()
	w := must(NewValueWriter(c, 5))(t)
	handles := make([]entry.Handle, len(lengths))
	for i, n := range lengths {
		handles[i] = must(w.Add(&entry.Entry{Key: key(i), Value: value(i, n), Version: entry.Version(i + 1), Kind: entry.Set}))(t)
	}
	return handles, must(w.Finish())(t)
}

func TestValuesComeBack(t *testing.T) { forms(t, testValuesComeBack) }

func testValuesComeBack(t *testing.T, testConfig func(testing.TB) Config) {
	lengths := []int{0, 1, 7, 8, 9, 100, 1000, 65535, 65536, 65537, 300_000, 3, 20 << 20, 5, 128, 256 << 10}
	for i := range 3000 {
		lengths = append(lengths, i)
	}
	for _, noMap := range []bool{false, true} {
		c := testConfig(t)
		handles, stats := writeValues(t, c, lengths)
		if stats.Records != uint64(len(lengths)) || stats.SmallBytes != 0 || stats.Min != 1 || stats.Max != entry.Version(len(lengths)) {
			t.Errorf("stats %+v", stats)
		}
		r := must(openAny(c, filename.Value, 5, OpenOptions{End: stats.Size, NoMap: noMap}))(t)
		for range 2 {
			for i, h := range handles {
				got, err := plain(r.Stored(h, key(i), entry.Version(i+1)))
				if err != nil || !bytes.Equal(got, value(i, lengths[i])) {
					t.Fatalf("value %d: %d bytes, %v", i, len(got), err)
				}
			}
		}
		n := 0
		totals, err := scanTotals(r, true, func(off int64, rec *entry.Record) error {
			got, err := plain(r.ValueOf(off, rec))
			if off != int64(handles[n].Offset) || !bytes.Equal(rec.Key, key(n)) || !bytes.Equal(got, value(n, lengths[n])) {
				t.Errorf("record %d at %d", n, off)
			}
			n++
			return err
		})
		if err != nil || n != len(lengths) || totals != stats.Totals {
			t.Errorf("scan: %d records, %+v, %v", n, totals, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWrongHandles(t *testing.T) { forms(t, testWrongHandles) }

func testWrongHandles(t *testing.T, testConfig func(testing.TB) Config) {
	c := testConfig(t)
	handles, stats := writeValues(t, c, []int{200, 300, 400})
	for mode := range 4 {
		r := must(openAny(c, filename.Value, 5, OpenOptions{NoMap: mode&1 != 0}))(t)
		h := handles[1]
		if readBefore := mode&2 != 0; readBefore {
			for i, h := range handles {
				must(r.Stored(h, key(i), entry.Version(i+1)))(t)
			}
		}
		for name, f := range map[string]func() ([]byte, error){
			"other key":     func() ([]byte, error) { return plain(r.Stored(h, key(2), 2)) },
			"other version": func() ([]byte, error) { return plain(r.Stored(h, key(1), 3)) },
			"other length": func() ([]byte, error) {
				return plain(r.Stored(entry.Handle{Segment: 5, Offset: h.Offset, Length: 299}, key(1), 2))
			},
			"huge length": func() ([]byte, error) {
				return plain(r.Stored(entry.Handle{Segment: 5, Offset: h.Offset, Length: 1 << 63}, key(1), 2))
			},
			"odd offset": func() ([]byte, error) {
				return plain(r.Stored(entry.Handle{Segment: 5, Offset: h.Offset + 4, Length: 300}, key(1), 2))
			},
			"next granule": func() ([]byte, error) {
				return plain(r.Stored(entry.Handle{Segment: 5, Offset: h.Offset + 64, Length: 300}, key(1), 2))
			},
			"in the header": func() ([]byte, error) {
				return plain(r.Stored(entry.Handle{Segment: 5, Offset: 8, Length: 300}, key(1), 2))
			},
			"at the end": func() ([]byte, error) {
				return plain(r.Stored(entry.Handle{Segment: 5, Offset: uint64(stats.Size), Length: 0}, key(1), 2))
			},
			"beyond the end": func() ([]byte, error) {
				return plain(r.Stored(entry.Handle{Segment: 5, Offset: 1 << 62, Length: 300}, key(1), 2))
			},
		} {
			var damage *errs.Corruption
			if v, err := f(); !errors.As(err, &damage) || damage.File != "000005.val" || v != nil {
				t.Errorf("%s: %d bytes, %v", name, len(v), err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Whatever byte of a value segment is damaged, a value is right or an error, and
// a scan reports the damage; a shortened file is refused.
func TestDamageIsFound(t *testing.T) { forms(t, testDamageIsFound) }

func testDamageIsFound(t *testing.T, testConfig func(testing.TB) Config) {
	c := testConfig(t)
	lengths := []int{0, 100, 1000, 70_000, 31, 3, 200_000, 12}
	handles, stats := writeValues(t, c, lengths)
	path := c.filePath(filename.Value, 5)
	clean := must(os.ReadFile(path))(t)
	seed := draw.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i := range 1000 {
		at := rnd.IntN(len(clean))
		if i < 700 { // mostly structure
			at = HeaderSize - 100 + i
		}
		b := bytes.Clone(clean)
		b[at] ^= 1 << rnd.IntN(8)
		checkDamaged(t, c, b, handles, lengths, fmt.Sprintf("seed %d: flip at %d", seed, at))
	}
	for _, n := range []int{0, 1, 4095, 4096, 4097, 5000, len(clean) - int(SealSize(c.Ring != nil)), len(clean) - 1} {
		checkDamaged(t, c, clean[:n], handles, lengths, fmt.Sprintf("cut to %d", n))
		c.FS = image{data: clean[:n]}
		if _, err := Open(c, filename.Value, 5, OpenOptions{End: stats.Size, KeyID: stats.KeyID}); !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("cut to %d: open: %v", n, err)
		}
	}
}

func checkDamaged(t *testing.T, c Config, b []byte, handles []entry.Handle, lengths []int, what string) {
	t.Helper()
	c.FS = image{data: b}
	r, err := openAny(c, filename.Value, 5, OpenOptions{NoMap: true})
	if err != nil {
		if !errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrForeign) && !errors.Is(err, errs.ErrFormat) {
			t.Errorf("%s: open: %v", what, err)
		}
		return
	}
	defer r.Close()
	for i, h := range handles {
		got, err := plain(r.Stored(h, key(i), entry.Version(i+1)))
		if err == nil && !bytes.Equal(got, value(i, lengths[i])) || err != nil && !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("%s: value %d: %d bytes, %v", what, i, len(got), err)
		}
	}
	var damage *errs.Corruption
	if err := r.Scan(true, func(int64, *entry.Record) error { return nil }); !errors.As(err, &damage) || damage.Offset < HeaderSize {
		t.Errorf("%s: scan: %v", what, err)
	}
}

func journalFrame(i, n int, own bool) Frame {
	rec := entry.AppendRecord(nil, &entry.Entry{Key: key(i), Value: value(i, n), Version: entry.Version(i + 1), Kind: entry.Set}, own)
	return Frame{Content: frame.Content{Kind: frame.Group, Versions: []entry.Version{entry.Version(i + 1)}, Payload: [][]byte{entry.PadRecords(rec)}}, Transactions: 1}
}

func TestReaderOfAGrowingSegment(t *testing.T) { forms(t, testReaderOfAGrowingSegment) }

func testReaderOfAGrowingSegment(t *testing.T, testConfig func(testing.TB) Config) {
	for _, noMap := range []bool{false, true} {
		c := testConfig(t)
		w := must(Create(c, Header{Kind: filename.Journal, Number: 3}))(t)
		r := must(w.OpenReader(4<<20, noMap))(t)
		const n = 1000
		offsets := make(chan int64, n)
		var readers sync.WaitGroup
		readers.Go(func() {
			i := 0
			for off := range offsets {
				got, err := plain(r.Stored(entry.Handle{Segment: 3, Offset: uint64(off), Length: uint64(100 + i)}, key(i), entry.Version(i+1)))
				if err != nil || !bytes.Equal(got, value(i, 100+i)) {
					t.Errorf("value %d: %v", i, err)
				}
				i++
			}
		})
		for i := range n {
			f := journalFrame(i, 100+i, true)
			if i == n/2 {
				f.Ahead = 3 << 20
			}
			offsets <- must(w.Append(f))(t)
		}
		if err := errors.Join(w.Seal(0), w.Sync(), w.Close()); err != nil {
			t.Fatal(err)
		}
		close(offsets)
		readers.Wait()
		if totals, err := scanTotals(r, true, func(int64, *entry.Record) error { return nil }); err != nil || totals.Records != n {
			t.Errorf("scan: %+v, %v", totals, err)
		}
		if size := must(os.Stat(w.path))(t).Size(); size != w.End() {
			t.Errorf("sealed and synced: %d bytes long, want %d", size, w.End())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFileOfAnotherNumber gives a segment the name of another one: its header is none of that
// file, and neither is a frame.
func TestFileOfAnotherNumber(t *testing.T) { forms(t, testFileOfAnotherNumber) }

func testFileOfAnotherNumber(t *testing.T, testConfig func(testing.TB) Config) {
	c := testConfig(t)
	w := must(Create(c, Header{Kind: filename.Journal, Number: 3}))(t)
	for i := range 100 {
		must(w.Append(journalFrame(i, 500, true)))(t)
	}
	closed(t, w)
	if err := os.Rename(w.path, c.filePath(filename.Journal, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadHeader(c, filename.Journal, 4); !errors.Is(err, ErrHeader) {
		t.Errorf("header: %v", err)
	}
	tail, err := SearchTail(c, filename.Journal, 4, HeaderSize, 1)
	if err != nil || tail.Frames != 0 || tail.Used == HeaderSize {
		t.Errorf("tail %+v, %v", tail, err)
	}
}

func TestFindTail(t *testing.T) { forms(t, testFindTail) }

func testFindTail(t *testing.T, testConfig func(testing.TB) Config) {
	c := testConfig(t)
	w := must(Create(c, Header{Kind: filename.Journal, Number: 3}))(t)
	var ends []int64
	for i := range 10 {
		f := journalFrame(i, 300<<10, i%2 == 0) // frames cross the window
		f.Unsynced = uint64(i % 4)
		f.Ahead = int64(i/9) * 8 << 20
		must(w.Append(f))(t)
		ends = append(ends, w.End())
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		tail, err := SearchTail(c, filename.Journal, 3, ends[i]+8, uint64(i+2))
		want := frame.Tail{Frames: 8 - i, End: ends[9], Used: ends[9], Transactions: 8 - i, LastVersion: 10}
		for k := i + 2; k < 10; k++ {
			want.Durable = max(want.Durable, uint64(k-k%4))
		}
		if i == 8 {
			want = frame.Tail{End: ends[8] + 8, Used: ends[9] - 1} // no header found; the value's last byte
			want.Used = tail.Used
		}
		if err != nil || tail != want {
			t.Errorf("from frame %d: %+v, %v; want %+v", i+2, tail, err, want)
		}
	}
}

// scanTotals is Reader.Scan, and returns what the frames have.
func scanTotals(r *Reader, values bool, fn func(off int64, rec *entry.Record) error) (frame.Totals, error) {
	err := r.Scan(values, fn)
	for s := r.Frames(false); ; {
		if _, end := s.Next(); end != nil {
			return s.At().Totals, err
		}
	}
}

func closed(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// decodeHeader is Config.decodeHeader for the header of a plain segment of the store uuid.
func decodeHeader(p []byte, uuid [16]byte, kind filename.Kind, number entry.FileNum) (Header, error) {
	h, _, err := (&Config{UUID: uuid}).decodeHeader(p, kind, number)
	return h, err
}

func TestHeader(t *testing.T) {
	h := Header{Kind: filename.Journal, Number: 9, Before: frame.Name{File: 6, Number: 3, Sum: 5}, PrevVersion: 7}
	uuid := [16]byte{9, 8, 7}
	page := make([]byte, HeaderSize)
	if err := h.encodeHeader(page, uuid, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := decodeHeader(page, uuid, filename.Journal, 9); err != nil || got != h {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range []struct {
		kind filename.Kind
		num  entry.FileNum
		uuid [16]byte
		want error
	}{{filename.Journal, 8, uuid, ErrHeader}, {filename.Value, 9, uuid, ErrHeader}, {filename.Journal, 9, [16]byte{}, errs.ErrForeign}} {
		if _, err := decodeHeader(page, c.uuid, c.kind, c.num); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for i := range page {
		b := bytes.Clone(page)
		b[i] ^= 0x10
		if _, err := decodeHeader(b, uuid, filename.Journal, 9); !errors.Is(err, ErrHeader) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	for _, version := range []byte{formatVersion - 1, formatVersion + 1} {
		page[4] = version
		sumHeader(page)
		if _, err := decodeHeader(page, uuid, filename.Journal, 9); !errors.Is(err, errs.ErrFormat) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func TestGolden(t *testing.T) {
	testGolden(t, testConfig(t), "value.golden")
	testGolden(t, goldenConfig(t), "value_encrypted.golden")
}

func testGolden(t *testing.T, c Config, golden string) {
	w := must(NewValueWriter(c, 5))(t)
	must(w.Add(&entry.Entry{Key: []byte("\x00apple"), Value: []byte("red"), Version: 7, Kind: entry.Set}))(t)
	must(w.Add(&entry.Entry{Key: []byte("\x00pear"), Value: []byte("green"), Version: 6, Kind: entry.SetLatest, Meta: 1}))(t)
	// Bytes that encoders of today wrote; those of tomorrow may write others.
	must(w.Add(&entry.Entry{Key: []byte("\x00s2"), Value: []byte("\xb8\x17<0123456789abcdef\x11\x10\x19\x00\x9c\n"), Version: 8, Kind: entry.Set,
		Codec: codec.S2, Raw: 3000}))(t)
	must(w.Add(&entry.Entry{Key: []byte("\x00zstd"), Value: []byte("(\xb5/\xfd`\xb9\n\xd5\x00\x00\x04\x010123456789abcdef\x01T\x10\x04/L7\x01"), Version: 9, Kind: entry.Set,
		Codec: codec.Zstd, Raw: 3001, Expires: 5}))(t)
	stats := must(w.Finish())(t)
	b := must(os.ReadFile(filepath.Join(c.Dir, "000005.val")))(t)
	if int64(len(b)) != stats.Size {
		t.Errorf("file of %d bytes, want %d", len(b), stats.Size)
	}
	var text bytes.Buffer
	d := dump.New(&text, b, 0)
	DumpSegment(d, b)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("testdata", golden)
	if *rewrite {
		if err := os.WriteFile(name, text.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want := must(os.ReadFile(name))(t); !bytes.Equal(text.Bytes(), want) {
		t.Errorf("got\n%s\nwant\n%s", text.Bytes(), want)
	}
}

// A compressed value decodes, from a mapping or not; what does not is damage that
// has file and offset, and by an unknown codec a newer format too.
func TestCompressedValues(t *testing.T) { forms(t, testCompressedValues) }

func testCompressedValues(t *testing.T, testConfig func(testing.TB) Config) {
	c := testConfig(t)
	var coder codec.Coder
	type sample struct {
		e    entry.Entry
		want []byte
		bad  bool
		h    entry.Handle
	}
	var all []*sample
	add := func(kind codec.Codec, stored, want []byte, raw int) {
		all = append(all, &sample{want: want, bad: want == nil, e: entry.Entry{Key: key(len(all)), Value: stored,
			Version: entry.Version(len(all) + 1), Kind: entry.Set, Codec: kind, Raw: uint32(raw)}})
	}
	for _, kind := range []codec.Codec{codec.S2, codec.Zstd} {
		for _, n := range []int{1, 100, 5000, 70_000, 3 << 20} {
			v := value(n, n)
			encoded := coder.Encode(nil, kind, v)
			add(kind, encoded, v, n)
			add(kind, encoded, nil, n+1)
			add(kind, encoded[:len(encoded)-1], nil, n)
			add(codec.S2+codec.Zstd-kind, encoded, nil, n)
		}
		add(kind, coder.Encode(nil, kind, make([]byte, 32<<20)), nil, 10) // a bomb
	}
	add(9, value(1, 200), nil, 5000)
	w := must(NewValueWriter(c, 5))(t)
	for _, s := range all {
		s.h = must(w.Add(&s.e))(t)
	}
	stats := must(w.Finish())(t)
	for _, noMap := range []bool{false, true} {
		r := must(openAny(c, filename.Value, 5, OpenOptions{End: stats.Size, NoMap: noMap}))(t)
		for _, s := range all {
			v, err := r.Stored(s.h, s.e.Key, s.e.Version)
			if err != nil || v.Codec != s.e.Codec || v.Raw != s.e.Raw || !bytes.Equal(v.Bytes, s.e.Value) {
				t.Fatalf("%v of %d bytes: %v", s.e.Codec, s.e.Raw, err)
			}
			got, err := r.Decode(&coder, nil, v, s.h.Offset)
			var damage *errs.Corruption
			switch {
			case !s.bad && (err != nil || !bytes.Equal(got, s.want)):
				t.Errorf("%v of %d bytes: %v", s.e.Codec, s.e.Raw, err)
			case s.bad && (!errors.As(err, &damage) || damage.File != "000005.val" || damage.Offset != int64(s.h.Offset) || got != nil):
				t.Errorf("%v of %d bytes, should not decode: %d bytes, %v", s.e.Codec, s.e.Raw, len(got), err)
			case errors.Is(err, errs.ErrFormat) != (s.e.Codec == 9):
				t.Errorf("%v: %v", s.e.Codec, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func FuzzSegment(f *testing.F) {
	plain, keys := testConfig(f), encryptedConfig(f)
	plainFile, _ := fuzzedSegment(f, plain)
	encryptedFile, keyID := fuzzedSegment(f, keys)
	corpus.Add(f, plainFile[:80], plainFile[HeaderSize:], uint64(4096+48), uint64(10), false)
	corpus.Add(f, []byte{}, encryptedFile[HeaderSize:], uint64(4096+48), uint64(10), true)
	f.Fuzz(func(t *testing.T, head, body []byte, off, length uint64, encrypted bool) {
		// The mutator cannot guess checksums, and no tags: an encrypted file has its header.
		c, page := Config{UUID: plain.UUID}, make([]byte, HeaderSize)
		o := OpenOptions{NoMap: true}
		if encrypted {
			c.Ring, o.KeyID = keys.Ring, keyID
			copy(page, encryptedFile)
		} else {
			copy(page[:sumOffset], head)
			sumHeader(page)
		}
		b := append(page, body...)
		sumFrames(b, c.identity(filename.Value, 5))
		c.FS = image{data: b}
		typed := func(err error) {
			if err != nil && !errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrForeign) && !errors.Is(err, errs.ErrFormat) && !errors.Is(err, errs.ErrKey) {
				t.Errorf("untyped error %v", err)
			}
		}
		if left, err := OpenRemains(c, filename.Value, 5, OpenOptions{}); err == nil {
			_, err = left.Durable()
			typed(err)
			typed(left.Each(Limits{}, func(int64, *entry.Record) error { return nil }, func(int64, int64) {}))
			must(0, left.Close())(t)
		}
		r, err := Open(c, filename.Value, 5, o)
		typed(err)
		if err == nil {
			readFuzzed(t, c, r, off, length, typed)
		}
	})
}

// fuzzedSegment makes a segment, and returns its bytes.
func fuzzedSegment(f *testing.F, c Config) ([]byte, crypt.FileKeyID) {
	w := must(NewValueWriter(c, 5))(f)
	for i := range 3 {
		e := entry.Entry{Key: key(i), Value: value(i, 10*i), Version: 1, Kind: entry.Set}
		if i > 0 {
			e.Value, e.Codec, e.Raw = new(codec.Coder).Encode(nil, codec.Codec(i), value(i, 200)), codec.Codec(i), 200
		}
		must(w.Add(&e))(f)
	}
	stats := must(w.Finish())(f)
	return must(os.ReadFile(c.filePath(filename.Value, 5)))(f), stats.KeyID
}

// readFuzzed reads all that r has, and the record at off; no error may be of another type
// than typed knows.
func readFuzzed(t *testing.T, c Config, r *Reader, off, length uint64, typed func(error)) {
	var coder codec.Coder
	defer r.Close()
	err := r.Scan(true, func(off int64, rec *entry.Record) error {
		value, err := r.ValueOf(off, rec)
		if err == nil && rec.Raw != 0 && rec.Raw < 1<<20 {
			_, err = r.Decode(&coder, nil, value, uint64(off))
		}
		return err
	})
	typed(err)
	_, err = plain(r.Stored(entry.Handle{Segment: 5, Offset: off, Length: length}, key(1), 1))
	typed(err)
	_, err = SearchTail(c, filename.Value, 5, HeaderSize, 1)
	typed(err)
}

func BenchmarkValue(b *testing.B) {
	for _, size := range []int{128, 1024, 16 << 10} {
		for _, noMap := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/noMap=%v", size, noMap), func(b *testing.B) { benchmarkValue(b, testConfig(b), size, noMap) })
		}
		b.Run(fmt.Sprintf("%d/encrypted", size), func(b *testing.B) { benchmarkValue(b, encryptedConfig(b), size, false) })
	}
}

func benchmarkValue(b *testing.B, c Config, size int, noMap bool) {
	n := 64 << 20 / (size + 64)
	lengths := make([]int, n)
	for i := range lengths {
		lengths[i] = size
	}
	handles, stats := writeValues(b, c, lengths)
	r := must(Open(c, filename.Value, 5, OpenOptions{KeyID: stats.KeyID, NoMap: noMap}))(b)
	defer r.Close()
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = key(i)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		i := rnd.IntN(n)
		if _, err := r.Stored(handles[i], keys[i], entry.Version(i+1)); err != nil {
			b.Fatal(err)
		}
	}
}
