// Package checkpoint copies a store while that goes on. A copy is a Fileset: the files of the store
// as of one version. Write makes a directory of it; package backup makes a stream. Both verify what
// they copy by a Verifier, and what is made of a copy becomes a store by Finish.
package checkpoint

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// Fileset is the files of a store as of one version. FS has all files that the layout names,
// holds their directories open, and they stay while they are copied.
type Fileset struct {
	filename.Store
	Keys    *keyring.Content // has the data keys of the layout; nil: the store is plain
	Created int64            // when the store was made, in Unix milliseconds
	Layout  *layout.Layout
	Milli   int64 // when its last version was the newest, in Unix milliseconds
	// Lone are files that only FS has as they are. They are copied and never linked: one is in
	// memory, or it goes on growing on the disk.
	Lone map[filename.Name]bool
}

// LoadKeys sets Keys, if the store is encrypted.
func (s *Fileset) LoadKeys() (err error) {
	if s.Ring != nil {
		s.Keys, err = keyring.Load(s.FS, s.Dir, s.UUID)
	}
	return err
}

// Finish makes a store of the files, once they are there and synced. All of it is durable when
// Finish returns nil. SUPER is written last: before that, what a crash leaves is no store.
func (s *Fileset) Finish(ctx context.Context) error {
	if s.Keys != nil {
		// Durable before SUPER says that the store is encrypted.
		if err := s.Keys.Write(s.FS, s.Dir); err != nil {
			return err
		}
	}
	// The files come first: a manifest alone looks like a new store.
	for _, dir := range slices.Compact([]string{s.ValueDir, s.Dir}) {
		if err := s.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	// What follows makes a store of the files. Don't do that once the source is closed.
	if err := errs.Ended(ctx); err != nil {
		return err
	}
	o := manifest.Options{FS: s.FS, Dir: s.Dir, ValueDir: s.ValueDir}
	return manifest.WriteStore(o, manifest.CreateOptions{UUID: s.UUID, Ring: s.Ring, Seed: s.Seed, Created: s.Created}, s.Layout)
}

// Target is where a checkpoint is made.
type Target struct {
	FS      vfs.FS
	Dir     string
	NoLinks bool // it is another file system than the source's
}

// writer is a Write under way.
type writer struct {
	from, to Fileset
	share    bool // to.FS has the directories of from, too: files can be linked
}

// Write makes the directory t.Dir, which must not exist, and in it a store with the layout of s:
// see Fileset.Finish. After an error Write removes what it has made, as far as that is possible.
func Write(ctx context.Context, s Fileset, t Target) error {
	if err := manifest.CheckAbsent(t.FS, t.Dir); err != nil {
		return err
	}
	w := &writer{from: s, to: s, share: !t.NoLinks}
	w.to.Dir = filepath.Clean(t.Dir)
	w.to.ValueDir = w.to.Dir
	claim, err := manifest.NewClaim(manifest.Options{FS: t.FS, Dir: w.to.Dir}, func(dirs ...string) (held vfs.Dirs, err error) {
		// Together with those of the source, so that files can be linked; alone if that is not
		// supported.
		if w.share {
			held, err = s.FS.OpenDirs(dirs...)
			w.share = !errors.Is(err, errors.ErrUnsupported)
		}
		if !w.share {
			held, err = t.FS.OpenDirs(dirs...)
		}
		return held, err
	})
	if err != nil {
		return err
	}
	w.to.FS = claim.FS
	// Removes everything if a file could not be made.
	return claim.Close(w.writeFiles(ctx))
}

// writeFiles fills the directory. It checks every checksum of the files that were copied, as the
// copy has them.
func (w *writer) writeFiles(ctx context.Context) error {
	var copied []layout.File
	for f := range w.from.Layout.Files() {
		if err := errs.Ended(ctx); err != nil {
			return err
		}
		linked, err := w.transferFile(ctx, f.Name)
		if err != nil {
			return err
		}
		// A linked file is the source's own: its scrub verifies it.
		if !linked {
			copied = append(copied, f)
		}
	}
	v := NewVerifier(w.to)
	defer v.Close()
	for _, f := range copied {
		if err := v.File(f, func(int64) error { return errs.Ended(ctx) }); err != nil {
			return err
		}
	}
	return w.to.Finish(ctx)
}
