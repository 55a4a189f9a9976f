package checkpoint

import (
	"context"
	"errors"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// Copy is a store that Write has made and that nobody writes to. It verifies the files of the
// store one by one.
type Copy struct {
	Fileset
	*Verifier
	log *manifest.Log
}

// OpenCopy opens the store that Write has made in a directory. keys is nil for a plain store.
// It reads by FS.Open and ReadAt only, and asks for keys within ctx. It returns errs.ErrKey if
// keys don't fit.
func OpenCopy(ctx context.Context, fsys vfs.FS, dir string, keys keyring.Provider) (*Copy, error) {
	o := manifest.Options{FS: fsys, Dir: dir, ReadOnly: true}
	var content *keyring.Content
	if keys != nil {
		o.Keys = func(uuid [16]byte, _ bool) (*crypt.Ring, error) {
			var err error
			if content, err = keyring.Load(fsys, dir, uuid); err != nil {
				return nil, err
			}
			return content.Ring(keyring.Within(ctx, keys))
		}
	}
	log, err := manifest.Load(o)
	if err != nil {
		return nil, err
	}
	super := log.Super()
	c := &Copy{log: log, Fileset: Fileset{
		Store: filename.Store{FS: fsys, Dir: dir, ValueDir: dir, UUID: super.UUID, Ring: log.Ring(), Seed: super.Seed},
		Keys:  content, Created: super.Created, Layout: log.Layout(),
	}}
	c.Verifier = NewVerifier(c.Fileset)
	// Find now what a restore of this copy would find too late.
	if err := c.Open(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return c, nil
}

// All lists all files of the store but the lock. The manifest and then SUPER are last: files that
// are written in this order are no store until all of them are there.
func (c *Copy) All() []layout.File {
	list := slices.Collect(c.Layout.Files())
	if c.Keys != nil {
		list = append(list, layout.File{Name: filename.New(filename.Keyring, c.Keys.Number)})
	}
	return append(list, layout.File{Name: filename.New(filename.Manifest, c.log.Super().Manifest)}, layout.File{Name: filename.New(filename.Super, 0)})
}

// Verify reads one of All the files whole, and checks every checksum of it.
func (c *Copy) Verify(ctx context.Context, f layout.File) error {
	var found *errs.Corruption
	switch f.Kind {
	case filename.Keyring:
		return keyring.Verify(c.FS, c.Dir, c.UUID, f.Number)
	case filename.Manifest, filename.Super:
		err := c.log.Verify(func(d *errs.Corruption) { found = d })
		if found != nil {
			return found
		}
		return err
	}
	return c.File(f, func(int64) error { return errs.Ended(ctx) })
}

// Close closes the files.
func (c *Copy) Close() error {
	c.Verifier.Close()
	return c.log.Close()
}
