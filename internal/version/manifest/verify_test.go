package manifest

import (
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// Verify finds damage in either slot of SUPER, of which Open needs just one, and
// anywhere in the manifest.
func TestVerifyFindsDamage(t *testing.T) {
	fs := vfs.NewMem()
	l, err := makeStore(Options{Keys: testKeys, FS: fs, Dir: "/s"}, CreateOptions{UUID: [16]byte{1}, Seed: 2, Created: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if testKeys != nil { // they need no file, but Verify reads it
		c := keyring.Content{UUID: [16]byte{1}, Number: 1}
		if err := c.Write(fs, "/s"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Append(&layout.Edit{LastVersion: 7, NextFile: 9}); err != nil {
		t.Fatal(err)
	}
	found := func() (files []string) {
		if err := l.Verify(func(c *errs.Corruption) { files = append(files, c.File) }); err != nil {
			t.Fatal(err)
		}
		return files
	}
	if got := found(); got != nil {
		t.Fatalf("damage in a whole store: %v", got)
	}
	for _, at := range []struct {
		file   string
		offset int64
	}{{"SUPER", 20}, {"SUPER", slotSize + 20}, {"MANIFEST-000001", 10}, {"MANIFEST-000001", l.end.Offset - 1}} {
		flip := func() {
			f, err := fs.OpenReadWrite(filepath.Join("/s", at.file))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b := make([]byte, 1)
			if _, err := f.ReadAt(b, at.offset); err != nil {
				t.Fatal(err)
			}
			b[0] ^= 4
			if _, err := f.WriteAt(b, at.offset); err != nil {
				t.Fatal(err)
			}
		}
		flip()
		if got := found(); len(got) != 1 || got[0] != at.file {
			t.Errorf("byte %d of %s flipped: found %v", at.offset, at.file, got)
		}
		flip()
	}
}
