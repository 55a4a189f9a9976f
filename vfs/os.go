package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// OS returns the file system of the operating system.
func OS() FS { return osFS{} }

// osFS looks names up by path or, if it has directories, in these.
type osFS struct{ held *osDirs }

// Create implements FS.
func (f osFS) Create(name string) (File, error) {
	return f.openFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// Open implements FS.
func (f osFS) Open(name string) (File, error) { return f.openFile(name, os.O_RDONLY) }

// OpenReadWrite implements FS.
func (f osFS) OpenReadWrite(name string) (File, error) { return f.openFile(name, os.O_RDWR) }

// openFile opens a regular file with these flags.
func (f osFS) openFile(name string, flag int) (File, error) {
	file, err := f.openRegular(name, flag)
	if err != nil {
		return nil, err
	}
	return osFile{file}, nil
}

// errNotRegular is the error of opening a directory, link, pipe, socket or device.
var errNotRegular = fmt.Errorf("not a regular file: %w", fs.ErrInvalid)

// openTries bounds how often openRegular tries a name that means another file each time.
const openTries = 100

// openRegular opens a regular file, or returns an error at once. If the name has come to mean
// another file while it was opened, it tries again: a file may have taken its place, and overlayfs
// gives a file with several names another inode when it is first opened for writing.
func (f osFS) openRegular(name string, flag int) (*os.File, error) {
	at, err := f.placeOf("open", name)
	if err != nil {
		return nil, err
	}
	for range openTries {
		// Look, open, look again: only these three together rule out a device or pipe that blocks,
		// or does something, when it is opened.
		file, moved, err := at.openRegular(name, flag)
		if !moved {
			return file, err
		}
	}
	return nil, pathError("open", name, errNotRegular)
}

// openRegular is one attempt. It looks at the file before it opens it, so that it never opens a
// device. moved says that the name means another file now than it did then.
func (p place) openRegular(name string, flag int) (file *os.File, moved bool, err error) {
	was, err := p.lstat()
	switch {
	case err == nil && flag&os.O_EXCL != 0:
		return nil, false, pathError("create", name, fs.ErrExist)
	case err == nil && !was.Mode().IsRegular():
		return nil, false, pathError("open", name, errNotRegular)
	case err != nil && (flag&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist)):
		return nil, false, err
	}
	if file, err = p.openAt(flag | openFlags); err != nil {
		return nil, false, err
	}
	is, err := file.Stat()
	switch {
	case err == nil && !is.Mode().IsRegular():
		err = pathError("open", name, errNotRegular)
	case err == nil && was != nil && !os.SameFile(was, is):
		moved = true
	case err == nil:
		return file, false, nil
	}
	return nil, moved, errors.Join(err, file.Close())
}

// Remove implements FS.
func (f osFS) Remove(name string) error {
	at, err := f.placeOf("remove", name)
	if err != nil {
		return err
	}
	return at.removeFile()
}

// Rename implements FS.
func (f osFS) Rename(from, to string) error {
	a, b, err := f.placesOf("rename", from, to)
	if err != nil {
		return err
	}
	err = renameFlags("rename", a, b, renameNoReplace)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	// Between Lstat and Rename the name could be taken. The lock of the store excludes that.
	switch _, err := b.lstat(); {
	case err == nil:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return a.rename(b)
}

// Link implements FS.
func (f osFS) Link(from, to string) error {
	a, b, err := f.placesOf("link", from, to)
	if err != nil {
		return err
	}
	return link(a, b)
}

// Clone implements FS.
func (f osFS) Clone(from, to string) error {
	a, err := f.openRegular(from, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := f.openRegular(to, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	err = errors.Join(clone(a, b), b.Close())
	if err != nil {
		// An empty file of the name would stop the next try.
		return errors.Join(err, f.Remove(to))
	}
	return nil
}

// MkdirAll implements FS.
func (f osFS) MkdirAll(dir string) error {
	if f.held != nil {
		_, err := f.held.dir("mkdir", dir)
		return err
	}
	// Nobody else needs to read the store.
	return os.MkdirAll(dir, 0o700)
}

// List implements FS.
func (f osFS) List(dir string) ([]string, error) {
	d, err := f.openDir("list", dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	// In the same order on every system, so that failures repeat.
	slices.Sort(names)
	return names, nil
}

// Stat implements FS.
func (f osFS) Stat(name string) (Info, error) {
	i, err := f.statName(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: i.Size(), IsDir: i.IsDir(), ModTime: i.ModTime(), file: i}, nil
}

// statName describes a file, or one of the directories held open.
func (f osFS) statName(name string) (fs.FileInfo, error) {
	if f.held == nil {
		return os.Stat(name)
	}
	if d, err := f.held.dir("stat", name); err == nil {
		return d.self.Stat()
	}
	at, err := f.placeOf("stat", name)
	if err != nil {
		return nil, err
	}
	return at.lstat()
}

// SyncDir implements FS.
func (f osFS) SyncDir(dir string) error {
	return f.withDir("syncdir", dir, func(d *os.File) error {
		// Systems that can't sync directories make names durable by themselves, or not
		// at all.
		if !dirsSync {
			return nil
		}
		return d.Sync()
	})
}

// Free implements FS.
func (f osFS) Free(dir string) (n int64, err error) {
	err = f.withDir("free", dir, func(d *os.File) (err error) {
		n, err = free(d)
		return err
	})
	if err != nil {
		return -1, pathError("free", dir, err)
	}
	return n, nil
}
