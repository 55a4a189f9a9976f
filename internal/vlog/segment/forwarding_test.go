package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

// randomMoves are n moves whose starts lie in granules of their own.
func randomMoves(rnd *rand.Rand, n, stride int) []Move {
	moves := make([]Move, n)
	g := uint64(HeaderSize / granule)
	for i := range moves {
		g += 1 + rnd.Uint64N(uint64(stride))
		moves[i] = Move{From: g*granule + 8*rnd.Uint64N(8), To: 8 * uint64(rnd.Uint32())}
	}
	return moves
}

// A forwarding table answers for every offset of the source what a map would.
func TestForwarding(t *testing.T) { forms(t, testForwarding) }

func testForwarding(t *testing.T, testConfig func(testing.TB) Config) {
	seed := draw.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 2, 63, 64, 65, 511, 512, 513, 5000} {
		for _, stride := range []int{1, 3, 1000} {
			c := testConfig(t)
			moves := randomMoves(rnd, n, stride)
			stats := must(WriteForwarding(c, ForwardingHeader{Number: 7, Source: 3, Target: 6}, moves))(t)
			size := stats.Size
			if got := must(os.Stat(c.filePath(filename.Forwarding, 7)))(t).Size(); got != size {
				t.Errorf("file of %d bytes, told %d", got, size)
			}
			for _, noMap := range []bool{false, true} {
				m := must(OpenForwarding(c, 7, stats.KeyID, noMap))(t)
				if h := m.Header(); h.Number != 7 || h.Source != 3 || h.Target != 6 || h.Records != uint64(n) || m.Size() != size {
					t.Errorf("header %+v, %d bytes", h, m.Size())
				}
				checkLookups(t, m, moves, seed)
				// Where nothing can be mapped, all is in memory.
				inMemory := noMap || c.Ring != nil || m.file.Mapped() == nil
				if own := m.MemoryBytes(); (own >= int64(4*n)) != inMemory {
					t.Errorf("%d records: %d bytes of memory, want them there: %t", n, own, inMemory)
				}
				if err := errors.Join(m.Verify(c), m.Close()); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func checkLookups(t *testing.T, m *Forwarding, moves []Move, seed uint64) {
	t.Helper()
	want := map[uint64]uint64{}
	for _, mv := range moves {
		want[mv.From/granule] = mv.To
	}
	for g := range moves[len(moves)-1].From/granule + 1000 {
		to, ok, err := m.Lookup(g * granule)
		if w, there := want[g]; ok != there || to != w || err != nil {
			t.Fatalf("seed %d, %d moves: granule %d leads to %d, %v; want %d, %v", seed, len(moves), g, to, ok, w, there)
		}
	}
	if _, ok, _ := m.Lookup(1<<64 - 1); ok {
		t.Error("an offset beyond the file was moved")
	}
}

func TestForwardingRefusesDisorder(t *testing.T) {
	for _, moves := range [][]Move{
		{{From: 4160, To: 8}, {From: 4160 + 8, To: 16}},
		{{From: 8192, To: 8}, {From: 4160, To: 16}},
		{{From: 4160, To: 4}},
		{{From: 4160, To: 8 << 32}},
	} {
		c := testConfig(t)
		if _, err := WriteForwarding(c, ForwardingHeader{Number: 7}, moves); !errors.Is(err, errs.ErrInvalid) {
			t.Errorf("%v: %v", moves, err)
		}
		if names := must(c.FS.List(c.Dir))(t); len(names) != 0 {
			t.Errorf("%v left %v", moves, names)
		}
	}
}

// Whatever byte of a forwarding table is damaged, or however it is cut, it is refused.
func TestDamagedForwardingIsRefused(t *testing.T) { forms(t, testDamagedForwardingIsRefused) }

func testDamagedForwardingIsRefused(t *testing.T, testConfig func(testing.TB) Config) {
	c := testConfig(t)
	stats := must(WriteForwarding(c, ForwardingHeader{Number: 7, Source: 3, Target: 6}, randomMoves(rand.New(rand.NewPCG(1, 1)), 300, 9)))(t)
	clean := must(os.ReadFile(c.filePath(filename.Forwarding, 7)))(t)
	for at := range clean {
		b := bytes.Clone(clean)
		b[at] ^= 4
		c.FS = image{data: b}
		if _, err := OpenForwarding(c, 7, stats.KeyID, true); !errors.Is(err, errs.ErrCorrupt) {
			t.Fatalf("byte %d changed: %v", at, err)
		}
	}
	for n := range len(clean) {
		c.FS = image{data: clean[:n]}
		if _, err := OpenForwarding(c, 7, stats.KeyID, true); !errors.Is(err, errs.ErrCorrupt) {
			t.Fatalf("cut to %d: %v", n, err)
		}
	}
	c.FS = image{data: clean}
	if _, err := OpenForwarding(c, 8, stats.KeyID, true); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("under another number: %v", err)
	}
	c.UUID[0]++
	if _, err := OpenForwarding(c, 7, stats.KeyID, true); !errors.Is(err, errs.ErrForeign) {
		t.Errorf("in another store: %v", err)
	}
}

func TestForwardingGolden(t *testing.T) {
	testForwardingGolden(t, testConfig(t), "forwarding.golden")
	testForwardingGolden(t, goldenConfig(t), "forwarding_encrypted.golden")
}

func testForwardingGolden(t *testing.T, c Config, golden string) {
	must(WriteForwarding(c, ForwardingHeader{Number: 7, Source: 3, Target: 6},
		[]Move{{From: 4144, To: 5000}, {From: 4264, To: 4144}, {From: 40000, To: 8888}}))(t)
	b := must(os.ReadFile(c.filePath(filename.Forwarding, 7)))(t)
	var text bytes.Buffer
	d := dump.New(&text, b, 0)
	DumpForwarding(d, b)
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

// Copied records are found at their new place with every field, and damage in
// the source is neither copied nor harms the copy.
func TestCopy(t *testing.T) {
	forms(t, func(t *testing.T, from func(testing.TB) Config) {
		forms(t, func(t *testing.T, to func(testing.TB) Config) {
			c := from(t)
			target := c
			target.Ring = to(t).Ring
			testCopy(t, c, target)
		})
	})
}

func testCopy(t *testing.T, c, target Config) {
	entries := []entry.Entry{
		{Key: key(0), Value: value(0, 70), Version: 9, Kind: entry.Set, Meta: 3, Expires: 12345},
		{Key: key(1), Value: value(1, 200_000), Version: 8, Kind: entry.SetLatest},
		{Key: bytes.Repeat([]byte("k"), 70_000), Value: value(2, 100), Version: 7, Kind: entry.Set, Expires: 1},
		{Key: key(3), Value: value(3, largeRecord+entry.PieceSize+1), Version: 10, Kind: entry.Set, Meta: 4, Expires: 2},
		{Key: bytes.Repeat([]byte("l"), 70_000), Value: value(4, largeRecord+pieceBytes), Version: 11, Kind: entry.Set},
	}
	w := must(NewValueWriter(c, 5))(t)
	var handles []entry.Handle
	for i := range entries {
		add := w.Add
		if len(entries[i].Value) > largeRecord {
			add = w.AddLarge
		}
		handles = append(handles, must(add(&entries[i]))(t))
	}
	must(w.Finish())(t)
	clean := must(os.ReadFile(c.filePath(filename.Value, 5)))(t)
	for _, noMap := range []bool{false, true} {
		r := must(openAny(c, filename.Value, 5, OpenOptions{NoMap: noMap}))(t)
		to := must(NewValueWriter(target, 6))(t)
		var moved []entry.Handle
		for i := range entries {
			size := entry.RecordSize(&entries[i], true)
			if i%2 == 0 {
				moved = append(moved, must(to.CopyRecord(r, int64(handles[i].Offset), size))(t))
			} else {
				moved = append(moved, must(to.MoveRecord(r, handles[i], entries[i].Key, entries[i].Version))(t))
			}
			if _, err := to.MoveRecord(r, handles[i], entries[i].Key, entries[i].Version+1); !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("record %d of another version: %v", i, err)
			}
			bad := bytes.Clone(clean)
			bad[handles[i].Offset+uint64(size)/2] ^= 1
			damaged := must(openAny(Config{FS: image{data: bad}, UUID: c.UUID, Ring: c.Ring}, filename.Value, 5, OpenOptions{NoMap: true}))(t)
			if _, err := to.CopyRecord(damaged, int64(handles[i].Offset), size); !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("damaged record %d: %v", i, err)
			}
		}
		stats := must(to.Finish())(t)
		if stats.Records != uint64(len(entries)) || stats.Min != 7 || stats.Max != 11 {
			t.Errorf("stats %+v", stats)
		}
		n := must(openAny(target, filename.Value, 6, OpenOptions{NoMap: noMap}))(t)
		for i, e := range entries {
			if got, err := plain(n.Stored(moved[i], e.Key, e.Version)); err != nil || !bytes.Equal(got, e.Value) || moved[i].Length != uint64(len(e.Value)) {
				t.Errorf("record %d: %d bytes, %v", i, len(got), err)
			}
		}
		i := 0
		err := n.Scan(true, func(off int64, rec *entry.Record) error {
			checkAttempt(t, target, off, i == len(entries)-1) // behind a copy that failed
			if e := entries[i]; rec.Kind != e.Kind || rec.Meta != e.Meta || rec.Expires != e.Expires {
				t.Errorf("record %d: %+v", i, rec)
			}
			i++
			return nil
		})
		if err := errors.Join(err, n.Close(), r.Close(), os.Remove(c.filePath(filename.Value, 6))); err != nil {
			t.Error(err)
		}
	}
}

// TestLargeValuesOfAllLengths: values that are written piece by piece, of all lengths around the
// borders of pieces, buffers and blocks, under keys of lengths that lead to each padding.
func TestLargeValuesOfAllLengths(t *testing.T) { forms(t, testLargeValuesOfAllLengths) }

func testLargeValuesOfAllLengths(t *testing.T, testConfig func(testing.TB) Config) {
	c := testConfig(t)
	for _, border := range []int{entry.PieceSize, pieceBytes, 2 * pieceBytes} {
		var entries []entry.Entry
		for n := border - 9; n <= border+9; n++ {
			for k := 1; k <= 8; k++ {
				e := entry.Entry{Key: bytes.Repeat([]byte{'k'}, k), Value: value(n, n), Version: 9, Kind: entry.Set}
				entries = append(entries, e)
			}
		}
		w := must(NewValueWriter(c, 5))(t)
		handles := make([]entry.Handle, len(entries))
		for i := range entries {
			handles[i] = must(w.AddLarge(&entries[i]))(t)
		}
		must(w.Finish())(t)
		r := must(openAny(c, filename.Value, 5, OpenOptions{}))(t)
		copied := must(NewValueWriter(c, 6))(t)
		for i := range entries {
			e := &entries[i]
			handles[i] = must(copied.CopyRecord(r, int64(handles[i].Offset), entry.RecordSize(e, true)))(t)
		}
		must(copied.Finish())(t)
		closed(t, r)
		r = must(openAny(c, filename.Value, 6, OpenOptions{}))(t)
		for i := range entries {
			e := &entries[i]
			got, err := plain(r.Stored(handles[i], e.Key, e.Version))
			if err != nil || !bytes.Equal(got, e.Value) {
				t.Fatalf("key of %d bytes, value of %d bytes: %d bytes, %v", len(e.Key), len(e.Value), len(got), err)
			}
		}
		closed(t, r)
		for _, n := range []entry.FileNum{5, 6} {
			if err := os.Remove(c.filePath(filename.Value, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// checkAttempt checks that the record at off of segment 6 has another attempt than 0 if its
// place was written before, so that no nonce comes back.
func checkAttempt(t *testing.T, c Config, off int64, again bool) {
	t.Helper()
	if c.Ring == nil {
		return
	}
	b := must(os.ReadFile(c.filePath(filename.Value, 6)))(t)
	if clear, ok := entry.ParseClear(b[off:]); !ok || again && clear.Attempt == 0 {
		t.Errorf("record at %d: %+v, %v", off, clear, ok)
	}
}

func FuzzForwarding(f *testing.F) {
	uuid := [16]byte{1}
	h := ForwardingHeader{Number: 7, Source: 3, Target: 6, Records: 2, blocks: 1}
	page, body, err := h.encodeForwarding(&Config{UUID: uuid}, []Move{{From: 4096, To: 64}, {From: 4200, To: 8}})
	if err != nil {
		f.Fatal(err)
	}
	corpus.Add(f, page[:80], body, uint64(4096))
	f.Fuzz(func(t *testing.T, head, body []byte, from uint64) {
		b := make([]byte, HeaderSize)
		copy(b[:sumOffset], head)
		// The mutator cannot guess checksums.
		id := Config{UUID: [16]byte(b[64:80])}.forwardingID(b)
		binary.LittleEndian.PutUint32(b[8:], id.Sum(HeaderSize, body))
		binary.LittleEndian.PutUint32(b[sumOffset:], id.Sum(0, b[:sumOffset]))
		m, err := OpenForwarding(Config{FS: image{data: append(b, body...)}, UUID: uuid}, 7, crypt.FileKeyID{}, true)
		if err != nil {
			if !errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrForeign) && !errors.Is(err, errs.ErrFormat) {
				t.Errorf("untyped error %v", err)
			}
			return
		}
		n := 0
		for g := range m.header.blocks * forwardingBlock {
			if _, ok, _ := m.Lookup(g * granule); ok {
				n++
			}
		}
		if uint64(n) != m.header.Records {
			t.Errorf("%d records are found, the header says %d", n, m.header.Records)
		}
		_, _, _ = m.Lookup(from)
	})
}

func BenchmarkForwarding(b *testing.B) {
	c := testConfig(b)
	rnd := rand.New(rand.NewPCG(1, 1))
	moves := randomMoves(rnd, 250_000, 30)
	must(WriteForwarding(c, ForwardingHeader{Number: 7, Source: 3, Target: 6}, moves))(b)
	m := must(OpenForwarding(c, 7, crypt.FileKeyID{}, false))(b)
	defer m.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, _ := m.Lookup(moves[rnd.IntN(len(moves))].From); !ok {
			b.Fatal("not found")
		}
	}
}
