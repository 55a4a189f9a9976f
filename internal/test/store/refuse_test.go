package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

const dir = "/store"

// stored is a file system with a store in dir that was closed.
func stored(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	db, err := brock.Open(brock.Options{Dir: dir, FS: mem})
	must(t, err)
	set(t, db, "a=1", "b=2")
	must(t, db.Close())
	return mem
}

// killed is a file system with a store in dir whose process has died.
func killed(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	db, err := brock.Open(brock.Options{Dir: dir, FS: mem})
	must(t, err)
	defer db.Close()
	set(t, db, "a=1", "b=2")
	must(t, db.Flush(t.Context()))
	set(t, db, "c=3")
	return mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
}

func writeFile(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	must(t, fsys.MkdirAll(filepath.Dir(name)))
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	must(t, errors.Join(err, f.Close()))
}

func readFile(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	p := make([]byte, size(t, f))
	_, err = f.ReadAt(p, 0)
	must(t, errors.Join(err, f.Close()))
	return p
}

// edit changes the bytes of a file.
func edit(t *testing.T, fsys vfs.FS, name string, change func(p []byte)) {
	t.Helper()
	f, err := fsys.OpenReadWrite(name)
	must(t, err)
	p := make([]byte, size(t, f))
	_, err = f.ReadAt(p, 0)
	must(t, err)
	change(p)
	_, err = f.WriteAt(p, 0)
	must(t, errors.Join(err, f.Close()))
}

func size(t *testing.T, f vfs.File) int64 {
	n, err := f.Size()
	must(t, err)
	return n
}

// content returns the names of all files in dir, and their bytes: of long ones the
// checksum.
func content(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "no directory"
	}
	must(t, err)
	var all bytes.Buffer
	for _, name := range names {
		p := readFile(t, fsys, filepath.Join(dir, name))
		if len(p) > 100 {
			p = fmt.Appendf(nil, "%d bytes, %08x", len(p), checksum.Plain(p))
		}
		fmt.Fprintf(&all, "%s %q\n", name, p)
	}
	return all.String()
}

func manifestName(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	s, err := manifest.ReadSuper(fsys, dir)
	must(t, err)
	return filepath.Join(dir, filename.Of(filename.Manifest, s.Manifest))
}

var superName = filepath.Join(dir, filename.Of(filename.Super, 0))

// TestOpenRefuses opens directories that can't be opened, for writing and for
// reading. The error is the documented one and names the file, and no file changes.
func TestOpenRefuses(t *testing.T) {
	flip := func(at int) func([]byte) { return func(p []byte) { p[at] ^= 0x40 } }
	for name, c := range map[string]struct {
		prepare  func(t *testing.T) vfs.FS
		options  brock.Options
		want     error // of both modes
		readOnly error // unless that is another one
		text     string
	}{
		"another program's files": {
			prepare: func(t *testing.T) vfs.FS {
				mem := vfs.NewMem()
				writeFile(t, mem, dir+"/CURRENT", "MANIFEST-000001\n")
				writeFile(t, mem, dir+"/LOCK", "someone else's")
				return mem
			},
			want: brock.ErrForeign, readOnly: brock.ErrForeign, text: "holds CURRENT",
		},
		"another program's SUPER": {
			prepare: func(t *testing.T) vfs.FS {
				mem := vfs.NewMem()
				writeFile(t, mem, superName, "superb")
				return mem
			},
			want: brock.ErrForeign, text: "SUPER in /store is another program's",
		},
		"a later format": {
			prepare: func(t *testing.T) vfs.FS { mem := stored(t); writeFormat(t, mem, 7, 3); return mem },
			want:    brock.ErrFormat, text: "the store has format 7.3, this release reads 4.x",
		},
		"both slots of SUPER damaged": {
			prepare: func(t *testing.T) vfs.FS {
				mem := stored(t)
				edit(t, mem, superName, func(p []byte) { p[70] ^= 1; p[4096+70] ^= 1 })
				return mem
			},
			want: brock.ErrCorrupt, text: "SUPER at 0: neither slot",
		},
		"a damaged manifest": {
			prepare: func(t *testing.T) vfs.FS { mem := stored(t); edit(t, mem, manifestName(t, mem), flip(70)); return mem },
			want:    brock.ErrCorrupt, text: "MANIFEST-000001 at ",
		},
		"no manifest": {
			prepare: func(t *testing.T) vfs.FS { mem := stored(t); must(t, mem.Remove(manifestName(t, mem))); return mem },
			want:    brock.ErrCorrupt, text: "MANIFEST-000001: SUPER names this manifest, and it is not there",
		},
		"a lost SUPER": {
			prepare: func(t *testing.T) vfs.FS { mem := stored(t); must(t, mem.Remove(superName)); return mem },
			want:    brock.ErrCorrupt, text: "there is no SUPER",
		},
		"no directory": {
			prepare: func(t *testing.T) vfs.FS { return vfs.NewMem() },
			options: brock.Options{MustExist: true}, want: brock.ErrNotExist, text: "/store",
		},
		"an empty directory": {
			prepare: func(t *testing.T) vfs.FS { mem := vfs.NewMem(); must(t, mem.MkdirAll(dir)); return mem },
			options: brock.Options{MustExist: true}, want: brock.ErrNotExist, text: "no SUPER in /store",
		},
		"a store where none may be": {
			prepare: func(t *testing.T) vfs.FS { return stored(t) },
			options: brock.Options{MustBeNew: true}, want: brock.ErrExist, readOnly: brock.ErrInvalid,
		},
		"a killed store where none may be": {
			prepare: func(t *testing.T) vfs.FS { return killed(t) },
			options: brock.Options{MustBeNew: true}, want: brock.ErrExist, readOnly: brock.ErrInvalid,
		},
	} {
		for _, mode := range []brock.OpenMode{brock.ReadWrite, brock.ReadOnly} {
			t.Run(fmt.Sprintf("%s, mode %d", name, mode), func(t *testing.T) {
				fsys := c.prepare(t)
				before := content(t, fsys)
				o := c.options
				o.Dir, o.FS, o.Mode = dir, fsys, mode
				want := c.want
				if mode == brock.ReadOnly && c.readOnly != nil {
					want = c.readOnly
				}
				db, err := brock.Open(o)
				if err == nil {
					db.Close()
				}
				wantErr(t, "Open", err, want)
				if err == nil || !strings.Contains(err.Error(), c.text) && want == c.want {
					t.Errorf("error %q lacks %q", err, c.text)
				}
				var damage *brock.CorruptionError
				if errors.Is(err, brock.ErrCorrupt) && !(errors.As(err, &damage) && damage.File != "") {
					t.Errorf("%v names no file", err)
				}
				if after := withoutLock(content(t, fsys)); after != withoutLock(before) {
					t.Errorf("the directory was changed from\n%s\nto\n%s", before, after)
				}
			})
		}
	}
}

// withoutLock leaves out a LOCK of ours: a refused Open may make one, or take the name
// of a killed process out of it.
func withoutLock(content string) string {
	return strings.NewReplacer("LOCK \"\"\n", "", "LOCK \"this process\\n\"\n", "").Replace(content)
}

// writeFormat makes SUPER say that the store has another format.
func writeFormat(t *testing.T, fsys vfs.FS, major, minor byte) {
	s, err := manifest.ReadSuper(fsys, dir)
	must(t, err)
	id := checksum.New(s.UUID, byte(filename.Super), 0)
	const sumAt = 508
	edit(t, fsys, superName, func(p []byte) {
		for at := 0; at < len(p); at += 4096 {
			slot := p[at : at+4096]
			slot[8], slot[10] = major, minor
			sum := checksum.Extend(checksum.Plain(slot[:sumAt]), slot[sumAt+4:]) ^ id.Mask(int64(at))
			slot[sumAt], slot[sumAt+1], slot[sumAt+2], slot[sumAt+3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		}
	})
}

func TestLocks(t *testing.T) {
	for _, fsys := range []vfs.FS{vfs.NewMem(), vfs.OS()} {
		t.Run(fmt.Sprintf("%T", fsys), func(t *testing.T) {
			at := dir
			if fsys == vfs.OS() {
				at = filepath.Join(t.TempDir(), "store")
			}
			writer, err := brock.Open(brock.Options{Dir: at, FS: fsys})
			must(t, err)
			for _, mode := range []brock.OpenMode{brock.ReadWrite, brock.ReadOnly} {
				_, err := brock.Open(brock.Options{Dir: at, FS: fsys, Mode: mode})
				wantErr(t, "beside a writer", err, brock.ErrLocked)
				var locked *vfs.LockedError
				if !errors.As(err, &locked) || !strings.Contains(err.Error(), "in use by ") || !strings.Contains(err.Error(), at) {
					t.Errorf("mode %d: error %q says not what is in use by whom", mode, err)
				}
			}
			set(t, writer, "a=1")
			must(t, writer.Close())

			var readers []*brock.DB
			for range 2 {
				db, err := brock.Open(brock.Options{Dir: at, FS: fsys, Mode: brock.ReadOnly})
				must(t, err)
				readers = append(readers, db)
			}
			_, err = brock.Open(brock.Options{Dir: at, FS: fsys})
			wantErr(t, "beside readers", err, brock.ErrLocked)
			for _, db := range readers {
				v, err := db.Get(b("a"))
				wantEqual(t, "read", string(v), "1")
				must(t, err)
				must(t, db.Close())
			}
			writer, err = brock.Open(brock.Options{Dir: at, FS: fsys})
			must(t, err)
			must(t, writer.Close())
		})
	}
}

// TestReadOnlyDirectory opens a store in a directory without write permission.
func TestReadOnlyDirectory(t *testing.T) {
	for _, closed := range []bool{true, false} {
		mem := vfs.NewMem()
		db, err := brock.Open(brock.Options{Dir: dir, FS: mem})
		must(t, err)
		set(t, db, "a=1", "b="+strings.Repeat("v", 2000))
		at := mem
		if closed {
			must(t, db.Close())
		} else { // as after a crash
			at = mem.CrashClone(vfs.CrashOptions{})
			defer db.Close()
		}
		const writes = faultfs.Changes | faultfs.OpenReadWrite | faultfs.Syncs
		protected := faultfs.New(at, faultfs.Options{})
		protected.Inject(faultfs.Fault{Kinds: writes, Times: faultfs.Always, Err: fs.ErrPermission})

		_, err = brock.Open(brock.Options{Dir: dir, FS: protected})
		wantErr(t, "to write", err, fs.ErrPermission)

		before := content(t, at)
		reader, err := brock.Open(brock.Options{Dir: dir, FS: protected, Mode: brock.ReadOnly})
		must(t, err)
		must(t, reader.View(func(txn *brock.Txn) error {
			wantEqual(t, "a", get(txn, "a"), "1")
			wantEqual(t, "b", len(get(txn, "b")), 2000)
			return nil
		}))
		must(t, reader.Verify(t.Context(), nil))
		must(t, reader.Close())
		wantEqual(t, "changed", content(t, at) != before, false)
	}
}

// TestFailedSyncStopsWrites fails one sync of the journal. That commit and all later
// ones return ErrStopped, acknowledged data stays readable, and the next Open works.
func TestFailedSyncStopsWrites(t *testing.T) {
	for _, fault := range []error{faultfs.ErrIO, faultfs.ErrNoSpace} {
		mem := vfs.NewMem()
		faulty := faultfs.New(mem, faultfs.Options{})
		db, err := brock.Open(brock.Options{Dir: dir, FS: faulty})
		must(t, err)
		set(t, db, "a=1")
		must(t, db.Err())
		wantEqual(t, "Stopped", db.Metrics().Stopped, false)
		faulty.Inject(faultfs.Fault{Kinds: faultfs.Sync | faultfs.SyncData, Path: ".log", Err: fault})
		for i := range 3 {
			err := db.Set(b("a"), b("2"))
			wantErr(t, fmt.Sprintf("commit %d", i), err, brock.ErrStopped)
			wantErr(t, fmt.Sprintf("commit %d", i), err, fault)
			if errors.Is(fault, brock.ErrNoSpace) {
				wantErr(t, fmt.Sprintf("commit %d", i), err, brock.ErrNoSpace)
			}
			if !strings.Contains(fmt.Sprint(err), "writes are stopped") {
				t.Errorf("error %q does not say that writes are stopped", err)
			}
		}
		wantStopped(t, db, fault)
		must(t, db.View(func(txn *brock.Txn) error { wantEqual(t, "a", get(txn, "a"), "1"); return nil }))
		wantErr(t, "Sync", db.Sync(t.Context()), brock.ErrStopped)
		wantErr(t, "Close", db.Close(), brock.ErrStopped)

		db, err = brock.Open(brock.Options{Dir: dir, FS: mem.CrashClone(vfs.CrashOptions{})})
		must(t, err)
		v, err := db.Get(b("a"))
		must(t, err)
		if !slices.Contains([]string{"1", "2"}, string(v)) {
			t.Errorf("a is %q", v)
		}
		must(t, db.Close())
	}
}

// wantStopped checks that the store says that it has stopped, and why.
func wantStopped(t *testing.T, db *brock.DB, cause error) {
	t.Helper()
	wantErr(t, "DB.Err", db.Err(), brock.ErrStopped)
	wantErr(t, "DB.Err", db.Err(), cause)
	wantEqual(t, "Stopped", db.Metrics().Stopped, true)
}

// TestErrOfAStoreThatWorks asks stores for DB.Err that have not stopped.
func TestErrOfAStoreThatWorks(t *testing.T) {
	mem := vfs.NewMem()
	db, err := brock.Open(brock.Options{Dir: dir, FS: mem})
	must(t, err)
	set(t, db, "a=1")
	mem.SetCapacity(1)
	wantErr(t, "Set on a full disk", db.Set(b("big"), incompressible(1, 1<<20)), brock.ErrNoSpace)
	must(t, db.Err())
	mem.SetCapacity(0)
	wantEqual(t, "no backup", db.Metrics().LastBackup, time.Time{})
	must2(db.Backup(t.Context(), io.Discard, brock.BackupOptions{}))
	if m := db.Metrics(); m.LastBackup.IsZero() || m.OpenTime <= 0 {
		t.Errorf("last backup %v, open time %v", m.LastBackup, m.OpenTime)
	}
	must(t, db.Close())
	wantErr(t, "Err of a closed store", db.Err(), brock.ErrClosed)
	wantEqual(t, "Stopped once closed", db.Metrics().Stopped, false)
	db, err = brock.Open(brock.Options{Dir: dir, FS: mem, Mode: brock.ReadOnly})
	must(t, err)
	must(t, db.Err())
	must(t, db.Close())
}

// After a failed write or sync of the manifest every commit returns ErrStopped, though
// the journal is sound. What was acknowledged stays readable.
func TestFailedManifestStopsWrites(t *testing.T) {
	for _, kinds := range []faultfs.Kind{faultfs.Syncs, faultfs.Write} {
		mem := vfs.NewMem()
		faulty := faultfs.New(mem, faultfs.Options{})
		db, err := brock.Open(brock.Options{Dir: dir, FS: faulty})
		must(t, err)
		set(t, db, "a=1")
		faulty.Inject(faultfs.Fault{Kinds: kinds, Path: "MANIFEST"})
		_, err = db.Keyspace("k")
		wantErr(t, "make a keyspace", err, brock.ErrStopped)
		wantStopped(t, db, faultfs.ErrIO)
		faulty.Heal()
		for i := range 3 {
			err := db.Set(b("a"), b("2"))
			wantErr(t, fmt.Sprintf("commit %d", i), err, brock.ErrStopped)
			wantErr(t, fmt.Sprintf("commit %d", i), err, faultfs.ErrIO)
		}
		wantErr(t, "flush", db.Flush(t.Context()), brock.ErrStopped)
		must(t, db.View(func(txn *brock.Txn) error { wantEqual(t, "a", get(txn, "a"), "1"); return nil }))
		wantErr(t, "Close", db.Close(), brock.ErrStopped)
		db, err = brock.Open(brock.Options{Dir: dir, FS: mem.CrashClone(vfs.CrashOptions{})})
		must(t, err)
		must(t, db.View(func(txn *brock.Txn) error { wantEqual(t, "a", get(txn, "a"), "1"); return nil }))
		must(t, db.Close())
	}
}

// TestFailedFlushStopsWrites makes writes of runs fail. An event reports it at
// once. Writers get ErrStopped when memory is full.
func TestFailedFlushStopsWrites(t *testing.T) {
	faulty := faultfs.New(vfs.NewMem(), faultfs.Options{})
	failed := make(chan error, 1)
	db, err := brock.Open(brock.Options{
		Dir: dir, FS: faulty, Durability: brock.Buffered, Tuning: brock.Tuning{MemtableSize: 64 << 10},
		Events: brock.Events{BackgroundError: func(err error) { failed <- err }},
	})
	must(t, err)
	defer db.Close()
	faulty.Inject(faultfs.Fault{Kinds: faultfs.Write, Path: ".run", Times: faultfs.Always})
	for i := 0; err == nil; i++ {
		err = db.Set(fmt.Appendf(nil, "key %d", i), make([]byte, 400))
	}
	wantErr(t, "Set", err, brock.ErrStopped)
	wantErr(t, "Set", err, faultfs.ErrIO)
	wantErr(t, "the event", <-failed, faultfs.ErrIO)
	wantErr(t, "Flush", db.Flush(t.Context()), brock.ErrStopped)
	must(t, db.View(func(txn *brock.Txn) error { wantEqual(t, "length", len(get(txn, "key 0")), 400); return nil }))
}

// TestFailedBackgroundSyncIsTold makes the sync of a sealed journal segment fail, in the background.
// An event reports it at once and not only the next write, as there may be none.
func TestFailedBackgroundSyncIsTold(t *testing.T) {
	faulty := faultfs.New(vfs.NewMem(), faultfs.Options{})
	failed := make(chan error, 2)
	db, err := brock.Open(brock.Options{
		Dir: dir, FS: faulty, Durability: brock.Buffered, Tuning: brock.Tuning{SegmentSize: 256 << 10},
		Events: brock.Events{BackgroundError: func(err error) { failed <- err }},
	})
	must(t, err)
	for i := range 40 {
		must(t, db.Set(fmt.Appendf(nil, "key %d", i), incompressible(i, 20000))) // fills segments, and no memtable
	}
	faulty.Inject(faultfs.Fault{Kinds: faultfs.Syncs &^ faultfs.SyncDir, Path: ".log", Times: faultfs.Always})
	keyspace(t, db, "new", brock.KeyspaceOptions{}) // background work looks for what is to be done
	err = deadline.Receive(t, "the event", failed)
	wantErr(t, "the event", err, brock.ErrStopped)
	wantErr(t, "the event", err, faultfs.ErrIO)
	wantStopped(t, db, faultfs.ErrIO)
	must(t, db.View(func(txn *brock.Txn) error { wantEqual(t, "length", len(get(txn, "key 0")), 20000); return nil }))
	wantErr(t, "Set", db.Set(b("a"), b("1")), brock.ErrStopped)
	wantErr(t, "Close", db.Close(), brock.ErrStopped)
	if len(failed) > 0 {
		t.Error("told twice")
	}
}

// TestOpenTellsWhatItCut leaves half an edit at the end of the manifest, and damages a
// slot of SUPER. The store opens, and its log says what was cut and repaired.
func TestOpenTellsWhatItCut(t *testing.T) {
	mem := stored(t)
	super, err := manifest.ReadSuper(mem, dir)
	must(t, err)
	f, err := mem.OpenReadWrite(filepath.Join(dir, filename.Of(filename.Manifest, super.Manifest)))
	must(t, err)
	_, err = f.WriteAt([]byte("half an edit"), size(t, f))
	must(t, errors.Join(err, f.Close()))
	edit(t, mem, filepath.Join(dir, filename.Of(filename.Super, 0)), func(p []byte) { p[50] ^= 1 })
	for _, want := range []string{"cutManifestBytes=12 mendedSuper=true", "cutManifestBytes=0 mendedSuper=false"} {
		var log bytes.Buffer
		db, err := brock.Open(brock.Options{Dir: dir, FS: mem, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		must(t, err)
		must(t, db.Close())
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, &log)
		}
	}
}
