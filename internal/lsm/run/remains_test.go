package run

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

// A search for trailers reads a file about once, even if each page seems to begin a long
// trailer: entries of 32 bytes begin on pages, and a version of 2^21 in their header lies where
// a trailer has its length.
func TestSearchForTrailersReadsTheFileOnce(t *testing.T) {
	const count = 150_000
	mem := vfs.NewMem()
	if err := mem.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	entries := make([]entry.Entry, count)
	for i := range entries {
		entries[i] = entry.Entry{Key: fmt.Appendf(nil, "key%08d", i), Value: []byte("sixteen bytes 16"), Version: 1 << 21, Kind: entry.Set}
	}
	cfg := writerConfig("db")
	cfg.FS, cfg.Ring, cfg.NoFilter = mem, nil, true
	m := writeRun(t, cfg, entries)
	// Without its last byte the file has no footer, and nothing leads to its chunks.
	path, size := filepath.Join("db", filename.Of(filename.Run, 7)), int64(m.Files[0].Size)-1
	f, err := mem.OpenReadWrite(path)
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}

	var read atomic.Int64
	counted := faultfs.New(mem, faultfs.Options{Before: func(o faultfs.Op) {
		if o.Kind == faultfs.Read {
			read.Add(o.Len)
		}
	}})
	open := OpenConfig{FS: counted, Files: pageio.NewFiles(counted, 0), Dir: "db", UUID: testUUID, Seed: testSeed}
	r, err := OpenRemains(open, 7, 0, crypt.FileKeyID{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, _ := r.Entries(); n != count || r.Whole() {
		t.Errorf("found %d entries, directory %v", n, r.Whole())
	}
	// The search, then each chunk for its first key.
	if most := 3 * size; read.Load() > most {
		t.Errorf("read %d bytes of a file of %d", read.Load(), size)
	}
}
