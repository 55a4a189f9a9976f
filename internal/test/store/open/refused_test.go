// Package open tests which directories Open and Close take, refuse, lock and leave as they are.
package open

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// stored is a file system with a store in dir that was closed.
func stored(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: mem})
	assert.OK(t, err)
	storetest.Set(t, db, "a=1", "b=2")
	assert.OK(t, db.Close())
	return mem
}

func manifestName(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	s, err := manifest.ReadSuper(fsys, storetest.Dir)
	assert.OK(t, err)
	return filepath.Join(storetest.Dir, filename.Of(filename.Manifest, s.Manifest))
}

var superName = filepath.Join(storetest.Dir, filename.Of(filename.Super, 0))

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
				storetest.WriteFile(t, mem, storetest.Dir+"/CURRENT", "MANIFEST-000001\n")
				storetest.WriteFile(t, mem, storetest.Dir+"/LOCK", "someone else's")
				return mem
			},
			want: brock.ErrForeign, readOnly: brock.ErrForeign, text: "holds CURRENT",
		},
		"another program's SUPER": {
			prepare: func(t *testing.T) vfs.FS {
				mem := vfs.NewMem()
				storetest.WriteFile(t, mem, superName, "superb")
				return mem
			},
			want: brock.ErrForeign, text: "SUPER in /store is another program's",
		},
		"a later format": {
			prepare: func(t *testing.T) vfs.FS { mem := stored(t); writeFormat(t, mem, 7, 3); return mem },
			want:    brock.ErrFormat, text: "the store has format 7.3, this release reads 6.x",
		},
		"both slots of SUPER damaged": {
			prepare: func(t *testing.T) vfs.FS {
				mem := stored(t)
				storetest.EditFile(t, mem, superName, func(p []byte) { p[70] ^= 1; p[4096+70] ^= 1 })
				return mem
			},
			want: brock.ErrCorrupt, text: "SUPER at 0: neither slot",
		},
		"a damaged manifest": {
			prepare: func(t *testing.T) vfs.FS {
				mem := stored(t)
				storetest.EditFile(t, mem, manifestName(t, mem), flip(70))
				return mem
			},
			want: brock.ErrCorrupt, text: "MANIFEST-000001 at ",
		},
		"no manifest": {
			prepare: func(t *testing.T) vfs.FS {
				mem := stored(t)
				assert.OK(t, mem.Remove(manifestName(t, mem)))
				return mem
			},
			want: brock.ErrCorrupt, text: "MANIFEST-000001: SUPER names this manifest, and it is not there",
		},
		"a lost SUPER": {
			prepare: func(t *testing.T) vfs.FS { mem := stored(t); assert.OK(t, mem.Remove(superName)); return mem },
			want:    brock.ErrCorrupt, text: "there is no SUPER",
		},
		"no directory": {
			prepare: func(t *testing.T) vfs.FS { return vfs.NewMem() },
			options: brock.Options{MustExist: true}, want: brock.ErrNotExist, text: "/store",
		},
		"an empty directory": {
			prepare: func(t *testing.T) vfs.FS { mem := vfs.NewMem(); assert.OK(t, mem.MkdirAll(storetest.Dir)); return mem },
			options: brock.Options{MustExist: true}, want: brock.ErrNotExist, text: "no SUPER in /store",
		},
		"a store where none may be": {
			prepare: func(t *testing.T) vfs.FS { return stored(t) },
			options: brock.Options{MustBeNew: true}, want: brock.ErrExist, readOnly: brock.ErrInvalid,
		},
		"a killed store where none may be": {
			prepare: func(t *testing.T) vfs.FS { return storetest.MakeKilledStore(t) },
			options: brock.Options{MustBeNew: true}, want: brock.ErrExist, readOnly: brock.ErrInvalid,
		},
	} {
		for _, mode := range []brock.OpenMode{brock.ReadWrite, brock.ReadOnly} {
			t.Run(fmt.Sprintf("%s, mode %d", name, mode), func(t *testing.T) {
				fsys := c.prepare(t)
				before := storetest.ShowFiles(t, fsys)
				o := c.options
				o.Dir, o.FS, o.Mode = storetest.Dir, fsys, mode
				want := c.want
				if mode == brock.ReadOnly && c.readOnly != nil {
					want = c.readOnly
				}
				db, err := brock.Open(o)
				if err == nil {
					db.Close()
				}
				assert.Error(t, "Open", err, want)
				if err == nil || !strings.Contains(err.Error(), c.text) && want == c.want {
					t.Errorf("error %q lacks %q", err, c.text)
				}
				var damage *brock.CorruptionError
				if errors.Is(err, brock.ErrCorrupt) && !(errors.As(err, &damage) && damage.File != "") {
					t.Errorf("%v names no file", err)
				}
				if after := storetest.OmitLock(storetest.ShowFiles(t, fsys)); after != storetest.OmitLock(before) {
					t.Errorf("the directory was changed from\n%s\nto\n%s", before, after)
				}
			})
		}
	}
}

// writeFormat makes SUPER say that the store has another format.
func writeFormat(t *testing.T, fsys vfs.FS, major, minor byte) {
	s, err := manifest.ReadSuper(fsys, storetest.Dir)
	assert.OK(t, err)
	id := checksum.New(s.UUID, byte(filename.Super), 0)
	const sumAt = 508
	storetest.EditFile(t, fsys, superName, func(p []byte) {
		for at := 0; at < len(p); at += 4096 {
			slot := p[at : at+4096]
			slot[8], slot[10] = major, minor
			sum := checksum.Extend(checksum.Plain(slot[:sumAt]), slot[sumAt+4:]) ^ id.Mask(int64(at))
			slot[sumAt], slot[sumAt+1], slot[sumAt+2], slot[sumAt+3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		}
	})
}

// TestReadOnlyDirectory opens a store in a directory without write permission.
func TestReadOnlyDirectory(t *testing.T) {
	for _, closed := range []bool{true, false} {
		mem := vfs.NewMem()
		db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: mem})
		assert.OK(t, err)
		storetest.Set(t, db, "a=1", "b="+strings.Repeat("v", 2000))
		at := mem
		if closed {
			assert.OK(t, db.Close())
		} else { // as after a crash
			at = mem.CrashClone(vfs.CrashOptions{})
			defer db.Close()
		}
		const writes = faultfs.Changes | faultfs.OpenReadWrite | faultfs.Syncs
		protected := faultfs.New(at, faultfs.Options{})
		protected.Inject(faultfs.Fault{Kinds: writes, Times: faultfs.Always, Err: fs.ErrPermission})

		_, err = brock.Open(brock.Options{Dir: storetest.Dir, FS: protected})
		assert.Error(t, "to write", err, fs.ErrPermission)

		before := storetest.ShowFiles(t, at)
		reader, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: protected, Mode: brock.ReadOnly})
		assert.OK(t, err)
		assert.OK(t, reader.View(func(txn *brock.Txn) error {
			assert.Equal(t, "a", storetest.Get(txn, "a"), "1")
			assert.Equal(t, "b", len(storetest.Get(txn, "b")), 2000)
			return nil
		}))
		assert.OK(t, reader.Verify(t.Context(), nil))
		assert.OK(t, reader.Close())
		assert.Equal(t, "changed", storetest.ShowFiles(t, at) != before, false)
	}
}

// TestOpenTellsWhatItCut leaves half an edit at the end of the manifest, and damages a
// slot of SUPER. The store opens, and its log says what was cut and repaired.
func TestOpenTellsWhatItCut(t *testing.T) {
	mem := stored(t)
	super, err := manifest.ReadSuper(mem, storetest.Dir)
	assert.OK(t, err)
	f, err := mem.OpenReadWrite(filepath.Join(storetest.Dir, filename.Of(filename.Manifest, super.Manifest)))
	assert.OK(t, err)
	_, err = f.WriteAt([]byte("half an edit"), storetest.ReadSize(t, f))
	assert.OK(t, errors.Join(err, f.Close()))
	storetest.EditFile(t, mem, filepath.Join(storetest.Dir, filename.Of(filename.Super, 0)), func(p []byte) { p[50] ^= 1 })
	for _, want := range []string{"cutManifestBytes=12 mendedSuper=true", "cutManifestBytes=0 mendedSuper=false"} {
		var log bytes.Buffer
		db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: mem, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		assert.OK(t, err)
		assert.OK(t, db.Close())
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, &log)
		}
	}
}
