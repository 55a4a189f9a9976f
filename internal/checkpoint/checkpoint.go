// Package checkpoint makes a copy of a store while that goes on. Files that never change get a
// second name (a hard link), or are copied where they can't have one.
package checkpoint

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/keyring"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/vfs"
)

// Source is the store that is copied. FS has all files that its layout names, and they stay
// while Write runs.
type Source struct {
	FS       vfs.FS // holds the directories open
	Dir      string
	ValueDir string // may be Dir
	UUID     [16]byte
	Ring     *crypt.Ring      // nil: the store is plain
	Keys     *keyring.Content // has the data keys of the layout; nil: the store is plain
	Seed     uint64           // of the key hash
	Created  int64            // Unix milliseconds
	Layout   *layout.Layout
	Milli    int64 // when its last version was the newest, in Unix milliseconds
	// Lone are files that only FS has as they are. They are copied and never linked: one is in
	// memory, or it goes on growing on the disk.
	Lone map[filename.Name]bool
}

// Target is where the copy is made.
type Target struct {
	FS      vfs.FS
	Dir     string
	NoLinks bool // it is another file system than the source's
}

// writer is a Write under way.
type writer struct {
	Source
	dir    string
	to     vfs.FS // has dir
	share  bool   // to also has the directories of the source, so that files can be linked
	copied map[filename.Name]bool
}

// Write makes the directory t.Dir, which must not exist, and in it a store with the layout of s.
// All of it is durable when Write returns nil. SUPER is written last: before that, what a crash
// leaves is no store. After an error Write removes what it has made, as far as that is possible.
func Write(ctx context.Context, s Source, t Target) error {
	if err := manifest.Absent(t.FS, t.Dir); err != nil {
		return err
	}
	w := &writer{Source: s, dir: filepath.Clean(t.Dir), share: !t.NoLinks, copied: map[filename.Name]bool{}}
	claim, err := manifest.NewClaim(manifest.Options{FS: t.FS, Dir: w.dir}, func(dirs ...string) (vfs.Dirs, error) {
		return w.open(t.FS, dirs)
	})
	if err != nil {
		return err
	}
	w.to = claim.FS
	return claim.Close(w.write(ctx))
}

// open opens the directory together with those of the source, so that files can be linked, or
// alone if that is not supported.
func (w *writer) open(base vfs.FS, dirs []string) (vfs.Dirs, error) {
	if w.share {
		held, err := w.FS.OpenDirs(dirs...)
		if !errors.Is(err, errors.ErrUnsupported) {
			return held, err
		}
		w.share = false
	}
	return base.OpenDirs(dirs...)
}

// write fills the directory.
func (w *writer) write(ctx context.Context) error {
	for f := range w.Layout.Files() {
		name := f.Name
		if err := errs.Ended(ctx); err != nil {
			return err
		}
		if err := w.transfer(ctx, name); err != nil {
			return err
		}
	}
	if err := w.verify(ctx); err != nil {
		return err
	}
	if err := w.copyKeys(); err != nil {
		return err
	}
	// What follows makes a store of the files. Don't do that once the source is closed.
	if err := errs.Ended(ctx); err != nil {
		return err
	}
	// The files come first: a manifest alone looks like a new store.
	if err := w.to.SyncDir(w.dir); err != nil {
		return err
	}
	o := manifest.Options{FS: w.to, Dir: w.dir}
	return manifest.Write(o, manifest.CreateOptions{UUID: w.UUID, Ring: w.Ring, Seed: w.Seed, Created: w.Created}, w.Layout)
}

// copyKeys writes the keyring of the store.
func (w *writer) copyKeys() error {
	if w.Keys == nil {
		return nil
	}
	return w.Keys.Write(w.to, w.dir)
}
