package metamorphic

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// forgedEdits are edits that no store writes, with the checksums that they need.
func forgedEdits() map[string]*layout.Edit {
	segments := func(n int) *layout.Edit {
		e := new(layout.Edit)
		for i := range n {
			num := entry.FileNum(1000 + i)
			e.AddSegments = append(e.AddSegments, layout.Segment{Num: num, Kind: filename.Value, FileBytes: 1 << 38, Records: 1 << 30, Bytes: 1 << 30})
			e.Dead = append(e.Dead, layout.Dead{Segment: num, Bytes: 1, Granules: []uint32{1<<32 - 1}})
		}
		return e
	}
	return map[string]*layout.Edit{
		"segments of 256 GiB with one dead record": segments(20_000),
		"100 segments of 256 GiB":                  segments(100),
		"an unknown field of 3 MB":                 {Unknown: []layout.TLV{{Tag: 999, Value: make([]byte, 3<<20)}}},
		"last version 2^64-1":                      {LastVersion: 1<<64 - 1},
		"last version 2^56-1":                      {LastVersion: 1<<56 - 1},
		"last version 2^56-3":                      {LastVersion: 1<<56 - 3},
		"next file 2^62":                           {NextFile: 1 << 62},
		"next file 2^32+5":                         {NextFile: 1<<32 + 5},
		"next keyspace 2^32":                       {NextKeyspace: 1 << 32},
		"flushed to 2^62":                          {FlushedTo: 1 << 62},
		"floor above the last version":             {Floor: 1 << 50},
		"floor at the end":                         {Floor: 1<<56 - 1},
		"a clock far ahead":                        {Clock: []layout.ClockSample{{Version: 1 << 50, UnixMilli: 1 << 62}}},
		"keyspace with negative options":           {SetKeyspaces: []layout.Keyspace{{ID: 1, Name: "x", Options: layout.KeyspaceOptions{Versions: -5, TTL: -1 << 62}}}},
		"a journal end at 2^62":                    {JournalEnds: []frame.End{{Name: frame.Name{File: 1 << 61, Number: 1 << 62}, Offset: 1 << 62}}},
		"runs without end":                         {AddRuns: []layout.Run{forgedRun(7)}},
	}
}

// forgedRun is a run whose file is not there, of more bytes than there can be.
func forgedRun(num entry.FileNum) (r layout.Run) {
	r.ID, r.Order = 1<<40, 1<<40
	r.Files = []layout.RunFile{{Num: num, Size: 1 << 63}}
	r.Entries, r.KeyBytes = 1<<63, 1<<63
	r.First, r.Last = []byte("a"), []byte("b")
	r.MinVersion, r.MaxVersion = 1, 1
	return r
}

// Whatever a manifest says, Open and all calls after it return within seconds, with an
// error or right data, and take little memory.
func TestForgedManifests(t *testing.T) {
	base := vfs.NewMem()
	o := brock.Options{Dir: "/s", FS: base, Tuning: small, MemoryLimit: 8 << 20}
	db, err := brock.Open(o)
	must(t, "open", err)
	for i := range 50 {
		must(t, "set", db.Set([]byte(key(i)), []byte(text("v", i, 700))))
	}
	must(t, "close", db.Close())
	for name, e := range forgedEdits() {
		for _, mode := range []brock.OpenMode{brock.ReadWrite, brock.ReadOnly} {
			t.Run(fmt.Sprint(name, "/", mode), func(t *testing.T) {
				fs := base.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				log, err := manifest.Open(manifest.Options{FS: fs, Dir: "/s"})
				must(t, "open the manifest", err)
				if _, err := log.Append(e); errors.Is(err, layout.ErrConflictingEdit) {
					must(t, "close the manifest", log.Close())
					return // Open refuses it in the same way
				} else if err != nil {
					t.Fatal(err)
				}
				must(t, "close the manifest", log.Close())
				o := o
				o.FS, o.Mode = fs, mode
				ends(t, func() { useForged(t, o) })
			})
		}
	}
}

// useForged reads and writes a store, and opens it again.
func useForged(t *testing.T, o brock.Options) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 2 {
		db, err := brock.Open(o)
		if err != nil {
			t.Logf("open: %v", err)
			break
		}
		for i := range 50 {
			v, err := db.Get([]byte(key(i)))
			switch {
			case err == nil && string(v) != text("v", i, 700) && string(v) != "x":
				t.Errorf("get %d: %.20q", i, v)
			case errors.Is(err, brock.ErrKeyNotFound):
				t.Errorf("get %d: %v", i, err)
			}
		}
		t.Logf("set: %v; compact: %v", db.Set([]byte(key(1)), []byte("x")), db.Compact(t.Context()))
		if ks, err := db.Keyspace("new"); err == nil {
			t.Logf("set in a keyspace: %v", ks.Set([]byte("k"), []byte("x")))
		}
		t.Logf("close: %v", db.Close())
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 400<<20 {
		t.Errorf("%d MB were allocated", n>>20)
	}
}

// A file whose length went wrong, as with a damaged inode, costs neither memory nor time:
// Open returns an error, or the store is right.
func TestFilesOfAnyLength(t *testing.T) {
	for _, size := range []int64{1 << 40, 1 << 43} {
		for _, part := range []string{"LOCK", "SUPER", ".run", ".val", ".log", "MANIFEST"} {
			t.Run(fmt.Sprint(part, size), func(t *testing.T) {
				o := brock.Options{Dir: t.TempDir(), Tuning: small, MemoryLimit: 8 << 20}
				db, err := brock.Open(o)
				must(t, "open", err)
				for i := range 50 {
					must(t, "set", db.Set([]byte(key(i)), []byte(text("v", i, 700))))
					if i == 30 {
						must(t, "flush", db.Flush(t.Context()))
					}
				}
				must(t, "close", db.Close())
				names, err := filepath.Glob(filepath.Join(o.Dir, "*"+part+"*"))
				must(t, "glob", err)
				if len(names) == 0 {
					t.Fatalf("no %s", part)
				}
				if err := os.Truncate(names[len(names)-1], size); err != nil {
					t.Skip(err) // the file system has no such files
				}
				ends(t, func() { useForged(t, o) })
			})
		}
	}
}

// ends runs fn, which may be slow on a busy machine, but must not hang.
func ends(t *testing.T, fn func()) {
	t.Helper()
	defer deadline.Watch(t, t.Name())()
	fn()
}
