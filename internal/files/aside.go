package files

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
)

// SetAside is for a store that was opened up to damage and will be written to. It gives other
// names to the files that RemoveLeftovers would remove, copies the journal segment that has
// the damage, and returns the new names. No state of the store that can be opened needs them.
func (f *Opener) SetAside(names []filename.Name, layout *layout.Layout, result journal.ReplayResult) (aside []string, err error) {
	for _, name := range f.leftovers(names, layout, result) {
		to, err := otherName(f.Path(name), f.cfg.FS.Rename)
		if err != nil {
			return aside, fmt.Errorf("keep %s: %w", name, err)
		}
		aside = append(aside, to)
	}
	if n := len(result.Segments); n > 0 {
		path := f.Path(filename.New(filename.Journal, result.Segments[n-1].Num))
		if info, err := f.cfg.FS.Stat(path); err != nil || info.Size > result.Segments[n-1].End {
			to, err := f.CopyAside(path)
			if err != nil {
				return aside, err
			}
			aside = append(aside, to)
		}
	}
	return aside, errors.Join(f.cfg.FS.SyncDir(f.cfg.Dir), f.cfg.FS.SyncDir(f.cfg.ValueDir))
}

// mostAside is how many files of one name are kept aside.
const mostAside = 1000

// CopyAside copies the file at path, as far as it can be read, to a name that no file of a
// store has, and returns that name.
func (f *Opener) CopyAside(path string) (string, error) {
	to, err := otherName(path, f.copy)
	if err != nil {
		return to, fmt.Errorf("keep a copy of %s: %w", filepath.Base(path), err)
	}
	return to, nil
}

// otherName calls keep with another name for the file at path, and returns that name.
func otherName(path string, keep func(from, to string) error) (string, error) {
	for i := 1; ; i++ {
		to := path + ".damaged"
		if i > 1 {
			to = fmt.Sprintf("%s-%d", to, i)
		}
		if err := keep(path, to); err == nil || i == mostAside || !errors.Is(err, fs.ErrExist) {
			return filepath.Base(to), err
		}
	}
}

// asidePiece is what is copied at once, and what counts as zeros if it can't be read.
const asidePiece = 4 << 10

// copy copies a file as far as it can be read.
func (f *Opener) copy(from, to string) (err error) {
	in, err := f.cfg.FS.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	size, err := in.Size()
	if err != nil {
		return err
	}
	out, err := f.cfg.FS.Create(to)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, f.cfg.FS.Remove(to))
		}
	}()
	p := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(p)) {
		part := p[:min(int64(len(p)), size-at)]
		if n, _ := in.ReadAt(part, at); n < len(part) {
			for i := 0; i < len(part); i += asidePiece {
				piece := part[i:min(i+asidePiece, len(part))]
				if n, _ := in.ReadAt(piece, at+int64(i)); n < len(piece) {
					clear(piece[n:])
				}
			}
		}
		if _, err := out.WriteAt(part, at); err != nil {
			return err
		}
	}
	return out.Sync()
}
