package checkpoint

import (
	"context"
	"errors"
	"fmt"

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
	log    *manifest.Log
	files  map[filename.Name]layout.File // by name
	verify *Verifier
}

// OpenCopy opens the store that Write has made in a directory. keys is nil for a plain store.
// It reads by FS.Open and ReadAt only, and asks for keys within ctx. It returns errs.ErrKey if
// keys don't fit.
func OpenCopy(ctx context.Context, fsys vfs.FS, dir string, keys keyring.Provider) (*Copy, error) {
	o := manifest.Options{FS: fsys, Dir: dir, ReadOnly: true}
	var content *keyring.Content
	if keys != nil {
		o.Keys = func(uuid [16]byte, _ bool) (*crypt.Ring, error) {
			k, err := keyring.Open(keyring.Options{FS: fsys, Dir: dir, UUID: uuid, Keys: keyring.Within(ctx, keys)})
			if err != nil {
				return nil, err
			}
			content = k.Content()
			return k.Ring(), nil
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
	c.files = make(map[filename.Name]layout.File)
	for f := range c.Layout.Files() {
		c.files[f.Name] = f
	}
	c.verify = NewVerifier(c.Fileset)
	// Find now what a restore of this copy would find too late.
	if err := c.verify.Open(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return c, nil
}

// Files lists all files of the store but the lock. The manifest and then SUPER are last: files
// that are written in this order are no store until all of them are there.
func (c *Copy) Files() (list []filename.Name) {
	for f := range c.Layout.Files() {
		list = append(list, f.Name)
	}
	if c.Keys != nil {
		list = append(list, filename.New(filename.Keyring, c.Keys.Number))
	}
	return append(list, filename.New(filename.Manifest, c.log.Super().Manifest), filename.New(filename.Super, 0))
}

// Verify reads one of the Files whole, and checks every checksum of it.
func (c *Copy) Verify(ctx context.Context, name filename.Name) error {
	var found *errs.Corruption
	switch name.Kind {
	case filename.Keyring:
		return keyring.Verify(c.FS, c.Dir, c.UUID, name.Number)
	case filename.Manifest, filename.Super:
		err := c.log.Verify(func(d *errs.Corruption) { found = d })
		if found != nil {
			return found
		}
		return err
	}
	f, ok := c.files[name]
	if !ok {
		return fmt.Errorf("%w: %s is no file of the store", errs.ErrInvalid, name)
	}
	return c.verify.File(f, func(int64) error { return errs.Ended(ctx) })
}

// Ends is Verifier.Ends.
func (c *Copy) Ends(f vfs.File, name filename.Name, size int64) (ends []byte, sealed bool, err error) {
	return c.verify.Ends(f, name, size)
}

// Close closes the files.
func (c *Copy) Close() error {
	c.verify.Close()
	return c.log.Close()
}
