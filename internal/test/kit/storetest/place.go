package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// Place is a file system with an empty directory, whose directories can be renamed.
type Place struct {
	FS     vfs.FS
	Dir    string
	Rename func(from, to string) error // of directories, or nil
}

// Join returns the path of base in the directory.
func (p Place) Join(base string) string { return filepath.Join(p.Dir, base) }

// OnEach runs a test in memory and on the disk; with -short in one of the two, which is drawn.
func OnEach(t *testing.T, test func(t *testing.T, p Place)) {
	drawn := int(draw.Seed(t) % 2)
	for i, name := range []string{"mem", "os"} {
		if testing.Short() && i != drawn {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if name == "os" {
				test(t, Place{FS: vfs.OS(), Dir: t.TempDir(), Rename: os.Rename})
				return
			}
			mem := vfs.NewMem()
			test(t, Place{FS: mem, Dir: "/", Rename: mem.Rename})
		})
	}
}

// TinyOptions are of a store that begins a new file often, in p/name, with its values in
// p/values.
func (p Place) TinyOptions(name, values string) brock.Options {
	o := brock.Options{Dir: p.Join(name), FS: p.FS, Durability: brock.Buffered}
	o.Tuning = brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10, RunFileSize: 64 << 10}
	if values != "" {
		o.ValueDir = p.Join(values)
	}
	return o
}

// CopyDir copies the files of a directory into another one, which it makes.
func (p Place) CopyDir(t *testing.T, from, to string) {
	t.Helper()
	names, err := p.FS.List(p.Join(from))
	assert.OK(t, err)
	assert.OK(t, p.FS.MkdirAll(p.Join(to)))
	for _, name := range names {
		WriteFile(t, p.FS, p.Join(filepath.Join(to, name)), string(ReadFile(t, p.FS, p.Join(filepath.Join(from, name)))))
	}
}

// ShowFiles returns the names of the files in directories, and their bytes. It leaves out an
// empty LOCK.
func (p Place) ShowFiles(t *testing.T, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		names, err := p.FS.List(p.Join(dir))
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(&all, "no %s\n", dir)
			continue
		}
		assert.OK(t, err)
		for _, name := range names {
			content := ReadFile(t, p.FS, p.Join(filepath.Join(dir, name)))
			if name == "LOCK" && len(content) == 0 {
				continue // a refused Open may make one
			}
			fmt.Fprintf(&all, "%s/%s %d bytes %08x\n", dir, name, len(content), checksum.Plain(content))
		}
	}
	return all.String()
}

// CheckRefused opens a store and wants an error, and nothing else.
func (p Place) CheckRefused(t *testing.T, what string, o brock.Options, want error, dirs ...string) {
	t.Helper()
	for _, mode := range []brock.OpenMode{brock.ReadWrite, brock.ReadOnly} {
		before := p.ShowFiles(t, dirs...)
		o.Mode = mode
		db, err := brock.Open(o)
		if err == nil {
			assert.OK(t, db.Close())
		}
		assert.Error(t, fmt.Sprintf("%s, mode %d", what, mode), err, want)
		if want != brock.ErrKey && errors.Is(err, brock.ErrKey) {
			t.Errorf("%s, mode %d: %v asks for other keys", what, mode, err)
		}
		if after := p.ShowFiles(t, dirs...); after != before {
			t.Fatalf("%s, mode %d: from\n%s\nto\n%s", what, mode, before, after)
		}
	}
}

// RetainingOptions are TinyOptions with all history.
func (p Place) RetainingOptions(name, values string) brock.Options {
	o := p.TinyOptions(name, values)
	o.KeyspaceDefaults.Versions.Age = time.Hour
	return o
}

// KeyedOptions are RetainingOptions with keys.
func (p Place) KeyedOptions(name, values string) brock.Options {
	o := p.RetainingOptions(name, values)
	o.Keys = MasterKey(1)
	return o
}

// NameOtherDir names another directory for values, if values are in one of their own.
func NameOtherDir(values string, round int) string {
	if values == "" {
		return ""
	}
	return fmt.Sprint(values, " ", round)
}
