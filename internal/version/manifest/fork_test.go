package manifest

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// fork makes a store with one edit in the directory "a", and a copy of it in "b".
func fork(t *testing.T, keys Keys) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	l := mustCreate(t, Options{Keys: keys, FS: mem, Dir: "a"})
	mustAppend(t, l, &layout.Edit{SetKeyspaces: []layout.Keyspace{{ID: 1, Name: "common"}}, NextKeyspace: 2})
	mustClose(t, l)
	if err := mem.MkdirAll("b"); err != nil {
		t.Fatal(err)
	}
	replace(t, mem, "b", "a")
	return mem
}

// replace makes the files of one directory those of another.
func replace(t *testing.T, mem *vfs.Mem, to, from string) {
	t.Helper()
	for _, dir := range []string{to, from} {
		names, err := mem.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, base := range names {
			if dir == to {
				err = mem.Remove(filepath.Join(dir, base))
			} else {
				put(t, mem, filepath.Join(to, base), get(t, mem, filepath.Join(from, base)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// bothKinds runs fn for plain and for encrypted stores.
func bothKinds(t *testing.T, fn func(t *testing.T, keys Keys)) {
	t.Run("plain", func(t *testing.T) { fn(t, nil) })
	t.Run("encrypted", func(t *testing.T) {
		// File key ids are random, as the same ones in two tests would use nonces twice.
		ring := crypt.NewRing(nil, func(id crypt.ID) (crypt.DataKey, error) {
			return crypt.DataKey{ID: id, Cipher: crypt.AES256GCM, Key: [crypt.KeySize]byte{8}}, nil
		})
		if err := ring.SetCurrent(crypt.ID{1}); err != nil {
			t.Fatal(err)
		}
		fn(t, keysOf(ring))
	})
}

// keyspaceEdit stands alone, so that SUPER records it.
func keyspaceEdit(name string) *layout.Edit {
	return &layout.Edit{SetKeyspaces: []layout.Keyspace{{ID: 2, Name: name}}, NextKeyspace: 3}
}

// TestManifestOfAFork: SUPER names the frame that was durable, and not its number only. So the
// manifest of another copy, with as many frames or more, is damage, also if the store was killed.
func TestManifestOfAFork(t *testing.T) {
	bothKinds(t, func(t *testing.T, keys Keys) {
		for _, closed := range []bool{true, false} {
			for more := range 2 {
				mem := fork(t, keys)
				for dir, name := range map[string]string{"a": "mine", "b": "other"} {
					l, err := Open(Options{Keys: keys, FS: mem, Dir: dir})
					if err != nil {
						t.Fatal(err)
					}
					mustAppend(t, l, keyspaceEdit(name))
					for range more {
						if dir == "b" {
							mustAppend(t, l, &layout.Edit{DropKeyspaces: []entry.KeyspaceID{1}})
						}
					}
					if closed {
						mustClose(t, l)
					}
				}
				name := filename.Of(filename.Manifest, 1)
				put(t, mem, filepath.Join("a", name), get(t, mem, filepath.Join("b", name)))
				if _, err := Load(Options{Keys: keys, FS: mem, Dir: "a"}); !errors.Is(err, errs.ErrCorrupt) {
					t.Errorf("closed %v, %d edits more: %v, want ErrCorrupt", closed, more, err)
				}
			}
		}
	})
}

// TestFollowerComparesThePredecessor: a manifest that another copy has begun tells which frame was
// the last one of the manifest before. A follower that has read another one, or more, is not
// taken along.
func TestFollowerComparesThePredecessor(t *testing.T) {
	bothKinds(t, func(t *testing.T, keys Keys) {
		for name, edits := range map[string]int{"fewer frames": 0, "another frame": 1} {
			mem := fork(t, keys)
			a, err := Open(Options{Keys: keys, FS: mem, Dir: "a"})
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, a, keyspaceEdit("mine"))
			follower, err := Load(Options{Keys: keys, FS: mem, Dir: "a", ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			before := follower.Layout()
			b, err := Open(Options{Keys: keys, FS: mem, Dir: "b"})
			if err != nil {
				t.Fatal(err)
			}
			for range edits {
				mustAppend(t, b, keyspaceEdit("other"))
			}
			if err := b.Renew(); err != nil {
				t.Fatal(err)
			}
			mustClose(t, b)
			replace(t, mem, "a", "b")
			if err := follower.Refresh(); !errors.Is(err, errs.ErrForeign) || follower.Layout() != before {
				t.Errorf("%s: %v, want ErrForeign", name, err)
			}
		}
	})
}
