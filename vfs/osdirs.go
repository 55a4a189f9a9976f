package vfs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
)

// osDirs are directories held open, by the names by which they were opened.
type osDirs struct {
	byName map[string]*osDir
	opened []*osDir // directories that Close closes
}

// OpenDirs implements FS.
func (f osFS) OpenDirs(names ...string) (Dirs, error) {
	held := osFS{&osDirs{byName: map[string]*osDir{}}}
	if f.held != nil {
		maps.Copy(held.held.byName, f.held.byName)
	}
	for _, name := range names {
		name = filepath.Clean(name)
		if held.held.byName[name] != nil {
			continue
		}
		d, err := openOSDir(name)
		if err != nil {
			// Closes only those opened here: the others belong to f.
			return nil, errors.Join(err, held.Close())
		}
		held.held.byName[name] = d
		held.held.opened = append(held.held.opened, d)
	}
	return held, nil
}

// Close implements Dirs, which only OpenDirs returns.
func (f osFS) Close() (err error) {
	for _, d := range f.held.opened {
		err = errors.Join(err, d.root.Close(), d.self.Close())
	}
	return err
}

// dir is the directory of this name; only those that are held exist.
func (h *osDirs) dir(op, name string) (*osDir, error) {
	if d := h.byName[filepath.Clean(name)]; d != nil {
		return d, nil
	}
	return nil, pathError(op, name, fs.ErrNotExist)
}

// openDir opens a directory to list it.
func (f osFS) openDir(op, name string) (*os.File, error) {
	if f.held == nil {
		return os.Open(name)
	}
	d, err := f.held.dir(op, name)
	if err != nil {
		return nil, err
	}
	// Opened anew: a directory that is listed has a position, which calls at the same time would
	// share.
	return d.root.Open(".")
}

// withDir calls fn with a directory that is open.
func (f osFS) withDir(op, name string, fn func(*os.File) error) error {
	if f.held != nil {
		d, err := f.held.dir(op, name)
		if err != nil {
			return err
		}
		return fn(d.self)
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(fn(d), d.Close())
}

// placeOf is where a name is looked up. If directories are held, it is right in one of them.
func (f osFS) placeOf(op, name string) (place, error) {
	if f.held == nil {
		return place{path: name}, nil
	}
	name = filepath.Clean(name)
	d := f.held.byName[filepath.Dir(name)]
	if d == nil {
		return place{}, pathError(op, name, fs.ErrNotExist)
	}
	return place{path: name, dir: d}, nil
}

// placesOf is where two names are looked up.
func (f osFS) placesOf(op, from, to string) (a, b place, err error) {
	if a, err = f.placeOf(op, from); err == nil {
		b, err = f.placeOf(op, to)
	}
	return a, b, err
}
