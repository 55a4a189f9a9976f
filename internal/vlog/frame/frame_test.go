package frame

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

var testID = checksum.New([16]byte{1, 2, 3, 4}, 'J', 7)

// build returns the frame of records at offset, as a segment's writer makes it.
func build(t testing.TB, h Header, records []byte, offset int64) []byte {
	t.Helper()
	var totals Totals
	crc := uint32(0)
	if len(records) > 0 {
		var err error
		c := Content{Kind: Group, Versions: []entry.Version{max(h.FirstVersion, 1)}, Payload: [][]byte{records}}
		if crc, err = c.Place(testID, offset+HeaderSize); err != nil {
			t.Fatal(err)
		}
		totals = c.Totals
	}
	h.FirstVersion = totals.Min
	h.PayloadSum = crc ^ testID.Mask(offset+HeaderSize)
	h.Size = HeaderSize + int64(len(records))
	h.Records = uint32(totals.Records)
	out := make([]byte, HeaderSize, h.Size)
	h.Put(out, testID, offset)
	return append(out, records...)
}

func records() []byte {
	var b []byte
	b = entry.AppendRecord(b, &entry.Entry{Key: []byte("\x00a"), Value: []byte("small"), Version: 9, Kind: entry.Set}, false)
	b = entry.AppendRecord(b, &entry.Entry{Key: []byte("\x00b"), Value: []byte("a value of its own"), Version: 9, Kind: entry.Set, Meta: 5}, true)
	b = entry.AppendRecord(b, &entry.Entry{Key: []byte("\x00c"), Version: 9, Kind: entry.Delete}, false)
	return entry.AppendRecord(b, &entry.Entry{Key: []byte("\x00d"), Version: 9, Kind: entry.Set, Expires: 12}, true)
}

func TestRoundTrip(t *testing.T) {
	want := Header{Kind: Group, Transactions: 3, Chain: 0xdeadbeef, FirstVersion: 9, Number: 1 << 40, Unsynced: 2}
	b := build(t, want, records(), 4096)
	h, err := Decode(b, testID, 4096)
	if err != nil {
		t.Fatal(err)
	}
	totals, err := h.Verify(b[HeaderSize:], testID, 4096+HeaderSize, true)
	if err != nil {
		t.Fatal(err)
	}
	want.Sum, want.PayloadSum, want.Size, want.Records = h.Sum, h.PayloadSum, int64(len(b)), 4
	if h != want {
		t.Errorf("decoded %+v, want %+v", h, want)
	}
	if want := (Totals{Records: 4, OwnBytes: 48 + 48, SmallBytes: 16 + 8, Min: 9, Max: 9}); totals != want {
		t.Errorf("totals %+v, want %+v", totals, want)
	}
	if h.Durable() != 1<<40-3 {
		t.Errorf("durable %d", h.Durable())
	}
}

func TestDurable(t *testing.T) {
	for _, c := range []struct {
		number   uint64
		unsynced uint32
		want     uint64
	}{{1, 0, 0}, {2, 0, 1}, {2, 1, 0}, {2, 2, 0}, {10, 3, 6}, {1 << 50, math.MaxUint32, 0}} {
		h := Header{Number: c.number, Unsynced: c.unsynced}
		if got := h.Durable(); got != c.want {
			t.Errorf("frame %d, %d unsynced: durable %d, want %d", c.number, c.unsynced, got, c.want)
		}
	}
}

// Each bit of a frame is under some checksum, and the frame is bound to its place.
func TestEveryFlipIsFound(t *testing.T) {
	b := build(t, Header{Kind: Group, Transactions: 1, FirstVersion: 9, Number: 3}, records(), 4096)
	check := func(b []byte, id checksum.Identity, off int64) error {
		h, err := Decode(b, id, off)
		if err != nil {
			return err
		}
		if h.Size != int64(len(b)) {
			return errors.New("length")
		}
		_, err = h.Verify(b[HeaderSize:], id, off+HeaderSize, true)
		return err
	}
	if err := check(b, testID, 4096); err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(b) {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		if check(c, testID, 4096) == nil {
			t.Errorf("bit %d of byte %d flipped: accepted", i%8, i/8)
		}
	}
	if check(b, testID, 4104) == nil || check(b, testID+1, 4096) == nil {
		t.Error("accepted at another place")
	}
}

func TestNewerFrame(t *testing.T) {
	for _, change := range []func(b []byte){
		func(b []byte) { b[12] = 9 },
		func(b []byte) { b[13] = 0x20 },
	} {
		b := make([]byte, HeaderSize)
		h := Header{Kind: Edit, Size: HeaderSize, Number: 1}
		h.Put(b, testID, 0)
		change(b)
		sum := testID.Sum(0, b[4:])
		b[0], b[1], b[2], b[3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		if _, err := Decode(b, testID, 0); !errors.Is(err, errs.ErrFormat) {
			t.Errorf("got %v, want ErrFormat", err)
		}
	}
}

func TestPlaceRefusesWhatIsNoRecord(t *testing.T) {
	good := records()
	for _, n := range []int{1, 8, 24, 31, 40, len(good) - 1, len(good) - 8} {
		c := Content{Kind: Group, Payload: [][]byte{good[:n]}}
		if _, err := c.Place(testID, 0); !errors.Is(err, entry.ErrRecord) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestPlausibleNeverDeniesAFrame(t *testing.T) {
	seed := draw.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		h := Header{Kind: Kind(1 + rnd.IntN(4)), Size: HeaderSize, Number: 1 + rnd.Uint64N(1<<62), FirstVersion: entry.Version(rnd.Uint64()) & entry.MaxVersion,
			Transactions: uint16(rnd.Uint32()), Records: rnd.Uint32(), Chain: rnd.Uint32(), Unsynced: rnd.Uint32(), Skipped: rnd.Uint32()}
		if entry.Version(h.Skipped) >= h.FirstVersion {
			h.Skipped = 0
		}
		b := make([]byte, HeaderSize)
		h.Put(b, testID, 8)
		if got, err := Decode(b, testID, 8); !looksLikeHeader(b) || err != nil || got != h {
			t.Fatalf("seed %d: %+v: %v", seed, h, err)
		}
	}
}

func TestGolden(t *testing.T) {
	b := build(t, Header{Kind: Group, Transactions: 3, Chain: 0x01020304, FirstVersion: 9, Number: 2, Unsynced: 1}, records(), 4096)
	checkGolden(t, "group.golden", b)
	checkGolden(t, "jumps.golden", jumps(t))
}

// jumps is a frame of the versions 1009, 1010 and 70000, after version 9.
func jumps(t testing.TB) []byte {
	t.Helper()
	versions := []entry.Version{1009, 1010, 70000}
	var payload [][]byte
	for i, v := range versions {
		p := entry.AppendRecord(nil, &entry.Entry{Key: []byte("\x00a"), Value: []byte{'0' + byte(i)}, Kind: entry.Set, Meta: 3, Expires: 12}, false)
		if i != 1 {
			at := entry.VersionAt(p)
			p = slices.Insert(p, at, make([]byte, entry.VersionSize)...)
			entry.PutVersion(p, at, v)
		}
		payload = append(payload, entry.PadRecords(entry.AppendRecord(p, &entry.Entry{Key: []byte("\x00b"), Kind: entry.Delete}, false)))
	}
	c := Content{Kind: Group, Versions: versions, Payload: payload}
	crc, err := c.Place(testID, 4096+HeaderSize)
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.Join(payload, nil)
	h := Header{Kind: Group, Transactions: 3, FirstVersion: c.Totals.Min, Number: 2, Skipped: 999, Records: uint32(c.Totals.Records),
		PayloadSum: crc ^ testID.Mask(4096+HeaderSize), Size: HeaderSize + int64(len(all))}
	b := make([]byte, HeaderSize, h.Size)
	h.Put(b, testID, 4096)
	return append(b, all...)
}

// Versions of a frame may jump; what is read back has each of them, and the greatest one. A frame
// says what it follows, also behind a jump over more than 32 bits.
func TestJumps(t *testing.T) {
	b := jumps(t)
	h, err := Decode(b, testID, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if totals, err := h.Verify(b[HeaderSize:], testID, 4096+HeaderSize, true); err != nil || totals.Max != 70000 || totals.Min != 1009 {
		t.Fatal(totals, err)
	}
	var got []entry.Version
	for r := h.Walk(b[HeaderSize:], 0); r.More(); {
		var rec entry.Record
		if err := r.Next(&rec); err != nil {
			t.Fatal(err)
		}
		if got = append(got, rec.Version); rec.Kind == entry.Set && (rec.Meta != 3 || rec.Expires != 12) {
			t.Errorf("%+v", rec)
		}
	}
	if !slices.Equal(got, []entry.Version{1009, 1009, 1010, 1010, 70000, 70000}) {
		t.Error(got)
	}
	for _, c := range []struct {
		h    Header
		last entry.Version
		want bool
	}{
		{h, 8, false}, {h, 9, true}, {h, 10, true}, {h, 5000, true},
		{Header{FirstVersion: 7}, 5, false}, {Header{FirstVersion: 7}, 6, true}, {Header{}, 0, true},
		{Header{FirstVersion: 9<<32 + 100, Skipped: 89}, 10, true}, {Header{FirstVersion: 9<<32 + 100, Skipped: 89}, 9, false},
	} {
		if c.h.Follows(c.last) != c.want {
			t.Errorf("version %d, %d skipped, follows %d: %v", c.h.FirstVersion, c.h.Skipped, c.last, !c.want)
		}
	}
	// What a reader would misread is not written.
	short := entry.PadRecords(entry.AppendRecord(nil, &entry.Entry{Key: []byte("\x00a"), Kind: entry.Delete}, false))
	for _, versions := range [][]entry.Version{{5, 7}, {5, 5}, {5, 4}} {
		c := Content{Kind: Group, Versions: versions, Payload: [][]byte{bytes.Clone(short), bytes.Clone(short)}}
		if _, err := c.Place(testID, 0); !errors.Is(err, errs.ErrInvalid) {
			t.Errorf("versions %d: %v", versions, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	corpus.Add(f, build(f, Header{Kind: Group, Transactions: 3, FirstVersion: 9, Number: 2}, records(), 4096))
	corpus.Add(f, jumps(f))
	corpus.Add(f, build(f, Header{Kind: Seal, Number: 2}, nil, 4096))
	corpus.Add(f, make([]byte, HeaderSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= HeaderSize { // the mutator cannot guess checksums
			sum := testID.Sum(4096, b[4:HeaderSize])
			b[0], b[1], b[2], b[3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		}
		h, err := Decode(b, testID, 4096)
		if err != nil {
			if !errors.Is(err, ErrFrame) && !errors.Is(err, errs.ErrFormat) {
				t.Errorf("untyped error %v", err)
			}
			return
		}
		payload := b[HeaderSize:]
		h.Size = int64(len(b))
		h.Encrypted = false
		// The mutator cannot guess the number of records either.
		totals, _, _ := h.checkRecords(payload, testID, 4096+HeaderSize, true)
		h.Records = uint32(totals.Records)
		_, crc, err := h.checkRecords(payload, testID, 4096+HeaderSize, true)
		if err == nil {
			h.PayloadSum = crc ^ testID.Mask(4096+HeaderSize)
			if h.Kind == Group {
				if _, err := h.Verify(payload, testID, 4096+HeaderSize, true); err != nil {
					t.Errorf("walked, but not verified: %v", err)
				}
			}
		} else if !errors.Is(err, ErrFrame) {
			t.Errorf("untyped error %v", err)
		}
		c := Content{Kind: Group, Versions: []entry.Version{1}, Payload: [][]byte{bytes.Clone(payload)}}
		_, _ = c.Place(testID, 0)
	})
}

func BenchmarkPlace(b *testing.B) {
	for _, c := range []struct {
		name  string
		n, v  int
		own   bool
		total int
	}{{"small", 1000, 16, false, 0}, {"own1K", 1000, 1024, true, 0}} {
		var recs []byte
		for i := range c.n {
			recs = entry.AppendRecord(recs, &entry.Entry{Key: fmt.Appendf(nil, "\x00key%018d", i), Value: make([]byte, c.v), Version: 1, Kind: entry.Set}, c.own)
		}
		b.Run("place/"+c.name, func(b *testing.B) {
			b.SetBytes(int64(len(recs)))
			for b.Loop() {
				c := Content{Kind: Group, Versions: []entry.Version{7}, Payload: [][]byte{recs}}
				if _, err := c.Place(testID, 4096); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n), "ns/record")
		})
		frame := build(b, Header{Kind: Group, Number: 1}, bytes.Clone(recs), 4096)
		b.Run("verify/"+c.name, func(b *testing.B) {
			var h Header
			b.SetBytes(int64(len(recs)))
			for b.Loop() {
				h, _ = Decode(frame, testID, 4096)
				_, _ = h.Verify(frame[HeaderSize:], testID, 4096+HeaderSize, true)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n), "ns/record")
		})
	}
}
