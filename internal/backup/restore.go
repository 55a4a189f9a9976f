package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/files"
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
	ValueDir string // may be Dir
}

// Restore reads a full stream, and those increments that follow it in r, and makes the
// store of the last one. All of it is durable when Restore returns nil. SUPER is written
// last: what a crash leaves before is no store. What an error leaves is removed, as far as
// that is possible. It returns errs.ErrExist if a directory is not empty, and the errors of
// Verify.
func Restore(ctx context.Context, r io.Reader, t Target) (*Info, error) {
	w := &restorer{ctx: ctx, base: t.FS, dirs: []string{filepath.Clean(t.Dir)}, have: make(map[filename.Name]bool)}
	if values := filepath.Clean(t.ValueDir); values != w.dirs[0] {
		w.dirs = append(w.dirs, values)
	}
	info, err := readAll(ctx, r, w)
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
	ctx  context.Context
	base vfs.FS
	dirs []string // the store's, then that of values if it is another one

	header *header // of the last stream
	layout *layout.Layout
	fs     vfs.Dirs // has the directories; nil before the first stream
	locks  []io.Closer
	ours   int      // directories that are locked, and were empty then
	made   []string // directories that were not there
	have   map[filename.Name]bool
	last   []string // files that make a store of the others

	out vfs.File // that is being written
	at  int64
}

func (w *restorer) begin(h *header) error {
	if w.fs == nil {
		if h.follows != (Digest{}) {
			return fmt.Errorf("%w: this is an increment: the full backup before it comes first", errs.ErrInvalid)
		}
		if err := w.prepare(); err != nil {
			return err
		}
	}
	w.header = h
	return nil
}

// prepare makes the directories, or sees that they are empty, and locks them.
func (w *restorer) prepare() error {
	for _, dir := range w.dirs {
		if err := w.vacant(w.base, dir); err != nil {
			return err
		}
		if _, err := w.base.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			w.made = append(w.made, dir)
		}
	}
	if err := manifest.MakeDirs(w.options(w.base)); err != nil {
		return err
	}
	held, err := w.base.OpenDirs(w.dirs...)
	if err != nil {
		return err
	}
	w.fs = held
	for _, dir := range w.dirs {
		lock, err := held.Lock(filepath.Join(dir, filename.Of(filename.Lock, 0)), false, "")
		if err != nil {
			return err
		}
		w.locks = append(w.locks, lock)
		// Until now another process may have been at work here.
		if err := w.vacant(held, dir); err != nil {
			return err
		}
		w.ours++
	}
	return nil
}

// vacant returns errs.ErrExist if there is anything in a directory, but the other one.
func (w *restorer) vacant(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.Contains(names, filename.Of(filename.Super, 0)) {
		return fmt.Errorf("%w: restore makes a new one", errs.ErrExist)
	}
	for _, base := range names {
		if base == filename.Of(filename.Lock, 0) || manifest.Harmless(base) || w.leads(filepath.Join(dir, base)) {
			continue
		}
		return fmt.Errorf("%w: %s holds %s: a restore wants an empty directory; if one was cut here before, remove the directory", errs.ErrExist, dir, base)
	}
	return nil
}

// leads reports whether path is one of the directories, or one of them lies below it.
func (w *restorer) leads(path string) bool {
	return slices.ContainsFunc(w.dirs, func(dir string) bool {
		return strings.HasPrefix(dir+string(filepath.Separator), path+string(filepath.Separator))
	})
}

func (w *restorer) options(fsys vfs.FS) manifest.Options {
	o := manifest.Options{FS: fsys, Dir: w.dirs[0]}
	if len(w.dirs) > 1 {
		o.ValueDir = w.dirs[1]
	}
	return o
}

func (w *restorer) path(name filename.Name) string {
	dir := w.dirs[0]
	if name.Kind.InValueDir() {
		dir = w.dirs[len(w.dirs)-1]
	}
	return filepath.Join(dir, name.String())
}

func (w *restorer) file(f File) (err error) {
	path := w.path(f.Name)
	if w.have[f.Name] { // the stream before had another file of this name
		if err := w.fs.Remove(path); err != nil {
			return err
		}
		delete(w.have, f.Name)
	}
	if w.out, err = w.fs.Create(path); err == nil {
		w.have[f.Name], w.at = true, 0
	}
	return err
}

// writebackBytes is how much is written before the disk is asked to begin with it.
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

// zeros leaves a hole, where the file system has any.
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

// end removes files of earlier streams that the store of this stream doesn't have.
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
		if err := w.fs.Remove(w.path(name)); err != nil {
			return err
		}
		delete(w.have, name)
	}
	return nil
}

// finish makes a store of the files.
func (w *restorer) finish() error {
	for _, dir := range w.dirs {
		if err := w.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	if err := w.opens(); err != nil {
		return err
	}
	// What follows makes a store of the files.
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	for _, dir := range w.dirs {
		w.last = append(w.last, filepath.Join(dir, filename.Of(filename.Super, 0)))
	}
	w.last = append(w.last, filepath.Join(w.dirs[0], filename.Of(filename.Manifest, 1)))
	h := w.header
	return manifest.Write(w.options(w.fs), manifest.CreateOptions{UUID: h.uuid, Seed: h.seed, Created: h.created}, w.layout)
}

// opens opens all files and closes them again, to find what Open would refuse.
func (w *restorer) opens() (err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	open := files.New(files.Config{
		FS: w.fs, Dir: w.dirs[0], ValueDir: w.dirs[len(w.dirs)-1], UUID: w.header.uuid, Seed: w.header.seed, OpenFiles: openFiles,
	}, nil)
	var v view.View
	defer v.Close()
	return open.OpenLayout(w.layout, &v)
}

// close releases locks and directories. After an error it removes all that was made.
func (w *restorer) close(err error) error {
	if w.out != nil {
		_ = w.out.Close()
	}
	if err != nil && w.ours == len(w.dirs) {
		w.undo()
	}
	for i, lock := range w.locks {
		closing := lock.Close()
		if err == nil {
			err = closing
		} else if i < w.ours {
			_ = w.fs.Remove(filepath.Join(w.dirs[i], filename.Of(filename.Lock, 0)))
		}
	}
	if w.fs != nil {
		closing := w.fs.Close()
		if err == nil {
			err = closing
		}
	}
	if err != nil {
		slices.SortFunc(w.made, func(a, b string) int { return len(b) - len(a) }) // one may be in the other
		for _, dir := range w.made {
			_ = w.base.Remove(dir) // if it is empty
		}
	}
	return err
}

// undo removes what was made, SUPER first: without it the rest is no store.
func (w *restorer) undo() {
	for _, path := range w.last {
		_ = w.fs.Remove(path)
	}
	for name := range w.have {
		_ = w.fs.Remove(w.path(name))
	}
}
