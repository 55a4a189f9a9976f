package entry

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/test/kit/corpus"
)

var testFile = checksum.New([16]byte{1, 2, 3}, 'J', 9)

// samples are records of every shape: name, entry, own checksum.
func samples() []struct {
	name string
	e    Entry
	own  bool
} {
	long := bytes.Repeat([]byte("k"), 70_000)
	big := bytes.Repeat([]byte("0123456789abcdef"), 10_000) // 160,000 bytes: three pieces
	return []struct {
		name string
		e    Entry
		own  bool
	}{
		{"set", Entry{Key: []byte("\x00key"), Value: []byte("value"), Version: 7, Kind: Set}, false},
		{"empty value", Entry{Key: []byte("\x00k"), Value: []byte{}, Version: 1, Kind: Set, Meta: 255}, false},
		{"delete", Entry{Key: []byte("\x00key"), Version: MaxVersion, Kind: Delete}, false},
		{"range delete", Entry{Key: []byte("\x00from"), Value: []byte("\x00upto"), Version: 5, Kind: RangeDelete}, false},
		{"expiry", Entry{Key: []byte("\x00key"), Value: []byte("v"), Version: 8, Kind: SetLatest, Expires: 1700000000123}, false},
		{"own", Entry{Key: []byte("\x00key"), Value: bytes.Repeat([]byte("x"), 300), Version: 9, Kind: Set}, true},
		{"own, expiry", Entry{Key: []byte("\x00key"), Value: bytes.Repeat([]byte("x"), 301), Version: 9, Kind: Set, Expires: 5}, true},
		{"pieces", Entry{Key: []byte("\x00key"), Value: big, Version: 10, Kind: Set}, true},
		{"big, in the frame's checksum", Entry{Key: []byte("\x00key"), Value: big, Version: 10, Kind: Set}, false},
		{"long key", Entry{Key: long, Value: []byte("v"), Version: 11, Kind: Set}, false},
		{"s2", Entry{Key: []byte("\x00key"), Value: []byte("\xb8\x17<0123456789abcdef\x11\x10\x19\x00\x9c\n"), Version: 12, Kind: Set, Codec: codec.S2, Raw: 3000}, true},
		{"zstd, expiry", Entry{Key: []byte("\x00key"), Value: []byte("(\xb5/\xfd`\xb9\n\xd5\x00\x00\x04\x010123456789abcdef\x01T\x10\x04/L7\x01"), Version: 12, Kind: Set, Expires: 5, Codec: codec.Zstd, Raw: 3001}, true},
		{"unknown codec, pieces", Entry{Key: []byte("\x00key"), Value: big, Version: 12, Kind: Set, Codec: 15, Raw: 1 << 20}, true},
		{"long key, expiry, pieces", Entry{Key: long, Value: big, Version: 11, Kind: Set, Expires: 1}, true},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	const offset = 4144
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			want := s.e
			unversioned := s.e
			unversioned.Version = 0
			rec := AppendRecord([]byte("12345678"), &unversioned, s.own)[8:]
			if len(rec) != RecordSize(&s.e, s.own) {
				t.Fatalf("encoded %d bytes, RecordSize says %d", len(rec), RecordSize(&s.e, s.own))
			}
			size, head := RawSize(rec)
			if s.own {
				SetVersion(rec, s.e.Version)
				PlaceRecord(rec, testFile, offset, head)
			}
			before := s.e.Version - 1
			MarkBegin(rec)
			var got Record
			err := got.DecodeNext(append(slices.Clone(rec), "tail"...), &before, false)
			if err != nil {
				t.Fatal(err)
			}
			if got.Size != len(rec) || size != len(rec) {
				t.Errorf("decoded size %d, raw size %d, want %d", got.Size, size, len(rec))
			}
			if !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) {
				t.Errorf("key or value differ")
			}
			if got.Version != want.Version || got.Kind != want.Kind || got.Meta != want.Meta || got.Expires != want.Expires || got.Own != s.own || got.Codec != want.Codec || got.Raw != want.Raw {
				t.Errorf("got %d %d %d %d %v, want %d %d %d %d %v", got.Version, got.Kind, got.Meta, got.Expires, got.Own,
					want.Version, want.Kind, want.Meta, want.Expires, s.own)
			}
			if got.Own != got.VerifyHead(rec, testFile, offset) {
				t.Error("head does not verify")
			}
			if got.Own && !got.VerifyValue(rec, testFile, offset) {
				t.Error("value does not verify")
			}
			if got.Own && (got.VerifyHead(rec, testFile, offset+8) || got.VerifyValue(rec, testFile, offset+8)) {
				t.Error("a record at another offset verifies")
			}
			plain := s.e.Expires == 0 && s.e.Codec == codec.None && len(s.e.Key) < longKey && len(s.e.Value) < PieceSize
			if s.own {
				readAgain(t, rec, &s.e, plain)
			}
			if s.own && head == size || !s.own && head != size {
				t.Errorf("head %d of %d bytes", head, size)
			}
		})
	}
}

// readAgain checks that StoredAgain returns just what was asked for, or nothing.
func readAgain(t *testing.T, rec []byte, e *Entry, want bool) {
	t.Helper()
	long := append(slices.Clone(rec), "tail"...)
	n := uint64(len(e.Value))
	if v, ok := StoredAgain(long, e.Key, e.Version, n); ok != want || ok && (!bytes.Equal(v.Bytes, e.Value) || cap(v.Bytes) != len(v.Bytes) || v.Raw != 0 || v.Codec != codec.None) {
		t.Errorf("read again: %v, want %v", ok, want)
	}
	other := bytes.Clone(e.Key)
	other[len(other)-1]++
	for what, ok := range map[string]bool{
		"other key":     second(StoredAgain(long, other, e.Version, n)),
		"shorter key":   second(StoredAgain(long, e.Key[:len(e.Key)-1], e.Version, n)),
		"no key":        second(StoredAgain(long, nil, e.Version, n)),
		"other version": second(StoredAgain(long, e.Key, e.Version-1, n)),
		"other length":  second(StoredAgain(long, e.Key, e.Version, n+1)),
		"huge length":   second(StoredAgain(long, e.Key, e.Version, 1<<63)),
		"cut in value":  second(StoredAgain(rec[:HeaderSize+len(e.Key)+int(n)-1], e.Key, e.Version, n)),
		"cut in key":    second(StoredAgain(rec[:HeaderSize+1], e.Key, e.Version, n)),
		"cut in header": second(StoredAgain(rec[:HeaderSize-1], e.Key, e.Version, n)),
	} {
		if ok {
			t.Errorf("%s: it was read", what)
		}
	}
}

func second(_ Stored, ok bool) bool { return ok }

func TestOwnRecordDetectsEveryFlippedBit(t *testing.T) {
	const offset = 4096
	plain := Entry{Key: []byte("\x00key"), Value: bytes.Repeat([]byte("x"), 203), Version: 9, Kind: Set, Expires: 5}
	compressed := plain
	compressed.Codec, compressed.Raw = codec.Zstd, 1000
	for _, e := range []Entry{plain, compressed} {
		flipEveryBit(t, &e, offset)
	}
}

func flipEveryBit(t *testing.T, e *Entry, offset int64) {
	rec := AppendRecord(nil, e, true)
	_, head := RawSize(rec)
	PlaceRecord(rec, testFile, offset, head)
	padding := len(rec) - 1 // one byte, checked by nobody and read by nobody
	for bit := range 8 * padding {
		rec[bit/8] ^= 1 << (bit % 8)
		r, err := DecodeRecord(rec)
		if err == nil && r.VerifyHead(rec, testFile, offset) && r.VerifyValue(rec, testFile, offset) {
			t.Errorf("bit %d of byte %d: not detected", bit%8, bit/8)
		}
		rec[bit/8] ^= 1 << (bit % 8)
	}
}

func TestRecordGolden(t *testing.T) {
	var out strings.Builder
	for _, s := range samples() {
		if len(s.e.Key)+len(s.e.Value) > 400 {
			continue
		}
		rec := AppendRecord(nil, &s.e, s.own)
		if _, head := RawSize(rec); s.own {
			PlaceRecord(rec, testFile, 4096, head)
		}
		out.WriteString("# " + s.name + "\n" + hex.Dump(rec))
	}
	path := filepath.Join("testdata", "record.txt")
	want, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		os.MkdirAll("testdata", 0o755)
		os.WriteFile(path, []byte(out.String()), 0o644)
		t.Fatalf("%s was missing: written, check it in", path)
	}
	if got := out.String(); got != string(want) {
		t.Errorf("records are no longer written as in %s:\n%s", path, got)
	}
}

// A compressed value has its length in the extension, among fields that may be
// unknown, and a checksum of its own.
func TestCompressedRecordsThatCannotBe(t *testing.T) {
	e := Entry{Key: []byte("\x00key"), Value: bytes.Repeat([]byte("x"), 100), Version: 9, Kind: Set, Codec: codec.S2, Raw: 500}
	good := AppendRecord(nil, &e, true)
	if r, err := DecodeRecord(good); err != nil || r.Raw != 500 || r.Codec != codec.S2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, change := range map[string]func(b []byte){
		"no codec":             func(b []byte) { b[23] &^= 0xf },
		"no own checksum":      func(b []byte) { b[23] &^= 0x10 },
		"no length":            func(b []byte) { b[27] = 0 },
		"length of zero":       func(b []byte) { clear(b[32:40]) },
		"length beyond bound":  func(b []byte) { binary.LittleEndian.PutUint64(b[32:], codec.MaxLength+1) },
		"short extension":      func(b []byte) { b[24] = 8 },
		"field before it":      func(b []byte) { b[26] |= 1 << 3 },
		"unknown and required": func(b []byte) { b[27] |= 2 },
	} {
		b := bytes.Clone(good)
		change(b)
		if r, err := DecodeRecord(b); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	wide := slices.Insert(bytes.Clone(good), 32, 9, 0, 0, 0, 0, 0, 0, 0) // an optional field, before it
	wide[24], wide[26] = 24, 1<<5
	if r, err := DecodeRecord(wide); err != nil || r.Raw != 500 || !bytes.Equal(r.Value, e.Value) {
		t.Errorf("unknown optional field: %+v, %v", r, err)
	}
}

// Flags and lengths that contradict each other are refused.
func TestRecordsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		name  string
		value int
		flags uint64 // that are flipped
	}{
		{"piece table for no value", 0, flagPieces},
		{"piece table for a small value", PieceSize - 1, flagPieces},
		{"large value without piece table", PieceSize, flagPieces},
		{"piece table of a value without own checksum", PieceSize, flagOwn},
		{"unknown flag", 10, 1 << 63},
		{"codec without a length", 10, 1 << codecShift},
	} {
		rec := AppendRecord(nil, &Entry{Key: []byte("key"), Value: make([]byte, c.value), Version: 9, Kind: Set}, true)
		if _, err := DecodeRecord(rec); err != nil {
			t.Fatal(c.name, err)
		}
		binary.LittleEndian.PutUint64(rec[16:], binary.LittleEndian.Uint64(rec[16:])^c.flags)
		if r, err := DecodeRecord(append(rec, make([]byte, 64)...)); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
}

// Lengths and flags of a short record that can't be are refused, wherever it is cut.
func TestShortRecordsThatCannotBe(t *testing.T) {
	for _, s := range samples() {
		if s.own || len(s.e.Value) > 1000 {
			continue
		}
		rec := AppendRecord(nil, &s.e, false)
		for n := range rec {
			if r, err := DecodeRecord(rec[:n]); !errors.Is(err, ErrRecord) {
				t.Fatalf("%s: cut to %d of %d bytes: %+v, %v", s.name, n, len(rec), r, err)
			}
		}
	}
	long := binary.AppendUvarint
	for name, rec := range map[string][]byte{
		"unknown flag":        {shortForm | shortVersion | 1, 1, 0, 'k'},
		"no kind":             {shortForm, 1, 0, 'k'},
		"zero":                make([]byte, 40),
		"long key":            append(long([]byte{shortForm | 1}, MaxKey+1), make([]byte, MaxKey+9)...),
		"long value":          append(long([]byte{shortForm | 1, 1}, MaxValue+1), make([]byte, 40)...),
		"length of 2^64":      append(long([]byte{shortForm | 1, 1}, 1<<64-1), make([]byte, 40)...),
		"length of 80 bits":   append([]byte{shortForm | 1, 1}, bytes.Repeat([]byte{0xff}, 40)...),
		"long form, no check": append([]byte{1}, make([]byte, 47)...),
	} {
		if r, err := DecodeRecord(rec); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// Records of several transactions that follow each other have the versions that they
// were given, with the zeros that stand between them.
func TestVersionsFollow(t *testing.T) {
	const first = 70
	var all []byte
	var want []Version
	for tx, records := range []string{"s", "soos", "o", "os", "sss", "oo", "s"} {
		begin := len(all)
		var payload []byte
		for i, form := range records {
			e := Entry{Key: bytes.Repeat([]byte("k"), tx+i+1), Value: make([]byte, i), Kind: Set, Version: first + Version(tx)}
			payload = AppendRecord(payload, &e, form == 'o')
			want = append(want, e.Version)
		}
		MarkBegin(payload)
		all = append(all, PadRecords(payload)...)
		if begin%8 != 0 {
			t.Fatalf("a transaction begins at %d", begin)
		}
	}
	v := Version(first - 1)
	for at := 0; at < len(all); {
		var r Record
		err := r.DecodeNext(all[at:], &v, false)
		if err != nil || len(want) == 0 || r.Version != want[0] || v != want[0] || r.Own && at%8 != 0 {
			t.Fatalf("at %d: %+v, %v; want versions %d", at, r, err, want)
		}
		if size, _ := RawSize(all[at:]); size != r.Size || KindOf(all[at:]) != Set {
			t.Errorf("at %d: size %d, want %d", at, size, r.Size)
		}
		at, want = at+r.Size, want[1:]
	}
	if len(want) > 0 {
		t.Errorf("records of versions %d are missing", want)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for _, s := range samples() {
		if len(s.e.Key) < 1000 && len(s.e.Value) < 1000 {
			corpus.Add(f, AppendRecord(nil, &s.e, s.own))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := DecodeRecord(src)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatalf("error %v is no ErrRecord", err)
			}
			return
		}
		if r.Size > len(src) || r.Own && (r.Size%8 != 0 || len(r.Key)+len(r.Value)+HeaderSize > r.Size) || r.UnpaddedSize() > r.Size || r.Size-r.UnpaddedSize() > mostZeros {
			t.Fatalf("size %d, key %d, value %d of %d bytes", r.Size, len(r.Key), len(r.Value), len(src))
		}
		if size, head := RawSize(src); size != r.Size || head > size {
			t.Fatalf("RawSize says %d, %d, DecodeRecord %d", size, head, r.Size)
		}
		if !r.Own {
			e := Entry{Key: r.Key, Value: r.Value, Kind: r.Kind, Meta: r.Meta, Expires: r.Expires}
			again, err := DecodeRecord(AppendRecord(nil, &e, false))
			if err != nil || !bytes.Equal(again.Key, r.Key) || !bytes.Equal(again.Value, r.Value) || again.Kind != r.Kind || again.Meta != r.Meta || again.Expires != r.Expires {
				t.Fatalf("%+v is encoded and decoded as %+v, %v", r, again, err)
			}
		}
		r.VerifyHead(src, testFile, 0)
		if r.Own {
			r.VerifyValue(src, testFile, 0)
		}
	})
}

func TestCompareOrdersByKeyThenNewestFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	entries := make([]Entry, 200)
	for i := range entries {
		entries[i] = Entry{Key: []byte{byte(rng.IntN(5))}, Version: Version(rng.IntN(20))}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return Compare(&a, &b) })
	for i := 1; i < len(entries); i++ {
		a, b := entries[i-1], entries[i]
		if c := bytes.Compare(a.Key, b.Key); c > 0 || c == 0 && a.Version < b.Version {
			t.Fatalf("%x@%d before %x@%d", a.Key, a.Version, b.Key, b.Version)
		}
	}
}

func BenchmarkDecodeRecord(b *testing.B) {
	rec := AppendRecord(nil, &Entry{Key: []byte("\x00vsz=00016-k=0000000001"), Value: make([]byte, 16), Version: 1, Kind: Set}, false)
	for b.Loop() {
		if _, err := DecodeRecord(rec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendRecord(b *testing.B) {
	e := Entry{Key: []byte("\x00vsz=00016-k=0000000001"), Value: make([]byte, 16), Version: 1, Kind: Set}
	buf := make([]byte, 0, 1024)
	for b.Loop() {
		buf = AppendRecord(buf[:0], &e, false)
	}
}
