package backup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/keyring"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/view"
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
	w := &restorer{ctx: ctx, keyed: t.Keys != nil, have: make(map[filename.Name]bool)}
	w.options = manifest.Options{FS: t.FS, Dir: t.Dir, ValueDir: t.ValueDir}
	info, err := readAll(ctx, r, t.Keys, w)
	if err == nil {
		err = w.finish()
	}
	if err = w.close(err); err != nil {
		return nil, err
	}
	return info, nil
}

// restorer is a sink that makes files.
type restorer struct {
	ctx     context.Context
	keyed   bool             // Target.Keys is set
	options manifest.Options // FS has the directories once they are claimed

	header  *header // of the last stream
	layout  *layout.Layout
	keyring *keyring.Content // of the last stream; nil: the store is plain
	ring    *crypt.Ring
	claim   *manifest.Claim // nil before the first stream
	have    map[filename.Name]bool

	out vfs.File // the file that is being written; nil: none
	at  int64
}

func (w *restorer) begin(h *header) error {
	if !h.life.IsZero() && !w.keyed {
		return fmt.Errorf("%w: the backup is encrypted, and Keys is nil", errs.ErrKey)
	}
	if w.claim == nil {
		if h.follows != (Digest{}) {
			return fmt.Errorf("%w: this is an increment: the full backup before it comes first", errs.ErrInvalid)
		}
		claim, err := manifest.NewClaim(w.options, nil)
		if err != nil {
			return err
		}
		w.claim, w.options = claim, claim.Options
	}
	w.header = h
	return nil
}

func (w *restorer) keys(c *keyring.Content, r *crypt.Ring) error {
	w.keyring, w.ring = c, r
	return nil
}

func (w *restorer) path(name filename.Name) string {
	return name.In(w.options.Dir, w.options.ValueDir)
}

func (w *restorer) file(f File) (err error) {
	path := w.path(f.Name)
	if w.have[f.Name] { // the stream before had another file of this name
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

func (w *restorer) data(p []byte) error {
	if _, err := w.out.WriteAt(p, w.at); err != nil {
		return err
	}
	w.at += int64(len(p))
	if w.at%writebackBytes == 0 {
		w.out.StartWriteback(w.at-writebackBytes, writebackBytes)
	}
	return nil
}

// zeros leaves a hole in the file.
func (w *restorer) zeros(n int64) error {
	w.at += n
	return nil
}

func (w *restorer) closeFile() error {
	f := w.out
	w.out = nil
	size, err := f.Size()
	if err == nil && size < w.at {
		err = f.Truncate(w.at)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// end removes files of earlier streams that the store, as of this stream, doesn't have.
func (w *restorer) end(i *Info, l *layout.Layout) error {
	w.layout = l
	now := make(map[filename.Name]bool, len(i.Files))
	for _, f := range i.Files {
		now[f.Name] = true
	}
	for name := range w.have {
		if now[name] {
			continue
		}
		if err := w.options.FS.Remove(w.path(name)); err != nil {
			return err
		}
		delete(w.have, name)
	}
	return nil
}

// finish makes a store of the files.
func (w *restorer) finish() error {
	if w.ring != nil {
		if err := w.keyring.Write(w.options.FS, w.options.Dir); err != nil {
			return err
		}
		if err := w.ring.SetCurrent(w.layout.DataKey().ID); err != nil {
			return err
		}
	}
	for _, dir := range []string{w.options.ValueDir, w.options.Dir} {
		if err := w.options.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	if err := w.opens(); err != nil {
		return err
	}
	// What follows makes a store of the files.
	if err := errs.Ended(w.ctx); err != nil {
		return err
	}
	h := w.header
	return manifest.Write(w.options, manifest.CreateOptions{UUID: h.uuid, Ring: w.ring, Seed: h.seed, Created: h.created}, w.layout)
}

// opens opens all files and closes them again, to find what Open would refuse.
func (w *restorer) opens() (err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	open := files.New(files.Config{
		FS: w.options.FS, Dir: w.options.Dir, ValueDir: w.options.ValueDir, UUID: w.header.uuid, Ring: w.ring, Seed: w.header.seed, OpenFiles: openFiles,
	})
	var v view.View
	defer v.Close()
	return open.OpenLayout(w.layout, &v)
}

// close releases the directories. After an error it removes everything that was made.
func (w *restorer) close(err error) error {
	if w.out != nil {
		_ = w.out.Close()
	}
	if w.claim == nil {
		return err
	}
	return w.claim.Close(err)
}
