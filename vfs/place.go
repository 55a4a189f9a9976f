package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// place is where a file's name is looked up: in a directory held open or, without one,
// by its path.
type place struct {
	path string // the whole name
	dir  *osDir // nil: path is looked up
}

// baseName is the name within its directory.
func (p place) baseName() string { return filepath.Base(p.path) }

// withPath sets the path of an error to the whole path.
func (p place) withPath(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		e.Path = p.path
	}
	return err
}

// lstat describes the file; it follows no symbolic link.
func (p place) lstat() (fs.FileInfo, error) {
	if p.dir == nil {
		return os.Lstat(p.path)
	}
	i, err := p.dir.root.Lstat(p.baseName())
	return i, p.withPath(err)
}

// openAt opens the file. Only the owner may use what it creates.
func (p place) openAt(flag int) (*os.File, error) {
	if p.dir == nil {
		return os.OpenFile(p.path, flag, 0o600)
	}
	f, err := p.dir.root.OpenFile(p.baseName(), flag, 0o600)
	return f, p.withPath(err)
}

// removeFile removes the file, or an empty directory.
func (p place) removeFile() error {
	if p.dir == nil {
		return os.Remove(p.path)
	}
	return p.withPath(p.dir.root.Remove(p.baseName()))
}

// rename renames p to a place in the same directory.
func (p place) rename(to place) error {
	switch {
	case p.dir != to.dir:
		return &os.LinkError{Op: "rename", Old: p.path, New: to.path, Err: errors.ErrUnsupported}
	case p.dir == nil:
		return os.Rename(p.path, to.path)
	}
	return p.dir.root.Rename(p.baseName(), to.baseName())
}

// osDir is a directory held open.
type osDir struct {
	root *os.Root // to reach files in it
	self *os.File // to sync it and to rename in it
}

// openOSDir opens a directory twice: to look up names in it, and to sync it.
func openOSDir(name string) (*osDir, error) {
	// Look first: opening a pipe would wait for its other end.
	if i, err := os.Stat(name); err != nil {
		return nil, err
	} else if !i.IsDir() {
		return nil, pathError("open", name, errors.New("not a directory"))
	}
	// An os.Root refuses names that lead out of the directory, also by symbolic links.
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	self, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &osDir{root, self}, nil
}
