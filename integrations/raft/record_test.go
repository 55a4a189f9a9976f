package raftstore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/hashicorp/raft"
)

var update = flag.Bool("update", false, "write the golden file anew")

// goldenRecord is an entry of the golden file.
type goldenRecord struct {
	name   string
	log    raft.Log
	commit uint64
}

// goldenRecords has a record for each way in which a field can be written.
func goldenRecords() []goldenRecord {
	at := time.Date(2026, 3, 1, 12, 30, 15, 123456789, time.UTC)
	return []goldenRecord{
		{"nothing set", raft.Log{Index: 1}, 0},
		{"a command", raft.Log{Index: 300, Term: 7, Data: []byte("set a 1")}, 298},
		{"committed itself", raft.Log{Index: 5, Term: 1, Data: []byte("x")}, 5},
		{"commit index above its own", raft.Log{Index: 5, Term: 1, Data: []byte("x")}, 9},
		{"data empty, not nil", raft.Log{Index: 2, Term: 1, Type: raft.LogNoop, Data: []byte{}}, 0},
		{"extensions empty, not nil", raft.Log{Index: 2, Term: 1, Extensions: []byte{}}, 1},
		{"all fields", raft.Log{
			Index: 1 << 40, Term: 1 << 20, Type: raft.LogConfiguration,
			Data: []byte("data"), Extensions: []byte("ext"), AppendedAt: at,
		}, 1<<40 - 200},
		{"before 1970", raft.Log{Index: 9, Term: 3, AppendedAt: time.Unix(-2, 1).UTC()}, 1},
		{"the greatest numbers", raft.Log{
			Index: math.MaxUint64, Term: math.MaxUint64, Type: 255, Data: []byte{0xff},
		}, 1},
	}
}

// TestGolden holds records to the bytes that a release has written: a change of format needs a new
// number.
func TestGolden(t *testing.T) {
	var got strings.Builder
	got.WriteString("# Records of a log, as README.md describes them: name, index and commit index, bytes.\n")
	for _, g := range goldenRecords() {
		fmt.Fprintf(&got, "%s; index %d, commit %d: %x\n",
			g.name, g.log.Index, g.commit, appendRecord(nil, &g.log, g.commit))
	}
	fmt.Fprintf(&got, "header: %x\nheader of a log with gaps: %x\n", encodeHeader(false), encodeHeader(true))
	const name = "testdata/records.txt"
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Fatalf("records are\n%s\nand were\n%s", &got, want)
	}
	// What the golden file has is also read.
	lines := strings.Split(strings.TrimSpace(string(want)), "\n")[1:]
	for i, g := range goldenRecords() {
		at := strings.LastIndex(lines[i], ": ")
		b, err := hex.DecodeString(lines[i][at+2:])
		if err != nil {
			t.Fatal(err)
		}
		var l raft.Log
		commit, refused := decodeRecord(b, g.log.Index, &l)
		if refused != nil {
			t.Fatalf("%s: %v", g.name, refused)
		}
		if !reflect.DeepEqual(l, g.log) || commit != min(g.commit, g.log.Index) {
			t.Errorf("%s: %+v with commit index %d", g.name, l, commit)
		}
	}
}

// TestAllFields fails when raft.Log gets a field that records don't have.
func TestAllFields(t *testing.T) {
	want := []string{"Index", "Term", "Type", "Data", "Extensions", "AppendedAt"}
	var got []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[raft.Log]()) {
		got = append(got, f.Name)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("raft.Log has the fields %v, records have %v", got, want)
	}
}

// TestRecordsOfAnything writes and reads entries of random fields.
func TestRecordsOfAnything(t *testing.T) {
	rng := draw.Rand(t)
	number := func() uint64 { return rng.Uint64() >> rng.IntN(64) }
	some := func() []byte {
		if rng.IntN(4) == 0 {
			return nil
		}
		b := make([]byte, rng.IntN(300))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	for range 20_000 {
		l := raft.Log{
			Index: max(number(), 1), Term: number(), Type: raft.LogType(rng.IntN(256)),
			Data: some(), Extensions: some(),
		}
		if rng.IntN(3) > 0 {
			l.AppendedAt = time.Unix(int64(number()>>1)-int64(number()>>2), rng.Int64N(1e9)).UTC()
		}
		commit := number()
		b := appendRecord(nil, &l, commit)
		if len(b) > recordRoom+len(l.Data)+len(l.Extensions) {
			t.Fatalf("a record of %d bytes: %+v", len(b), l)
		}
		var back raft.Log
		gotCommit, refused := decodeRecord(b, l.Index, &back)
		if refused != nil {
			t.Fatalf("%+v: %v", l, refused)
		}
		if !reflect.DeepEqual(l, back) || gotCommit != min(commit, l.Index) {
			t.Fatalf("wrote %+v with commit index %d, read %+v with %d", l, commit, back, gotCommit)
		}
	}
}

// TestTimesAreUTC: a record has no time zone, nor the clock of the process.
func TestTimesAreUTC(t *testing.T) {
	here := time.Now().In(time.FixedZone("somewhere", 3600))
	var l raft.Log
	b := appendRecord(nil, &raft.Log{Index: 1, AppendedAt: here}, 0)
	if _, refused := decodeRecord(b, 1, &l); refused != nil {
		t.Fatal(refused)
	}
	if !l.AppendedAt.Equal(here) || l.AppendedAt.Location() != time.UTC {
		t.Fatalf("%v, was %v", l.AppendedAt, here)
	}
}

// TestPartsKeepApart: who appends to Extensions or Data doesn't write over the other.
func TestPartsKeepApart(t *testing.T) {
	var l raft.Log
	b := appendRecord(nil, &raft.Log{Index: 1, Data: []byte("data"), Extensions: []byte("ext")}, 0)
	if _, refused := decodeRecord(b, 1, &l); refused != nil {
		t.Fatal(refused)
	}
	_ = append(l.Extensions, "overwritten"...)
	if string(l.Data) != "data" {
		t.Fatalf("data is now %q", l.Data)
	}
}

// TestWrongRecords: each is a typed error that names what is wrong, and leaves the entry alone.
func TestWrongRecords(t *testing.T) {
	for _, c := range []struct {
		name, record string
		index        uint64
		is           error
	}{
		{"empty", "", 1, brock.ErrCorrupt},
		{"only a format", "01", 1, brock.ErrCorrupt},
		{"no term", "010000", 1, brock.ErrCorrupt},
		{"format 0", "0000000100", 1, brock.ErrCorrupt},
		{"a newer format", "0200000100", 1, brock.ErrFormat},
		{"an unknown flag", "0100080100", 1, brock.ErrCorrupt},
		{"bytes behind the end", "010000010000", 1, brock.ErrCorrupt},
		{"a long number", "010000810000", 1, brock.ErrCorrupt},
		{"a number too large", "010000ffffffffffffffffff0200", 1, brock.ErrCorrupt},
		{"commit index 0", "0100000103", 2, brock.ErrCorrupt},
		{"half a time", "0100040100000000", 1, brock.ErrCorrupt},
		{"a second too long", "01000401000000000000000000" + "00ca9a3b", 1, brock.ErrCorrupt},
		{"a time that is not set", "0100040100" + "0009 6e88 f1ff ffff" + "00000000", 1, brock.ErrCorrupt},
		{"extensions cut off", "010002010005616263", 1, brock.ErrCorrupt},
		{"extensions without end", "0100020100ffffffffffffffffff01", 1, brock.ErrCorrupt},
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(c.record, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		l := raft.Log{Index: 77, Data: []byte("as it was")}
		_, refused := decodeRecord(b, c.index, &l)
		if refused == nil {
			t.Errorf("%s: read as %+v", c.name, l)
			continue
		}
		if !errors.Is(refused, c.is) || refused.Index != c.index || refused.Reason == "" {
			t.Errorf("%s: %v", c.name, refused)
		}
		if l.Index != 77 || string(l.Data) != "as it was" {
			t.Errorf("%s: the entry is %+v", c.name, l)
		}
	}
	for record, is := range map[string]error{
		"": brock.ErrCorrupt, "00": brock.ErrCorrupt, "01": brock.ErrCorrupt, "0102": brock.ErrCorrupt,
		"010000": brock.ErrCorrupt, "0200": brock.ErrFormat, "ff": brock.ErrFormat,
	} {
		b, _ := hex.DecodeString(record)
		if _, refused := decodeHeader(b); refused == nil || !errors.Is(refused, is) {
			t.Errorf("header %s: %v", record, refused)
		}
	}
}

// TestEveryCut: a record that is cut off is refused, or it ends in data and is an entry with less.
func TestEveryCut(t *testing.T) {
	for _, g := range goldenRecords() {
		b := appendRecord(nil, &g.log, g.commit)
		for n := range b {
			checkRecord(t, b[:n], g.log.Index)
		}
	}
}

// checkRecord decodes any bytes: if that gives an entry, its record is these bytes.
func checkRecord(t *testing.T, b []byte, index uint64) {
	t.Helper()
	before := bytes.Clone(b)
	var l raft.Log
	commit, refused := decodeRecord(b, index, &l)
	if refused != nil {
		if !errors.Is(refused, brock.ErrCorrupt) && !errors.Is(refused, brock.ErrFormat) {
			t.Fatalf("%x: %v", b, refused)
		}
		return
	}
	if l.Index != index || commit > index {
		t.Fatalf("%x of entry %d: %+v with commit index %d", b, index, l, commit)
	}
	if again := appendRecord(nil, &l, commit); !bytes.Equal(again, before) {
		t.Fatalf("%x is read as %+v, which is written as %x", before, l, again)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for _, g := range goldenRecords() {
		f.Add(appendRecord(nil, &g.log, g.commit), g.log.Index)
	}
	f.Fuzz(func(t *testing.T, b []byte, index uint64) {
		if index > 0 {
			checkRecord(t, b, index)
		}
	})
}

func FuzzDecodeHeader(f *testing.F) {
	f.Add(encodeHeader(false))
	f.Add(encodeHeader(true))
	f.Fuzz(func(t *testing.T, b []byte) {
		gaps, refused := decodeHeader(b)
		if refused == nil && !bytes.Equal(b, encodeHeader(gaps)) {
			t.Fatalf("%x is read as %v", b, gaps)
		}
	})
}
