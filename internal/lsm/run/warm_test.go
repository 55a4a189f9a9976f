package run

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/vfs"
)

// countedReads is a file system that counts calls of ReadAt.
type countedReads struct {
	vfs.FS
	reads int
}

type countedFile struct {
	vfs.File
	fs *countedReads
}

func (c *countedReads) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	return &countedFile{f, c}, err
}

// Map hides that the system knows what is in memory: then that would not be read.
func (f *countedFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	return struct{ vfs.Mapping }{m}, err
}

func (f *countedFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.reads++
	return f.File.ReadAt(p, off)
}

// After Warm all of a small run is in memory and verified.
func TestWarmLeavesNothingToRead(t *testing.T) { forms(t, testWarmLeavesNothingToRead) }

func testWarmLeavesNothingToRead(t *testing.T) {
	for _, noMap := range []bool{false, true} {
		dir := t.TempDir()
		all := shapes[1].generate(9)
		all = all[:min(len(all), 1000)]
		m := writeRun(t, writerConfig(dir), all)
		if m.FileBytes() > warmBytes {
			t.Fatalf("the run has %d bytes", m.FileBytes())
		}
		fs := &countedReads{FS: vfs.OS()}
		cfg := openConfig(dir, noMap)
		cfg.FS = fs
		r := openRun(t, cfg, m)
		opened := fs.reads
		if err := r.Warm(); err != nil {
			t.Fatal(err)
		}
		if fs.reads == opened {
			t.Error("Warm read nothing")
		}
		fs.reads = 0
		n := 0
		it := r.Iterator()
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		if n != len(all) || it.Err() != nil {
			t.Errorf("%d entries of %d: %v", n, len(all), it.Err())
		}
		var e entry.Entry
		for i := range all {
			if ok, err := r.Get(all[i].Key, checksum.HashKey(testSeed, all[i].Key), entry.MaxVersion, &e); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if fs.reads != 0 {
			t.Errorf("without mapping %v: %d reads after Warm", noMap, fs.reads)
		}
	}
}

func TestWarmLeavesLargeRuns(t *testing.T) { forms(t, testWarmLeavesLargeRuns) }

func testWarmLeavesLargeRuns(t *testing.T) {
	dir := t.TempDir()
	m := writeRun(t, writerConfig(dir), shapes[1].generate(9))
	if m.FileBytes() <= warmBytes {
		t.Fatalf("the run has %d bytes", m.FileBytes())
	}
	fs := &countedReads{FS: vfs.OS()}
	cfg := openConfig(dir, false)
	cfg.FS = fs
	r := openRun(t, cfg, m)
	opened := fs.reads
	if err := r.Warm(); err != nil || fs.reads != opened {
		t.Errorf("%d reads, %v", fs.reads-opened, err)
	}
}

// A run that can't be read back is found out before it counts.
func TestWarmFindsDamage(t *testing.T) { forms(t, testWarmFindsDamage) }

func testWarmFindsDamage(t *testing.T) {
	for _, noMap := range []bool{false, true} {
		dir := t.TempDir()
		m := writeRun(t, writerConfig(dir), goldenEntries())
		path := filepath.Join(dir, filename.Of(filename.Run, m.Files[0].Num))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := 100 // in the first entries
		if ring != nil {
			at += headerSize
		}
		b[at] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var bad *errs.Corruption
		if err := openRun(t, openConfig(dir, noMap), m).Warm(); !errors.As(err, &bad) {
			t.Errorf("without mapping %v: got %v, want a corruption", noMap, err)
		}
	}
}
