package entry

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/checksum"
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
			SetVersion(rec, s.e.Version)
			size, head := RawSize(rec)
			Place(rec, testFile, offset, head)
			got, err := DecodeRecord(append(slices.Clone(rec), "tail"...))
			if err != nil {
				t.Fatal(err)
			}
			if got.Size != len(rec) || size != len(rec) {
				t.Errorf("decoded size %d, raw size %d, want %d", got.Size, size, len(rec))
			}
			if !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) {
				t.Errorf("key or value differ")
			}
			if got.Version != want.Version || got.Kind != want.Kind || got.Meta != want.Meta || got.Expires != want.Expires || got.Own != s.own {
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
			if s.own && head == size || !s.own && head != size {
				t.Errorf("head %d of %d bytes", head, size)
			}
		})
	}
}

func TestOwnRecordDetectsEveryFlippedBit(t *testing.T) {
	const offset = 4096
	e := Entry{Key: []byte("\x00key"), Value: bytes.Repeat([]byte("x"), 203), Version: 9, Kind: Set, Expires: 5}
	rec := AppendRecord(nil, &e, true)
	_, head := RawSize(rec)
	Place(rec, testFile, offset, head)
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
		_, head := RawSize(rec)
		Place(rec, testFile, 4096, head)
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

func FuzzDecodeRecord(f *testing.F) {
	for _, s := range samples() {
		if len(s.e.Key) < 1000 && len(s.e.Value) < 1000 {
			f.Add(AppendRecord(nil, &s.e, s.own))
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
		if r.Size > len(src) || r.Size%8 != 0 || len(r.Key)+len(r.Value)+HeaderSize > r.Size {
			t.Fatalf("size %d, key %d, value %d of %d bytes", r.Size, len(r.Key), len(r.Value), len(src))
		}
		if size, head := RawSize(src); size != r.Size || head > size {
			t.Fatalf("RawSize says %d, %d, DecodeRecord %d", size, head, r.Size)
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
