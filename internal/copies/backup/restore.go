package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// Target is where a store is restored: directories that are empty, or don't exist.
type Target struct {
	FS       vfs.FS
	Dir      string
	ValueDir string           // may be Dir; "" = Dir
	Keys     keyring.Provider // of an encrypted store; nil: it is plain
}

// Restore reads a full stream, and the increments that follow it in r, and makes the store of
// the last one. All of it is durable when Restore returns nil. SUPER is written last: before
// that, what a crash leaves is no store. After an error Restore removes what it has made, as far
// as that is possible. It returns errs.ErrExist if a directory is not empty, and the errors of
// Verify.
func Restore(ctx context.Context, r io.Reader, t Target) (*Info, error) {
	d := &reader{ctx: ctx, r: bufio.NewReaderSize(r, readBuffer), to: t}
	info, err := d.readStreams()
	if err == nil {
		err = d.finishStore()
	}
	if d.out != nil {
		_ = d.out.Close()
	}
	if d.claim != nil {
		// The locks are held until SUPER is durable: nobody opens a half-made store.
		err = d.claim.Close(err)
	}
	if err != nil {
		return nil, err
	}
	return info, nil
}

// claimDirs claims the directories for the first stream.
func (d *reader) claimDirs(h *header) (err error) {
	switch {
	case !h.KeyID.IsZero() && d.to.Keys == nil:
		return fmt.Errorf("%w: the backup is encrypted, and Keys is nil", errs.ErrKey)
	case d.claim != nil:
		return nil
	case h.Follows != Digest{}:
		return fmt.Errorf("%w: this is an increment: the full backup before it comes first", errs.ErrInvalid)
	}
	// Not before a whole header was read: what is no backup makes no directory.
	d.claim, err = manifest.NewClaim(manifest.Options{FS: d.to.FS, Dir: d.to.Dir, ValueDir: d.to.ValueDir}, d.to.FS.OpenDirs)
	return err
}

// filePath returns the path of a file of the new store.
func (d *reader) filePath(name filename.Name) string {
	return name.In(d.claim.Options.Dir, d.claim.Options.ValueDir)
}

// createFile makes the present file.
func (d *reader) createFile() (err error) {
	if d.claim == nil {
		return nil
	}
	path := d.filePath(d.file.Name)
	if _, other := d.had[d.file.Name]; other {
		// Never written over: Create refuses a name that is there, so a bug can't mix two files.
		if err := d.claim.FS.Remove(path); err != nil {
			return err
		}
	}
	d.out, err = d.claim.FS.Create(path)
	return err
}

// writebackBytes is how many bytes are written before the disk is asked to begin with them.
const writebackBytes = 8 << 20

// writeData writes bytes of the present file.
func (d *reader) writeData(p []byte, at int64) error {
	if d.out == nil {
		return nil
	}
	if _, err := d.out.WriteAt(p, at); err != nil {
		return err
	}
	if to := at + int64(len(p)); to%writebackBytes == 0 {
		d.out.StartWriteback(to-writebackBytes, writebackBytes)
	}
	return nil
}

// closeFile makes the present file durable.
func (d *reader) closeFile() error {
	f := d.out
	if f == nil {
		return nil
	}
	d.out = nil
	size, err := f.Size()
	if err == nil && size < d.file.Size {
		// It ends with zeros, of which none was written.
		err = f.Truncate(d.file.Size)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// removeOld removes files of the stream before that the store, as of this one, doesn't have.
func (d *reader) removeOld() error {
	if d.claim == nil {
		return nil
	}
	for name := range d.had {
		if d.there[name] {
			continue
		}
		if err := d.claim.FS.Remove(d.filePath(name)); err != nil {
			return err
		}
	}
	return nil
}

// finishStore makes a store of the files, which are those of the last stream.
func (d *reader) finishStore() error {
	o, h := d.claim.Options, d.header
	made := checkpoint.Fileset{
		Store: filename.Store{FS: o.FS, Dir: o.Dir, ValueDir: o.ValueDir, UUID: h.UUID, Ring: d.ring, Seed: h.Seed},
		Keys:  d.content, Created: h.Created, Layout: d.layout,
	}
	if made.Ring != nil {
		// Finish encrypts the manifest and SUPER under this key.
		if err := made.Ring.SetCurrent(made.Layout.DataKey().ID); err != nil {
			return err
		}
	}
	// All checksums of the stream were right. This finds a backup that was made of wrong files.
	if err := checkpoint.NewVerifier(made).Open(); err != nil {
		return err
	}
	return made.Finish(d.ctx)
}
