package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// source is a store that is always the same: one run, and one value segment that has one
// value of each of these lengths.
func source(t testing.TB, version entry.Version, lengths ...int) checkpoint.Fileset {
	t.Helper()
	s := checkpoint.Fileset{Store: filename.Store{FS: vfs.NewMem(), Dir: "/store", ValueDir: "/store", UUID: [16]byte{1, 2, 3}, Seed: 7}, Created: 1_700_000_000_000, Milli: 1_700_000_000_001}
	if err := s.FS.MkdirAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	open := view.NewOpener(view.OpenerConfig{Store: s.Store, RunFileBytes: 1 << 20})
	values, keys := must(open.NewValueWriter())(t), open.NewRunWriter(true, nil, nil)
	var total uint64
	for i, n := range lengths {
		total += uint64(n)
		e := &entry.Entry{Key: fmt.Appendf(nil, "\x00key %d", i), Value: bytes.Repeat([]byte{byte(n)}, n), Version: entry.Version(i + 1), Kind: entry.Set}
		e.Handle = must(values.Add(e))(t)
		e.Separated, e.Value = true, nil
		if err := keys.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	stats, run := must(values.Finish())(t), must(keys.Finish())(t)
	segments := []layout.Segment{{Num: 1, Kind: 'V', FileBytes: uint64(stats.Size), Records: stats.Records, Bytes: total}}
	edit := &layout.Edit{AddSegments: segments, AddRuns: layout.NewRuns(run, layout.Base), LastVersion: version, NextFile: 10, CleanClose: true}
	edit.AddRuns[0].ID, edit.AddRuns[0].Order = layout.RunID(run.Files[0].Num), 1
	s.Layout = must(layout.New().Apply(edit))(t)
	return s
}

func stream(t testing.TB, s checkpoint.Fileset, o Options) ([]byte, *Info) {
	t.Helper()
	var b bytes.Buffer
	info := must(Write(t.Context(), s, &b, o))(t)
	if info.Bytes != int64(b.Len()) {
		t.Fatalf("%d bytes, not %d", b.Len(), info.Bytes)
	}
	return b.Bytes(), info
}

// TestGolden: a stream has the bytes that it always had, and one of another release of the
// compressor is read.
func TestGolden(t *testing.T) {
	s := source(t, 3, 100, 5000)
	full, info := stream(t, s, Options{})
	increment, _ := stream(t, s, Options{Since: info})
	packed, _ := stream(t, s, Options{Compress: true})
	for name, got := range map[string][]byte{
		"full": full, "increment": increment, "compressed": packed, "description": info.Encode(),
		"encrypted": goldenSecret(t),
	} {
		path := filepath.Join("testdata", name+".golden")
		if *rewrite {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want := must(os.ReadFile(path))(t)
		switch name {
		case "compressed":
			_ = must(Verify(t.Context(), bytes.NewReader(want), nil))(t)
		case "description":
			_ = must(DecodeInfo(want))(t)
			fallthrough
		default:
			if !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, want %d, or others", name, len(got), len(want))
			}
		}
	}
}

// goldenSecret is the encrypted stream of TestGolden. It is made once in a process: a second one
// would use its nonces again, which the ledger of package crypt doesn't allow.
func goldenSecret(t testing.TB) []byte {
	madeSecret.Do(func() {
		madeSecret.p, _ = stream(t, encryptedBy(t, source(t, 3, 100, 5000), new(counting)), Options{})
	})
	return madeSecret.p
}

var madeSecret struct {
	sync.Once
	p []byte
}

// TestInfo: what describes a backup survives storage, and no flipped bit does.
func TestInfo(t *testing.T) {
	_, info := stream(t, source(t, 3, 1000), Options{})
	p := info.Encode()
	again := must(DecodeInfo(p))(t)
	if !reflect.DeepEqual(again, info) {
		t.Errorf("%v, want %v", again, info)
	}
	for i := range p {
		p[i] ^= 1
		if _, err := DecodeInfo(p); !errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrForeign) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		p[i] ^= 1
		if _, err := DecodeInfo(p[:i]); err == nil {
			t.Errorf("cut at %d", i)
		}
	}
}

// TestForgedLengths gives records any length, with right checksums: nothing panics, and
// nothing is allocated for what isn't there.
func TestForgedLengths(t *testing.T) {
	whole, _ := stream(t, source(t, 3, 100, 300_000), Options{Compress: true})
	h := must(decodeHeader(whole[:headerSize]))(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for off := int64(headerSize); off < int64(len(whole)); {
		head := whole[off : off+recordSize]
		for _, at := range []int{8, 9, 12, 16} {
			for _, n := range []uint32{0, 1, 5, 255, pieceBytes, pieceBytes + 1, 1 << 31, 1<<32 - 1} {
				forged := bytes.Clone(whole)
				p := forged[off : off+recordSize]
				if at < 12 {
					p[at] = byte(n)
				} else {
					binary.LittleEndian.PutUint32(p[at:], n)
				}
				same := bytes.Equal(p, head)
				binary.LittleEndian.PutUint32(p, h.identity().Sum(off, p[4:]))
				if _, err := Verify(t.Context(), bytes.NewReader(forged), nil); (err == nil) != same || err != nil && !errors.Is(err, errs.ErrCorrupt) {
					t.Errorf("record at %d, %d at %d: %v", off, n, at, err)
				}
			}
		}
		off += recordSize + int64(binary.LittleEndian.Uint32(head[12:]))
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 32; each > 200<<20 {
		t.Errorf("%d bytes for 32 forged streams", each)
	}
}

// FuzzRead feeds Verify and Restore. What they accept, they accept alike, and the store
// that is made has a manifest.
func FuzzRead(f *testing.F) {
	s := source(f, 3, 100, 3000)
	full, info := stream(f, s, Options{})
	packed, _ := stream(f, s, Options{Compress: true})
	increment, _ := stream(f, s, Options{Since: info})
	corpus.Add(f, full, false)
	corpus.Add(f, packed, false)
	corpus.Add(f, append(bytes.Clone(full), increment...), false)
	corpus.Add(f, increment, true)
	secret, _ := stream(f, encrypted(f, s), Options{})
	corpus.Add(f, secret, false)
	corpus.Add(f, secret, true)
	f.Fuzz(func(t *testing.T, p []byte, mend bool) {
		if mend {
			p = mended(p)
		}
		var keys keyring.Provider
		if len(p) > headerSize && !allZero(p[headerKeyID:headerSize-sumSize]) {
			keys = weak{}
		}
		_, err := Verify(context.Background(), bytes.NewReader(p), keys)
		for _, known := range []error{nil, errs.ErrCorrupt, errs.ErrFormat, errs.ErrForeign, errs.ErrInvalid, errs.ErrKey} {
			if errors.Is(err, known) {
				mem := vfs.NewMem()
				_, restoring := Restore(context.Background(), bytes.NewReader(p), Target{FS: mem, Dir: "/new", ValueDir: "/new", Keys: keys})
				if err != nil && restoring == nil {
					t.Errorf("restored, but %v", err)
				}
				if names, _ := mem.List("/new"); restoring != nil && len(names) > 0 {
					t.Errorf("%v left %v", restoring, names)
				}
				return
			}
		}
		t.Errorf("error of no kind: %v", err)
	})
}

// mended gives header and records right checksums, as far as their lengths lead.
func mended(p []byte) []byte {
	p = bytes.Clone(p)
	if len(p) < headerSize {
		return p
	}
	h := &header{UUID: [16]byte(p[16:32])}
	id := h.identity()
	first := headerSize
	binary.LittleEndian.PutUint32(p[first-sumSize:], id.Sum(0, p[:first-sumSize]))
	for off := first; off+recordSize <= len(p); {
		r := p[off : off+recordSize]
		end := off + recordSize + int(binary.LittleEndian.Uint32(r[12:]))
		if end > len(p) {
			return p
		}
		binary.LittleEndian.PutUint32(r[4:], id.Sum(int64(off)+recordSize, p[off+recordSize:end]))
		binary.LittleEndian.PutUint32(r, id.Sum(int64(off), r[4:]))
		off = end
	}
	return p
}

// FuzzInfo: nothing panics, and what is read is written alike.
func FuzzInfo(f *testing.F) {
	_, info := stream(f, source(f, 3, 100), Options{})
	corpus.Add(f, info.Encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		if i, err := DecodeInfo(p); err == nil {
			if again := must(DecodeInfo(i.Encode()))(t); fmt.Sprint(again) != fmt.Sprint(i) {
				t.Errorf("%v, want %v", again, i)
			}
		}
	})
}
