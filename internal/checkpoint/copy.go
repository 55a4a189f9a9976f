package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/keyring"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// Copy is a store that Write has made and that nobody writes to. It verifies the files of the
// store one by one.
type Copy struct {
	UUID    [16]byte
	Version uint64 // of the newest commit

	fs       vfs.FS
	dir      string
	log      *manifest.Log    // nil while Write verifies its own copy
	keys     *keyring.Keyring // nil: the store is plain
	layout   *layout.Layout
	open     *files.Opener
	view     view.View
	runs     map[filename.Name]*view.Run
	segments map[filename.Name]*view.Segment
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
	super := log.Super()
	c, err := newCopy(fsys, dir, super.UUID, super.Seed, log.Layout(), log.Ring())
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	c.log, c.keys = log, ring
	return c, nil
}

// verifyFiles is how many files verification may have open.
const verifyFiles = 64

// newCopy opens the files of a layout.
func newCopy(fsys vfs.FS, dir string, uuid [16]byte, seed uint64, l *layout.Layout, ring *crypt.Ring) (*Copy, error) {
	c := &Copy{
		UUID: uuid, Version: uint64(l.LastVersion()), fs: fsys, dir: dir, layout: l,
		open: files.New(files.Config{FS: fsys, Dir: dir, ValueDir: dir, UUID: uuid, Ring: ring, Seed: seed, NoMap: true, OpenFiles: verifyFiles}),
		runs: map[filename.Name]*view.Run{}, segments: map[filename.Name]*view.Segment{},
	}
	if err := c.open.OpenLayout(l, &c.view); err != nil {
		c.view.Close()
		return nil, err
	}
	for _, r := range c.view.Runs {
		for _, file := range r.Meta().Files {
			c.runs[filename.New(filename.Run, file.Num)] = r
		}
	}
	for _, f := range c.view.Segments.Files {
		if f.Moved != nil {
			c.segments[filename.New(filename.Remap, f.Moved.Header().Number)] = f
		} else {
			c.segments[filename.New(f.Header().Kind, f.Num)] = f
		}
	}
	return c, nil
}

// Files lists all files of the store but the lock. The manifest and then SUPER are last: files
// that are written in this order are no store until all of them are there.
func (c *Copy) Files() []filename.Name {
	var list []filename.Name
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
	return c.verifyFile(ctx, name)
}

// Close closes the files.
func (c *Copy) Close() error {
	c.view.Close()
	return c.log.Close()
}

// verifyBytes is how many bytes are verified between two looks at the context.
const verifyBytes = 16 << 20

func (c *Copy) verifyFile(ctx context.Context, name filename.Name) error {
	if r := c.runs[name]; r != nil {
		return verifyRun(ctx, r, name)
	}
	f := c.segments[name]
	if f == nil {
		return fmt.Errorf("%w: %s is no file of the store", errs.ErrInvalid, name)
	}
	if f.Moved != nil {
		return f.Moved.Verify(c.open.Segments())
	}
	done := false
	for at := new(segment.Scrubbed); !done; {
		var err error
		if done, err = f.Scrub(c.open.Segments(), at, verifyBytes); err != nil {
			return err
		}
		if err := errs.Ended(ctx); err != nil {
			return err
		}
	}
	return nil
}

func verifyRun(ctx context.Context, r *view.Run, name filename.Name) error {
	var found *errs.Corruption
	done := false
	for at := int64(0); !done; {
		at, done = r.Scrub(name.Number, at, verifyBytes, func(c *errs.Corruption) { found = c })
		if found != nil {
			return found
		}
		if err := errs.Ended(ctx); err != nil {
			return err
		}
	}
	return nil
}
