package open

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// untouched is a store that is damaged in many ways, and opened after each.
type untouched struct {
	t       *testing.T
	mem     *vfs.Mem // has the store in /s, and perhaps its values in /v
	options brock.Options
	disk    bool // try it on the disk, too
	refused int
}

// busyStore makes a store with files of all kinds, and a journal that is not flushed.
func busyStore(t *testing.T, mem *vfs.Mem, o brock.Options) *brock.DB {
	t.Helper()
	o.FS = mem
	o.Tuning = brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10}
	db, err := brock.Open(o)
	assert.OK(t, err)
	big := func(n int) []byte { return bytes.Repeat([]byte("value "), n) }
	for round := range 4 {
		for i := range 40 {
			assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i*(round+1)), big(10+i*5)))
		}
		assert.OK(t, db.Flush(t.Context()))
	}
	assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 1}, func(txn *brock.Txn) error {
		for i := range 3 {
			assert.OK(t, txn.Set(fmt.Appendf(nil, "spilled %d", i), big(200)))
		}
		return nil
	}))
	_, err = db.Reclaim(t.Context())
	assert.OK(t, err)
	ks, err := db.Keyspace("other")
	assert.OK(t, err)
	assert.OK(t, ks.Set([]byte("k"), big(300)))
	for i := range 20 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "late %d", i), big(i*20)))
	}
	return db
}

// files are the paths of all files but LOCK.
func (u *untouched) files(fsys vfs.FS, dirs ...string) (paths []string) {
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		names, err := fsys.List(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		assert.OK(u.t, err)
		for _, name := range names {
			if name != "LOCK" {
				paths = append(paths, filepath.Join(dir, name))
			}
		}
	}
	return paths
}

// bytes is all that a refused Open must leave as it was.
func (u *untouched) bytes(fsys vfs.FS, dirs ...string) map[string]string {
	all := map[string]string{}
	for _, path := range u.files(fsys, dirs...) {
		all[path] = string(storetest.ReadFile(u.t, fsys, path))
	}
	return all
}

// open opens the store in each way, and compares what is there if it is refused.
func (u *untouched) open(what string, fsys func() vfs.FS, o brock.Options) {
	u.t.Helper()
	dirs := slices.Compact([]string{o.Dir, o.ValueDir})
	for _, way := range []struct {
		name   string
		change func(*brock.Options)
	}{
		{"to write", func(*brock.Options) {}},
		{"to read", func(o *brock.Options) { o.Mode = brock.ReadOnly }},
		{"as new", func(o *brock.Options) { o.MustBeNew = true }},
		{"as it is", func(o *brock.Options) { o.MustExist = true }},
	} {
		o := o
		o.FS = fsys()
		way.change(&o)
		before := u.bytes(o.FS, dirs...)
		db, err := brock.Open(o)
		if err == nil {
			_ = db.Close() // what a store does that opens is tested elsewhere
			continue
		}
		u.refused++
		after := u.bytes(o.FS, dirs...)
		if maps.Equal(before, after) {
			continue
		}
		u.t.Errorf("%s, opened %s: %v: there are %d files and were %d", what, way.name, err, len(after), len(before))
		for path, content := range after {
			if was, there := before[path]; !there || was != content {
				u.t.Errorf("%s has changed", path)
			}
		}
	}
}

// damages are what can happen to a file.
var damages = []struct {
	name string
	do   func(p []byte) []byte // nil: the file goes
}{
	{"removed", func([]byte) []byte { return nil }},
	{"empty", func([]byte) []byte { return []byte{} }},
	{"cut in the middle", func(p []byte) []byte { return p[:len(p)/2] }},
	{"cut at its end", func(p []byte) []byte { return p[:max(len(p), 9)-9] }},
	{"with more at its end", func(p []byte) []byte { return append(p, "and half an edit"...) }},
	{"without its first page", func(p []byte) []byte { clear(p[:min(len(p), 4096)]); return p }},
	{"with zeros at its end", func(p []byte) []byte { clear(p[len(p)*3/4:]); return p }},
	{"flipped at 9", func(p []byte) []byte { return flipped(p, 9) }},
	{"flipped at 72", func(p []byte) []byte { return flipped(p, 72) }},
	{"flipped in the middle", func(p []byte) []byte { return flipped(p, len(p)/2) }},
	{"flipped near its end", func(p []byte) []byte { return flipped(p, len(p)-60) }},
}

func flipped(p []byte, at int) []byte {
	if at >= 0 && at < len(p) {
		p[at] ^= 0x10
	}
	return p
}

// damageAll damages one file after the other, each in some ways, of which the first is drawn; with
// -every in all.
func (u *untouched) damageAll() {
	u.t.Helper()
	step := 3
	switch {
	case *storetest.Every:
		step = 1
	case testing.Short():
		step = 7
	}
	first := draw.Rand(u.t).IntN(step)
	whole := func() *vfs.Mem { return u.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All}) }
	u.open("whole", func() vfs.FS { return whole() }, u.options)
	for i, path := range u.files(u.mem, u.options.Dir, u.options.ValueDir) {
		for j, damage := range damages {
			if (i+j)%step != first {
				continue
			}
			what := filepath.Base(path) + " " + damage.name
			put := func(fsys vfs.FS, path string) {
				content := damage.do(storetest.ReadFile(u.t, u.mem, path))
				assert.OK(u.t, fsys.Remove(path))
				if content != nil {
					storetest.WriteFile(u.t, fsys, path, string(content))
				}
			}
			u.open(what, func() vfs.FS { mem := whole(); put(mem, path); return mem }, u.options)
			if u.disk && (i+j)/step%2 == 0 {
				u.onDisk(what, path, damage.do)
			}
		}
	}
	if u.refused == 0 {
		u.t.Error("no damage is refused")
	}
}

// onDisk is the same with files of the operating system.
func (u *untouched) onDisk(what, damaged string, do func([]byte) []byte) {
	root := u.t.TempDir()
	o := u.options
	o.Dir = filepath.Join(root, o.Dir)
	if o.ValueDir != "" {
		o.ValueDir = filepath.Join(root, o.ValueDir)
	}
	n := 0
	u.open(what+", on the disk", func() vfs.FS {
		n++
		if n > 1 { // the way before may have changed it
			for _, path := range u.files(vfs.OS(), o.Dir, o.ValueDir) {
				assert.OK(u.t, vfs.OS().Remove(path))
			}
		}
		for _, path := range u.files(u.mem, u.options.Dir, u.options.ValueDir) {
			content := storetest.ReadFile(u.t, u.mem, path)
			if path == damaged {
				content = do(content)
			}
			if content != nil {
				storetest.WriteFile(u.t, vfs.OS(), filepath.Join(root, path), string(content))
			}
		}
		return vfs.OS()
	}, o)
}

// TestRefusedStoresAreUntouched takes stores as Close, a kill or a power loss leaves them,
// damages each of their files, and opens them: an Open that fails changes no byte and no
// name but LOCK.
func TestRefusedStoresAreUntouched(t *testing.T) {
	plain := brock.Options{Dir: "/s"}
	apart := brock.Options{Dir: "/s", ValueDir: "/v"}
	run := func(name string, o brock.Options, disk bool, leave func(*testing.T, *vfs.Mem, *brock.DB) *vfs.Mem) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem()
			o.Keys = storetest.DrawKeys(t)
			db := busyStore(t, mem, o)
			left := leave(t, mem, db)
			assert.OK(t, db.Close())
			(&untouched{t: t, mem: left, options: o, disk: disk}).damageAll()
		})
	}
	closed := func(t *testing.T, mem *vfs.Mem, db *brock.DB) *vfs.Mem { assert.OK(t, db.Close()); return mem }
	crash := func(o vfs.CrashOptions) func(*testing.T, *vfs.Mem, *brock.DB) *vfs.Mem {
		return func(_ *testing.T, mem *vfs.Mem, _ *brock.DB) *vfs.Mem { return mem.CrashClone(o) }
	}
	run("closed", plain, false, closed)
	run("values apart, closed", apart, false, closed)
	run("killed", plain, true, crash(vfs.CrashOptions{Mode: vfs.All}))
	run("values apart, killed", apart, true, crash(vfs.CrashOptions{Mode: vfs.All}))
	seeds := 2
	switch {
	case *storetest.Every:
		seeds = 20
	case testing.Short():
		seeds = 1
	}
	for seed := range seeds {
		run(fmt.Sprint("power loss ", seed), plain, false, crash(vfs.CrashOptions{Mode: vfs.Chaos, Seed: uint64(seed)}))
		run(fmt.Sprint("values apart, power loss ", seed), apart, false, crash(vfs.CrashOptions{Mode: vfs.Chaos, Seed: uint64(seed)}))
	}
	run("torn manifest", apart, false, func(t *testing.T, mem *vfs.Mem, _ *brock.DB) *vfs.Mem {
		mem = mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		for _, base := range []string{filename.Of(filename.Manifest, 1), filename.Of(filename.Manifest, 2)} {
			if f, err := mem.OpenReadWrite("/s/" + base); err == nil {
				_, err = f.WriteAt([]byte("half an edit"), storetest.ReadSize(t, f))
				assert.OK(t, errors.Join(err, f.Close()))
			}
		}
		return mem
	})
}

// TestRefusedCreations interrupts creations at each change of a file, and opens what
// is there beside a file that makes Open refuse it.
func TestRefusedCreations(t *testing.T) {
	for _, o := range []brock.Options{{Dir: "/s"}, {Dir: "/s", ValueDir: "/v"}} {
		var crashes []*vfs.Mem
		mem := vfs.NewMem()
		o.Keys = storetest.DrawKeys(t)
		o.FS = faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
			if op.Kind&(faultfs.Changes|faultfs.Syncs) != 0 {
				crashes = append(crashes, mem.CrashClone(vfs.CrashOptions{Mode: vfs.All}))
			}
		}})
		db, err := brock.Open(o)
		assert.OK(t, err)
		for i, left := range crashes {
			for _, stranger := range []string{"/s/CURRENT", "/s/000007.run", "/s/000007.log", "/v/000007.val"} {
				left := left.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				if strings.HasPrefix(stranger, "/v") && o.ValueDir == "" {
					continue
				}
				if _, err := left.Stat(filepath.Dir(stranger)); err != nil {
					continue // not made yet
				}
				storetest.WriteFile(t, left, stranger, "another program's")
				u := &untouched{t: t, mem: left}
				u.open(fmt.Sprintf("crash %d beside %s", i, stranger), func() vfs.FS { return left.CrashClone(vfs.CrashOptions{Mode: vfs.All}) }, o)
			}
		}
		assert.OK(t, db.Close())
	}
}
