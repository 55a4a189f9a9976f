package run

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
)

func filterKey(i int) []byte { return fmt.Appendf(nil, "\x00filter-%09d", i) }

// A filter for some chunks each holds back what one for all would.
func TestFiltersOfPartsHoldBack(t *testing.T) { forms(t, testFiltersOfPartsHoldBack) }

func testFiltersOfPartsHoldBack(t *testing.T) {
	const keys = 120_000
	all := make([]entry.Entry, 0, keys)
	for i := range keys {
		all = append(all, entry.Entry{Key: filterKey(2 * i), Version: 1, Kind: entry.Set, Value: make([]byte, 16)})
	}
	for _, noMap := range []bool{false, true} {
		dir := t.TempDir()
		cfg := writerConfig(dir)
		cfg.FilterKeys, cfg.FileBytes = 10_000, 2<<20
		w := NewWriter(cfg)
		for i := range all {
			if err := w.Add(&all[i]); err != nil {
				t.Fatal(err)
			}
			if len(w.hashes) > 2*cfg.FilterKeys+1<<16 {
				t.Fatalf("hashes of %d keys are kept", len(w.hashes))
			}
		}
		m, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		r := openRun(t, openConfig(dir, noMap), m)
		parts := 0
		for _, f := range r.files {
			parts += len(f.dir.filters)
		}
		if parts < 4 || len(r.files) < 3 || len(r.filters) != len(r.chunks) {
			t.Fatalf("%d filters in %d files, for %d chunks of %d", parts, len(r.files), len(r.filters), len(r.chunks))
		}
		wrong := 0
		for i := range keys {
			if k := filterKey(2 * i); !r.MayContain(k, checksum.HashKey(testSeed, k)) {
				t.Fatalf("filter lacks %q", k)
			}
			if k := filterKey(2*i + 1); r.MayContain(k, checksum.HashKey(testSeed, k)) {
				wrong++
			}
		}
		if wrong > keys/50 {
			t.Errorf("%d of %d answers for absent keys are false", wrong, keys)
		}
		for _, f := range m.Files[len(m.Files)-1:] {
			file, err := os.ReadFile(filepath.Join(dir, filename.Of(filename.Run, f.Num)))
			if err == nil {
				err = Dump(io.Discard, file, nil)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// Every flipped byte of the filters and of their place in the directory is found.
func TestDamagedFiltersAreFound(t *testing.T) { forms(t, testDamagedFiltersAreFound) }

func testDamagedFiltersAreFound(t *testing.T) {
	var all []entry.Entry
	for i := range 3 { // a chunk each
		all = append(all, entry.Entry{Key: filterKey(i), Version: 1, Kind: entry.Set, Value: bytes.Repeat([]byte{byte(i)}, 900<<10)})
	}
	dir := t.TempDir()
	cfg := writerConfig(dir)
	cfg.FilterKeys = 1
	m := writeRun(t, cfg, all)
	path := filepath.Join(dir, filename.Of(filename.Run, m.Files[0].Num))
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := openRun(t, openConfig(dir, false), m).files[0].dir
	if len(d.filters) != 3 {
		t.Fatalf("%d filters, want 3", len(d.filters))
	}
	var at []int64
	for _, p := range d.filters {
		for i := int64(0); i < int64(p.words)*8; i += 101 {
			at = append(at, int64(p.offset)+i)
		}
	}
	for i := int64(len(file)) - encryptedFooterSize - 100; i < int64(len(file)); i++ {
		at = append(at, i)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, off := range at {
		if _, err := f.WriteAt([]byte{file[off] ^ 1<<(off%8)}, off); err != nil {
			t.Fatal(err)
		}
		r, err := Open(openConfig(dir, off%2 == 0), m)
		switch {
		case err != nil:
			checkKind(t, err)
		case ring != nil:
			// An encrypted filter is read when it is asked, and then holds back no key.
			found := 0
			r.Verify(t.Context(), func(*errs.Corruption) { found++ }, nil)
			for i := range all {
				if !r.MayContain(all[i].Key, checksum.HashKey(testSeed, all[i].Key)) {
					t.Errorf("after a flip at %d a key is held back", off)
				}
			}
			if found == 0 {
				t.Errorf("a flip at %d is not found", off)
			}
			r.Close()
		default:
			t.Errorf("a flip at %d is not found", off)
			r.Close()
		}
		if _, err := f.WriteAt(file[off:off+1], off); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHostileFilterSections(t *testing.T) {
	section := func(kind, n uint32, parts ...filterRecord) []byte {
		b := binary.LittleEndian.AppendUint32(nil, kind)
		b = binary.LittleEndian.AppendUint32(b, n)
		for i := range parts {
			b = parts[i].appendRecord(b)
		}
		return b
	}
	good := filterRecord{chunks: 1, offset: 4096, words: 512}
	for _, tc := range []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"good", section(filterWords, 2, good, good), true},
		{"another kind", section(9, 1<<31), true},
		{"short", []byte{1, 0, 0}, true},
		{"more than there are", section(filterWords, 1<<31, good), false},
		{"no chunks", section(filterWords, 1, filterRecord{words: 1}), false},
		{"no words", section(filterWords, 1, filterRecord{chunks: 1}), false},
		{"beyond the end", section(filterWords, 1, filterRecord{chunks: 1, offset: 1 << 20, words: 1}), false},
		{"longer than a number", section(filterWords, 1, filterRecord{chunks: 1, words: 1 << 63}), false},
	} {
		if err := new(directory).decodeFilters(tc.b, 1<<20); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
