package backup

import (
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
	w := &restorer{keyed: t.Keys != nil, have: make(map[filename.Name]bool)}
	w.options = manifest.Options{FS: t.FS, Dir: t.Dir, ValueDir: t.ValueDir}
	from := newReader(ctx, r, t.Keys, w)
	info, err := from.readStreams()
	if err == nil {
		err = w.finishStore(ctx, &from.incoming)
	}
	// The locks are held until SUPER is durable: nobody opens a half-made store.
	if err = w.releaseDirs(err); err != nil {
		return nil, err
	}
	return info, nil
}

// restorer is a sink that makes files.
type restorer struct {
	keyed   bool                   // Target.Keys is set
	options manifest.Options       // FS has the directories once they are claimed
	claim   *manifest.Claim        // nil before the first stream
	have    map[filename.Name]bool // files that are there

	out vfs.File // the file that is being written; nil: none
	at  int64    // offset in out
}

// beginStore implements sink. The first stream claims the directories.
func (w *restorer) beginStore(h *header) error {
	if !h.keyID.IsZero() && !w.keyed {
		return fmt.Errorf("%w: the backup is encrypted, and Keys is nil", errs.ErrKey)
	}
	// Not before a whole header was read: what is no backup makes no directory.
	if w.claim == nil {
		if h.follows != (Digest{}) {
			return fmt.Errorf("%w: this is an increment: the full backup before it comes first", errs.ErrInvalid)
		}
		claim, err := manifest.NewClaim(w.options, w.options.FS.OpenDirs)
		if err != nil {
			return err
		}
		w.claim, w.options = claim, claim.Options
	}
	return nil
}

// beginFile implements sink. It makes the file.
func (w *restorer) beginFile(f File) (err error) {
	path := f.Name.In(w.options.Dir, w.options.ValueDir)
	if w.have[f.Name] { // the stream before had another file of this name
		// Never written over: Create refuses a name that is there, so a bug can't mix two files.
		if err := w.options.FS.Remove(path); err != nil {
			return err
		}
		delete(w.have, f.Name)
	}
	if w.out, err = w.options.FS.Create(path); err == nil {
		w.have[f.Name], w.at = true, 0
	}
	return err
}

// writebackBytes is how many bytes are written before the disk is asked to begin with them.
const writebackBytes = 8 << 20

// addData implements sink. It writes the bytes.
func (w *restorer) addData(p []byte) error {
	if _, err := w.out.WriteAt(p, w.at); err != nil {
		return err
	}
	w.at += int64(len(p))
	if w.at%writebackBytes == 0 {
		w.out.StartWriteback(w.at-writebackBytes, writebackBytes)
	}
	return nil
}

// addZeros leaves a hole in the file.
func (w *restorer) addZeros(n int64) error {
	w.at += n
	return nil
}

// closeFile implements sink. It makes the file durable.
func (w *restorer) closeFile() error {
	f := w.out
	w.out = nil
	size, err := f.Size()
	if err == nil && size < w.at {
		// It ends with zeros, of which none was written.
		err = f.Truncate(w.at)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// endStore removes files of earlier streams that the store, as of this stream, doesn't have.
func (w *restorer) endStore(i *Info) error {
	now := i.byName()
	for name := range w.have {
		if _, there := now[name]; there {
			continue
		}
		if err := w.options.FS.Remove(name.In(w.options.Dir, w.options.ValueDir)); err != nil {
			return err
		}
		delete(w.have, name)
	}
	return nil
}

// finishStore makes a store of the files, which are those of the last stream.
func (w *restorer) finishStore(ctx context.Context, last *incoming) error {
	made := checkpoint.Fileset{
		Store: filename.Store{
			FS: w.options.FS, Dir: w.options.Dir, ValueDir: w.options.ValueDir, UUID: last.header.uuid, Ring: last.ring, Seed: last.header.seed,
		},
		Keys: last.content, Created: last.header.created, Layout: last.layout,
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
	return made.Finish(ctx)
}

// releaseDirs releases the directories. After an error it removes everything that was made.
func (w *restorer) releaseDirs(err error) error {
	if w.out != nil {
		_ = w.out.Close()
	}
	if w.claim == nil {
		return err
	}
	return w.claim.Close(err)
}
