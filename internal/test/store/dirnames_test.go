package store

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// TestNamesOfDirectories opens stores by all kinds of names, of which some mean one directory.
func TestNamesOfDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	here := must2(os.Getwd())
	must(t, os.MkdirAll("real/values", 0o755))
	must(t, os.Mkdir("both", 0o755))
	for from, to := range map[string]string{"link": "real", "other": "both"} {
		if err := os.Symlink(to, from); err != nil {
			t.Skip(err)
		}
	}
	for _, o := range []brock.Options{
		{Dir: "./dot"},
		{Dir: "slash/"},
		{Dir: "two//slashes"},
		{Dir: "absent/../up"},
		{Dir: here + "/absolute/"},
		{Dir: "./same", ValueDir: "same/"},
		{Dir: "relative", ValueDir: filepath.Join(here, "relative")},
		{Dir: "both", ValueDir: "other"},
		{Dir: "other", ValueDir: "./both"},
		{Dir: "link", ValueDir: "real/values"},
		{Dir: "./real/", ValueDir: "link/values"},
		{Dir: "apart", ValueDir: "./apart/values/"},
	} {
		for range 2 { // it is made, and found again
			db, err := brock.Open(o)
			if err != nil {
				t.Fatalf("Dir %q, ValueDir %q: %v", o.Dir, o.ValueDir, err)
			}
			must(t, db.Set([]byte("k"), bytes.Repeat([]byte("v"), 1000)))
			_, err = brock.Open(o)
			wantErr(t, "a second Open of "+o.Dir, err, brock.ErrLocked)
			must(t, db.Close())
		}
		for _, mode := range []brock.OpenMode{brock.ReadOnly, brock.Follow} {
			o := o
			o.Mode = mode
			db, err := brock.Open(o)
			if err != nil {
				t.Fatalf("Dir %q, ValueDir %q, mode %d: %v", o.Dir, o.ValueDir, mode, err)
			}
			wantEqual(t, "value in "+o.Dir, string(must2(db.Get([]byte("k")))), strings.Repeat("v", 1000))
			must(t, db.Close())
		}
		copiesByName(t, o)
	}
}

// copiesByName makes stores of the one in o, in directories with odd names.
func copiesByName(t *testing.T, o brock.Options) {
	var backup bytes.Buffer
	db, err := brock.Open(o)
	must(t, err)
	must2(db.Backup(t.Context(), &backup, brock.BackupOptions{}))
	must(t, db.Checkpoint(t.Context(), "./copies//checkpoint/"))
	must(t, db.Close())
	must2(brock.Restore(t.Context(), &backup, brock.Options{Dir: "./copies/restored/", ValueDir: "copies//restored"}))
	must2(brock.Salvage(t.Context(), o, brock.Options{Dir: "copies/./salvaged"}, nil))
	for _, dir := range []string{"checkpoint", "restored", "salvaged"} {
		db, err := brock.Open(brock.Options{Dir: "copies//" + dir + "/", MustExist: true})
		must(t, err)
		wantEqual(t, "value in the copy of "+o.Dir, string(must2(db.Get([]byte("k")))), strings.Repeat("v", 1000))
		must(t, db.Close())
	}
	must(t, brock.EncryptStore(t.Context(), brock.Options{Dir: "./copies/restored/", ValueDir: "copies//restored", Keys: masterKey(1)}))
	must(t, os.RemoveAll("copies"))
}

// TestSameDirectory asks both file systems whether names mean one directory.
func TestSameDirectory(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		must(t, p.fs.MkdirAll(p.in("a")))
		must(t, p.fs.MkdirAll(p.in("b")))
		held, err := p.fs.OpenDirs(p.in("a"), p.in("b"))
		must(t, err)
		defer held.Close()
		for _, fsys := range []vfs.FS{p.fs, held} {
			for other, want := range map[string]bool{p.in("a"): true, p.dir + "/./a": true, p.dir + "//a/": true, p.in("b"): false, p.in("absent"): false} {
				wantEqual(t, other, vfs.Same(fsys, p.in("a"), other), want)
			}
		}
		must(t, p.rename(p.in("a"), p.in("c")))
		wantEqual(t, "the old name of a renamed directory", vfs.Same(p.fs, p.in("a"), p.in("c")), false)
		wantEqual(t, "an open directory", vfs.Same(held, p.in("a"), p.in("a")), true)
	})
}
