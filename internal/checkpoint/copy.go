package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/keyring"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/vfs"
)

// Copy is a store that Write has made and that nobody writes to. It verifies the files of the
// store one by one.
type Copy struct {
	UUID    [16]byte
	Version uint64 // of the newest commit

	fs     vfs.FS
	dir    string
	log    *manifest.Log
	keys   *keyring.Keyring // nil: the store is plain
	layout *layout.Layout
	verify *Verifier
}

// OpenCopy opens the store that Write has made in a directory. keys is nil for a plain store.
// It reads by FS.Open and ReadAt only, and asks for keys within ctx. It returns errs.ErrKey if
// keys don't fit.
func OpenCopy(ctx context.Context, fsys vfs.FS, dir string, keys keyring.Provider) (*Copy, error) {
	o := manifest.Options{FS: fsys, Dir: dir, ReadOnly: true}
	var ring *keyring.Keyring
	if keys != nil {
		o.Keys = func(uuid [16]byte, _ bool) (_ *crypt.Ring, err error) {
			if ring, err = keyring.Open(keyring.Options{FS: fsys, Dir: dir, UUID: uuid, Keys: keyring.Within(ctx, keys)}); err != nil {
				return nil, err
			}
			return ring.Ring(), nil
		}
	}
	log, err := manifest.Load(o)
	if err != nil {
		return nil, err
	}
	super, l := log.Super(), log.Layout()
	c := &Copy{UUID: super.UUID, Version: uint64(l.LastVersion()), fs: fsys, dir: dir, log: log, keys: ring, layout: l}
	c.verify = NewVerifier(Fileset{FS: fsys, Dir: dir, ValueDir: dir, UUID: super.UUID, Ring: log.Ring(), Seed: super.Seed, Layout: l})
	if err := c.verify.Open(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return c, nil
}

// Files lists all files of the store but the lock. The manifest and then SUPER are last: files
// that are written in this order are no store until all of them are there.
func (c *Copy) Files() (list []filename.Name) {
	for f := range c.layout.Files() {
		list = append(list, f.Name)
	}
	if c.keys != nil {
		list = append(list, filename.New(filename.Keyring, c.keys.Content().Number))
	}
	return append(list, filename.New(filename.Manifest, c.log.Super().Manifest), filename.New(filename.Super, 0))
}

// Verify reads one of the Files whole, and checks every checksum of it.
func (c *Copy) Verify(ctx context.Context, name filename.Name) error {
	var found *errs.Corruption
	switch name.Kind {
	case filename.Keyring:
		return keyring.Verify(c.fs, c.dir, c.UUID, name.Number)
	case filename.Manifest, filename.Super:
		err := c.log.Verify(func(d *errs.Corruption) { found = d })
		if found != nil {
			return found
		}
		return err
	}
	for f := range c.layout.Files() {
		if f.Name == name {
			return c.verify.File(f, func(int64) error { return errs.Ended(ctx) })
		}
	}
	return fmt.Errorf("%w: %s is no file of the store", errs.ErrInvalid, name)
}

// Close closes the files.
func (c *Copy) Close() error {
	c.verify.Close()
	return c.log.Close()
}
