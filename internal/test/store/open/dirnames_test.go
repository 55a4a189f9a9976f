package open

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestNamesOfDirectories opens stores by all kinds of names, of which some mean one directory.
func TestNamesOfDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	here := assert.Must(os.Getwd())
	assert.OK(t, os.MkdirAll("real/values", 0o755))
	assert.OK(t, os.Mkdir("both", 0o755))
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
			assert.OK(t, db.Set([]byte("k"), bytes.Repeat([]byte("v"), 1000)))
			_, err = brock.Open(o)
			assert.Error(t, "a second Open of "+o.Dir, err, brock.ErrLocked)
			assert.OK(t, db.Close())
		}
		for _, mode := range []brock.OpenMode{brock.ReadOnly, brock.Follow} {
			o := o
			o.Mode = mode
			db, err := brock.Open(o)
			if err != nil {
				t.Fatalf("Dir %q, ValueDir %q, mode %d: %v", o.Dir, o.ValueDir, mode, err)
			}
			assert.Equal(t, "value in "+o.Dir, string(assert.Must(db.Get([]byte("k")))), strings.Repeat("v", 1000))
			assert.OK(t, db.Close())
		}
		copiesByName(t, o)
	}
}

// copiesByName makes stores of the one in o, in directories with odd names.
func copiesByName(t *testing.T, o brock.Options) {
	var backup bytes.Buffer
	db, err := brock.Open(o)
	assert.OK(t, err)
	assert.Must(db.Backup(t.Context(), &backup, brock.BackupOptions{}))
	assert.OK(t, db.Checkpoint(t.Context(), "./copies//checkpoint/"))
	assert.OK(t, db.Close())
	assert.Must(brock.Restore(t.Context(), &backup, brock.Options{Dir: "./copies/restored/", ValueDir: "copies//restored"}))
	assert.Must(brock.Salvage(t.Context(), o, brock.Options{Dir: "copies/./salvaged"}, nil))
	for _, dir := range []string{"checkpoint", "restored", "salvaged"} {
		db, err := brock.Open(brock.Options{Dir: "copies//" + dir + "/", MustExist: true})
		assert.OK(t, err)
		assert.Equal(t, "value in the copy of "+o.Dir, string(assert.Must(db.Get([]byte("k")))), strings.Repeat("v", 1000))
		assert.OK(t, db.Close())
	}
	assert.OK(t, brock.EncryptStore(t.Context(), brock.Options{Dir: "./copies/restored/", ValueDir: "copies//restored", Keys: storetest.MasterKey(1)}))
	assert.OK(t, os.RemoveAll("copies"))
}

// TestSameDirectory asks both file systems whether names mean one directory.
func TestSameDirectory(t *testing.T) {
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		assert.OK(t, p.FS.MkdirAll(p.Join("a")))
		assert.OK(t, p.FS.MkdirAll(p.Join("b")))
		held, err := p.FS.OpenDirs(p.Join("a"), p.Join("b"))
		assert.OK(t, err)
		defer held.Close()
		for _, fsys := range []vfs.FS{p.FS, held} {
			for other, want := range map[string]bool{p.Join("a"): true, p.Dir + "/./a": true, p.Dir + "//a/": true, p.Join("b"): false, p.Join("absent"): false} {
				assert.Equal(t, other, vfs.Same(fsys, p.Join("a"), other), want)
			}
		}
		assert.OK(t, p.Rename(p.Join("a"), p.Join("c")))
		assert.Equal(t, "the old name of a renamed directory", vfs.Same(p.FS, p.Join("a"), p.Join("c")), false)
		assert.Equal(t, "an open directory", vfs.Same(held, p.Join("a"), p.Join("a")), true)
	})
}
