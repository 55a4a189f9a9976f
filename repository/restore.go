package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// RestoreOptions are the options of Restore. The zero value is good.
type RestoreOptions struct {
	FS vfs.FS // of the new store; nil = the operating system's
	// Keys are those of an encrypted store. With them Restore opens the new store to check it, as
	// it does with a plain one; nil = it checks the hashes of all files, and no more.
	Keys brock.KeyProvider
	// Progress, unless nil, is called now and then: done of the total bytes of the backup
	// are in the directory.
	Progress func(done, total int64)
}

// Restore makes a store of a backup in dir, which must not exist. The store has all keyspaces
// and all retained history of its source, as of the version of the backup, and the source's
// uuid, as a checkpoint has. id names the backup; "" is the newest one of a repository with
// backups of one store. The store is durable when Restore returns nil.
//
// Restore checks the hash of each object while it copies it. A *brock.CorruptionError names
// an object that is damaged or missing. Restore returns brock.ErrExist if there is something
// under the name dir, brock.ErrKey if RestoreOptions.Keys don't fit the store, and ErrNoBackup if
// there is no such backup. After an error it removes the files that it has written. After a
// crash, remove dir: files may be there, which Open refuses (use MustExist).
func Restore(ctx context.Context, s Store, id, dir string, o RestoreOptions) (info Info, err error) {
	if ctx == nil || s == nil {
		return Info{}, fmt.Errorf("%w: nil", brock.ErrInvalid)
	}
	x, err := findBackup(ctx, s, id)
	if err != nil {
		return Info{}, err
	}
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	r := &restore{from: s, o: o, dir: filepath.Clean(dir), index: x}
	if err := r.restoreBackup(ctx); err != nil {
		return Info{}, fmt.Errorf("repository: restore %s: %w", x.id, err)
	}
	return x.info(), nil
}

// restore is a Restore under way.
type restore struct {
	from  Store
	o     RestoreOptions
	dir   string
	index *index
	fs    vfs.FS // has dir
}

// restoreBackup makes the directory and fills it.
func (r *restore) restoreBackup(ctx context.Context) error {
	if err := manifest.CheckAbsent(r.o.FS, r.dir); err != nil {
		return err
	}
	claim, err := manifest.NewClaim(manifest.Options{FS: r.o.FS, Dir: r.dir}, r.o.FS.OpenDirs)
	if err != nil {
		return err
	}
	r.fs = claim.FS
	// Removes what was written, unless all of it is there.
	return claim.Close(r.writeFiles(ctx))
}

// writeFiles writes the files in the order of the index. The manifest alone looks like a new store:
// so all other files are durable before it is written, and the manifest is before SUPER is.
func (r *restore) writeFiles(ctx context.Context) error {
	done := progress{total: r.index.info().Bytes, report: r.o.Progress}
	for i := range r.index.Files {
		f := &r.index.Files[i]
		if last := len(r.index.Files) - 1 - i; last < 2 {
			if err := r.fs.SyncDir(r.dir); err != nil {
				return err
			}
		}
		if err := r.copyObject(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		done.add(f.Size)
	}
	if err := r.fs.SyncDir(r.dir); err != nil {
		return err
	}
	return r.checkStore(ctx)
}

// copyObject copies an object to a file.
func (r *restore) copyObject(ctx context.Context, f *file) error {
	return pageio.CreateFile(r.fs, filepath.Join(r.dir, f.Name), func(w io.Writer) error { return readObject(ctx, r.from, f, w) })
}

// checkStore opens the store, and compares it with what the index says. Without the keys of an
// encrypted store, it reads no more than SUPER.
func (r *restore) checkStore(ctx context.Context) error {
	super, err := manifest.ReadSuper(r.fs, r.dir)
	if err != nil {
		return err
	}
	// Its manifest is encrypted too, so the version can't be compared.
	if super.Encrypted() && r.o.Keys == nil {
		if hex.EncodeToString(super.UUID[:]) != r.index.Store {
			return r.otherThings()
		}
		return nil
	}
	// The hashes were right, so this finds an index that names files of several backups.
	c, err := checkpoint.OpenCopy(ctx, r.fs, r.dir, r.o.Keys)
	if err != nil {
		return err
	}
	if hex.EncodeToString(c.UUID[:]) != r.index.Store || uint64(c.Layout.LastVersion()) != r.index.Version || len(c.All()) != len(r.index.Files) {
		err = r.otherThings()
	}
	return errors.Join(err, c.Close())
}

// otherThings reports an index that doesn't fit its files.
func (r *restore) otherThings() error {
	return damagedObject(backups+r.index.id, nil, "says other things than the files of the backup")
}

// readObject copies the object of a file to w. At its end it returns an error unless size and hash
// are right.
func readObject(ctx context.Context, s Store, f *file, w io.Writer) (err error) {
	r, err := s.Get(ctx, f.Object)
	if err != nil {
		return explainMissing(f, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	n, err := checkpoint.CopyBytes(ctx, io.MultiWriter(h, w), r, f.Size)
	switch {
	case err != nil:
		return explainMissing(f, err)
	case n != f.Size:
		return damagedObject(f.Object, nil, "has %d bytes or more instead of %d", n, f.Size)
	case hex.EncodeToString(h.Sum(nil)) != f.SHA256:
		return damagedObject(f.Object, nil, "its SHA-256 is wrong")
	}
	return nil
}

// explainMissing returns a *brock.CorruptionError if err says that the object is missing, else err.
func explainMissing(f *file, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return damagedObject(f.Object, err, "is missing")
	}
	return err
}
