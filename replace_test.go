package brock

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/brockdb/brock/vfs"
)

// storeOf makes a store with one pair.
func storeOf(t *testing.T, fsys vfs.FS, dir, value string) {
	t.Helper()
	db, err := Open(Options{Dir: dir, FS: fsys})
	must(t, err)
	must(t, db.Set([]byte("which"), []byte(value)))
	must(t, db.Close())
}

// storeIn tells the stores of storeOf apart.
func storeIn(t *testing.T, fsys vfs.FS, dir string) string {
	t.Helper()
	db, err := Open(Options{Dir: dir, FS: fsys, MustExist: true})
	must(t, err)
	defer db.Close()
	value, err := db.Get([]byte("which"))
	must(t, err)
	must(t, db.Verify(t.Context(), nil))
	return string(value)
}

// TestReplace: the stores are exchanged, or nothing has changed.
func TestReplace(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the system can't exchange directories")
	}
	parent := t.TempDir()
	dir, fresh := filepath.Join(parent, "store"), filepath.Join(parent, "new")
	storeOf(t, nil, dir, "old")
	refuses := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if is := storeIn(t, nil, dir); is != "old" {
			t.Errorf("%s: %s", what, is)
		}
	}
	refuses("nothing there", Replace(dir, fresh), ErrNotExist)
	must(t, os.Mkdir(fresh, 0o700))
	refuses("an empty directory", Replace(dir, fresh), ErrNotExist)
	must(t, os.Remove(fresh))
	storeOf(t, nil, fresh, "new")
	refuses("itself", Replace(dir, filepath.Join(parent, ".", "store")), ErrInvalid)
	refuses("another parent", Replace(dir, filepath.Join(fresh, "below")), ErrInvalid)
	for _, mode := range []OpenMode{ReadWrite, ReadOnly} {
		db, err := Open(Options{Dir: fresh, Mode: mode})
		must(t, err)
		refuses("the new one is open", Replace(dir, fresh), ErrLocked)
		must(t, db.Close())
	}
	db, err := Open(Options{Dir: dir})
	must(t, err)
	if err := Replace(dir, fresh); !errors.Is(err, ErrLocked) {
		t.Errorf("the old one is open: %v", err)
	}
	must(t, db.Close())

	follower, err := Open(Options{Dir: dir, Mode: Follow})
	must(t, err)
	defer follower.Close()
	must(t, Replace(dir, fresh))
	if _, err := follower.Refresh(t.Context()); err != nil {
		t.Errorf("a follower of the old store, which is still there: %v", err)
	}
	if is, was := storeIn(t, nil, dir), storeIn(t, nil, fresh); is != "new" || was != "old" {
		t.Errorf("%s is in the place, %s beside it", is, was)
	}
	t.Chdir(parent)
	must(t, Replace("store", "./new"))
	if is := storeIn(t, nil, dir); is != "old" {
		t.Errorf("by relative names: %s", is)
	}
	must(t, Replace("store", "./new"))
	must(t, os.RemoveAll("new"))
	if _, err := follower.Refresh(t.Context()); !errors.Is(err, ErrNotExist) {
		t.Errorf("a follower of the old store, which is gone: %v", err)
	}
	if value, err := follower.Get([]byte("which")); string(value) != "old" {
		t.Errorf("a follower has %q, %v", value, err)
	}
}

// crashing copies what crashes leave after each change of a directory.
type crashing struct {
	*vfs.Mem
	clones []*vfs.Mem
}

func (c *crashing) Exchange(a, b string) error { return c.around(c.Mem.Exchange(a, b)) }
func (c *crashing) SyncDir(dir string) error   { return c.around(c.Mem.SyncDir(dir)) }
func (c *crashing) Remove(name string) error   { return c.around(c.Mem.Remove(name)) }
func (c *crashing) MkdirAll(dir string) error  { return c.around(c.Mem.MkdirAll(dir)) }

func (c *crashing) around(err error) error {
	for _, mode := range []vfs.CrashMode{vfs.Lost, vfs.All, vfs.Prefix, vfs.Chaos, vfs.Chaos} {
		c.clones = append(c.clones, c.CrashClone(vfs.CrashOptions{Mode: mode, Seed: uint64(len(c.clones))}))
	}
	return err
}

// TestReplaceCrashes: after a crash one of the stores is in the place, and the other one beside
// it. What Replace has returned for is durable.
func TestReplaceCrashes(t *testing.T) {
	fs := &crashing{Mem: vfs.NewMem()}
	must(t, fs.MkdirAll("/data"))
	must(t, fs.SyncDir("/"))
	storeOf(t, fs.Mem, "/data/store", "old")
	storeOf(t, fs.Mem, "/data/new", "new")
	fs.clones = nil
	for range 21 { // an odd number
		must(t, replaceStore(fs, "/data/store", "/data/new"))
	}
	found := map[string]int{}
	for _, m := range fs.clones {
		is, beside := storeIn(t, m, "/data/store"), storeIn(t, m, "/data/new")
		if is == beside {
			t.Fatalf("%s twice", is)
		}
		found[is]++
	}
	if found["old"] == 0 || found["new"] == 0 {
		t.Errorf("crashes have left %v", found)
	}
	if is := storeIn(t, fs.CrashClone(vfs.CrashOptions{Mode: vfs.Lost}), "/data/store"); is != "new" {
		t.Errorf("durable is %s", is)
	}
}

// inPlace is restoreInPlace of docs/guide.md on any file system.
func inPlace(t *testing.T, fs vfs.FS, backup []byte, dir string) {
	t.Helper()
	fresh := dir + ".restored"
	remove := func() {
		names, err := fs.List(fresh)
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		must(t, err)
		for _, name := range names {
			must(t, fs.Remove(fresh+"/"+name))
		}
		must(t, fs.Remove(fresh))
	}
	remove()
	_, err := Restore(t.Context(), bytes.NewReader(backup), Options{Dir: fresh, FS: fs})
	must(t, err)
	must(t, replaceStore(fs, dir, fresh))
	remove()
}

// TestRestoreInPlaceCrashes: after a crash at any moment the directory has one of the stores, whole,
// and the program can do all of it again.
func TestRestoreInPlaceCrashes(t *testing.T) {
	other := vfs.NewMem()
	storeOf(t, other, "/new", "new")
	db, err := Open(Options{Dir: "/new", FS: other})
	must(t, err)
	defer db.Close()
	var backup bytes.Buffer
	_, err = db.Backup(t.Context(), &backup, BackupOptions{})
	must(t, err)
	fs := &crashing{Mem: vfs.NewMem()}
	must(t, fs.MkdirAll("/data"))
	must(t, fs.SyncDir("/"))
	storeOf(t, fs.Mem, "/data/store", "old")
	fs.clones = nil
	inPlace(t, fs, backup.Bytes(), "/data/store")
	for _, m := range fs.clones {
		storeIn(t, m, "/data/store")
		inPlace(t, m, backup.Bytes(), "/data/store")
		if is := storeIn(t, m, "/data/store"); is != "new" {
			t.Errorf("done again: %s", is)
		}
	}
}
