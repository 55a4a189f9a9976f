// Package checkpoint makes a store of the files of another one that goes on: files that
// never change get a second name, or are copied where they can't have one.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/vfs"
)

// Source is the store that is copied. All files that its layout names are there and
// synced, and none of them is removed while Write runs.
type Source struct {
	FS       vfs.FS // holds the directories open
	Dir      string
	ValueDir string // may be Dir
	UUID     [16]byte
	Seed     uint64 // of the key hash
	Created  int64  // Unix milliseconds
	Layout   *layout.Layout
	Milli    int64 // when its last version was the newest, in Unix milliseconds
}

// Target is where the copy is made.
type Target struct {
	FS      vfs.FS
	Dir     string
	NoLinks bool // it is another file system than the source's
}

// Absent returns errs.ErrExist if there is something under the name of a directory.
func Absent(fsys vfs.FS, dir string) error {
	_, err := fsys.Stat(filepath.Clean(dir)) // "" is the directory of the process
	switch {
	case err == nil:
		return fmt.Errorf("%w: a checkpoint makes its directory", errs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// writer is a Write under way.
type writer struct {
	Source
	dir    string
	to     vfs.FS // has dir
	share  bool   // to has the directories of the source, too
	copied map[filename.Name]bool
	made   []string // files, in order
}

// Write makes the directory t.Dir, which must not exist, with a store that has the
// layout of s. All of it is durable when Write returns nil. SUPER is written last: what a
// crash leaves before is no store. What an error leaves is removed, as far as that is
// possible.
func Write(ctx context.Context, s Source, t Target) (err error) {
	if err := Absent(t.FS, t.Dir); err != nil {
		return err
	}
	w := &writer{Source: s, dir: filepath.Clean(t.Dir), share: !t.NoLinks, copied: map[filename.Name]bool{}}
	defer func() {
		if err != nil {
			_ = t.FS.Remove(w.dir) // if it is empty
		}
	}()
	if err := manifest.MakeDirs(manifest.Options{FS: t.FS, Dir: w.dir}); err != nil {
		return err
	}
	held, err := w.open(t.FS)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	w.to = held
	path := filepath.Join(w.dir, filename.Of(filename.Lock, 0))
	lock, err := held.Lock(path, false, "")
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, lock.Close()); err != nil {
			_ = held.Remove(path)
		}
	}()
	// Until now another checkpoint may have been at work here.
	if names, err := held.List(w.dir); err != nil || len(names) > 1 {
		return errors.Join(err, fmt.Errorf("%w: %v", errs.ErrExist, names))
	}
	if err := w.write(ctx); err != nil {
		w.undo()
		return err
	}
	return nil
}

// open opens the directory beside those of the source, or else alone.
func (w *writer) open(base vfs.FS) (vfs.Dirs, error) {
	if w.share {
		held, err := w.FS.OpenDirs(w.dir)
		if !errors.Is(err, errors.ErrUnsupported) {
			return held, err
		}
		w.share = false
	}
	return base.OpenDirs(w.dir)
}

// write fills the directory.
func (w *writer) write(ctx context.Context) error {
	for _, name := range w.Layout.Files() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := w.transfer(ctx, name); err != nil {
			return err
		}
	}
	if err := w.verify(ctx); err != nil {
		return err
	}
	// What follows makes a store of the files: no more once the source is closed.
	if err := context.Cause(ctx); err != nil {
		return err
	}
	// The files come first: a manifest alone would pass for a new store.
	if err := w.to.SyncDir(w.dir); err != nil {
		return err
	}
	w.made = append(w.made, filepath.Join(w.dir, filename.Of(filename.Manifest, 1)), filepath.Join(w.dir, filename.Of(filename.Super, 0)))
	o := manifest.Options{FS: w.to, Dir: w.dir}
	return manifest.Write(o, manifest.CreateOptions{UUID: w.UUID, Seed: w.Seed, Created: w.Created}, w.Layout)
}

// undo removes what was made, SUPER first: without it the rest is no store.
func (w *writer) undo() {
	for _, path := range slices.Backward(w.made) {
		_ = w.to.Remove(path)
	}
}

// source is where a file of the store lies.
func (w *writer) source(name filename.Name) string {
	if name.Kind.InValueDir() {
		return filepath.Join(w.ValueDir, name.String())
	}
	return filepath.Join(w.Dir, name.String())
}
