package repository

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strings"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// Dir returns the repository in a directory. The first Put makes the directory. fsys is the
// file system; nil = the operating system's. Several machines may use the directory, if its
// file system renames files atomically. While the directory has no space, Backup returns
// brock.ErrNoSpace; what it has stored by then the next Backup uses.
func Dir(fsys vfs.FS, path string) Deleter {
	if fsys == nil {
		fsys = vfs.OS()
	}
	return &dir{fsys, filepath.Clean(path)}
}

// dir has an object "a/b" in the file a/b below root.
type dir struct {
	fs   vfs.FS
	root string
}

// kinds are the directories of a repository.
var kinds = [...]string{backups, objects, unused}

// objectPath returns the path of an object. It refuses names that would lead out of the repository.
func (d *dir) objectPath(name string) (string, error) {
	kind, base, _ := strings.Cut(name, "/")
	for _, k := range kinds {
		if kind+"/" == k && base != "" && filepath.Base(base) == base && filepath.IsLocal(base) {
			return filepath.Join(d.root, kind, base), nil
		}
	}
	return "", fmt.Errorf("%w: %q is no name of an object", brock.ErrInvalid, name)
}

// partSuffix ends the name of an object that is not complete.
const partSuffix = ".part"

// Put writes a file under a temporary name, syncs and renames it. Before it renames an index, it
// makes the names of all objects durable. On a full disk, or at the end of a quota, the error is
// brock.ErrNoSpace.
func (d *dir) Put(ctx context.Context, name string, r io.Reader, size int64) (err error) {
	defer func() { err = vfs.NoSpace(err) }()
	path, err := d.objectPath(name)
	if err != nil {
		return err
	}
	if err := manifest.MakeDirs(manifest.Options{FS: d.fs, Dir: filepath.Dir(path)}); err != nil {
		return err
	}
	// Another program may be putting the same object: each has a file of its own.
	part := path + "-" + rand.Text()[:8] + partSuffix
	err = pageio.CreateFile(d.fs, part, func(w io.Writer) error {
		n, err := checkpoint.CopyBytes(ctx, w, r, size)
		if err == nil && n != size {
			err = fmt.Errorf("%w: %d bytes or more instead of %d", io.ErrUnexpectedEOF, n, size)
		}
		return err
	})
	if err == nil && strings.HasPrefix(name, backups) {
		// The index may name objects of a Backup that was killed before it had synced their names.
		if err = d.fs.SyncDir(filepath.Join(d.root, objects)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		// The file is synced: the name never means half an object.
		err = d.fs.Rename(part, path)
	}
	if err != nil {
		_ = d.fs.Remove(part)
		return err
	}
	return d.fs.SyncDir(filepath.Dir(path))
}

// Get opens the file.
func (d *dir) Get(_ context.Context, name string) (io.ReadCloser, error) {
	path, err := d.objectPath(name)
	if err != nil {
		return nil, err
	}
	f, err := d.fs.Open(path)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, 0, math.MaxInt64), f}, nil
}

// List reads the directories. The time of an object is that of the last write to its file.
func (d *dir) List(ctx context.Context, prefix string, fn func(Object) error) error {
	for _, kind := range kinds {
		// A prefix may be shorter than a kind, or go on behind it.
		if !strings.HasPrefix(kind, prefix) && !strings.HasPrefix(prefix, kind) {
			continue
		}
		names, err := d.fs.List(filepath.Join(d.root, kind))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, base := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !strings.HasPrefix(kind+base, prefix) {
				continue
			}
			info, err := d.fs.Stat(filepath.Join(d.root, kind, base))
			if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir {
				continue // it was removed meanwhile, or is nothing of ours
			}
			if err == nil {
				err = fn(Object{Name: kind + base, Size: info.Size, Time: info.ModTime})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Delete removes the file.
func (d *dir) Delete(_ context.Context, name string) error {
	path, err := d.objectPath(name)
	if err != nil {
		return err
	}
	// Two Prunes may delete one object: the second has nothing to do.
	if err := d.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Prune deletes a mark after its objects. A crash must not bring an object back without the
	// mark.
	if err := d.fs.SyncDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
