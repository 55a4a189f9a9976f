package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// OS returns the file system of the operating system.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Create(name string) (File, error) {
	return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (osFS) Open(name string) (File, error) { return open(name, os.O_RDONLY) }

func (osFS) OpenReadWrite(name string) (File, error) { return open(name, os.O_RDWR) }

func open(name string, flag int) (File, error) {
	f, err := openRegular(name, flag)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// errNotRegular is the error of opening what has no bytes of its own.
var errNotRegular = fmt.Errorf("not a regular file: %w", fs.ErrInvalid)

// openRegular opens a regular file, or fails at once. The look before keeps it from
// touching a device, the one after tells whether the name meant another file then.
func openRegular(name string, flag int) (*os.File, error) {
	was, err := os.Lstat(name)
	switch {
	case err == nil && flag&os.O_EXCL != 0:
		return nil, pathError("create", name, fs.ErrExist)
	case err == nil && !was.Mode().IsRegular():
		return nil, pathError("open", name, errNotRegular)
	case err != nil && (flag&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist)):
		return nil, err
	}
	f, err := os.OpenFile(name, flag|openFlags, 0o600)
	if err != nil {
		return nil, err
	}
	is, err := f.Stat()
	if err == nil && (!is.Mode().IsRegular() || was != nil && !os.SameFile(was, is)) {
		err = pathError("open", name, errNotRegular)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Rename(from, to string) error {
	err := renameNew(from, to)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	// Two renames to one name are kept apart by the lock of the store.
	switch _, err := os.Lstat(to); {
	case err == nil:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return os.Rename(from, to)
}

func (osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o700) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) Stat(name string) (Info, error) {
	i, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: i.Size(), IsDir: i.IsDir(), ModTime: i.ModTime()}, nil
}

func (osFS) SyncDir(dir string) error {
	// Systems that can't sync directories make names durable by themselves, or not at
	// all.
	if !dirsSync {
		_, err := os.Stat(dir)
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osFS) Free(dir string) (int64, error) {
	n, err := free(dir)
	if err != nil {
		return -1, pathError("free", dir, err)
	}
	return n, nil
}

const maxOwner = 256 // bytes of a lock file that are shown

func (osFS) Lock(name string, shared bool, owner string) (io.Closer, error) {
	flag := os.O_RDWR | os.O_CREATE
	if shared {
		flag = os.O_RDONLY
	}
	f, err := openRegular(name, flag)
	if err != nil {
		return nil, err
	}
	// Only the holder writes its name, so the name is never of two.
	held, err := tryLock(f, shared)
	if held && !shared {
		if err = signLock(f, owner); err != nil {
			unlock(f)
		}
	}
	if !held && err == nil {
		err = whoLocked(f, shared)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &osLock{f: f, shared: shared}, nil
}

// signLock leaves the owner's name in the lock file. A full disk must not keep
// a store from being opened, so the name may be missing.
func signLock(f *os.File, owner string) error {
	if owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		owner = fmt.Sprintf("pid %d on host %s", os.Getpid(), host)
	}
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(owner+"\n"), 0)
	}
	if IsNoSpace(err) {
		return nil
	}
	return err
}

// whoLocked returns a LockedError with the name of the holder. If a shared lock can
// be had though an exclusive one can't, the holders are readers, which leave no name.
func whoLocked(f *os.File, shared bool) error {
	e := &LockedError{Name: f.Name()}
	if !shared {
		if held, err := tryLock(f, true); held && err == nil {
			unlock(f)
			e.Shared = true
			return e
		}
	}
	text := make([]byte, maxOwner)
	n, _ := f.ReadAt(text, 0)
	e.Owner, _, _ = strings.Cut(string(text[:n]), "\n")
	return e
}

// osLock is a lock that is held.
type osLock struct {
	mu     sync.Mutex
	f      *os.File // nil once closed
	shared bool
}

// Close gives the lock up. It removes the name first, so that nobody reads the name
// of a holder that has left; if that fails, the next holder overwrites it.
func (l *osLock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return fs.ErrClosed
	}
	f := l.f
	l.f = nil
	if !l.shared {
		_ = f.Truncate(0)
	}
	unlock(f)
	return f.Close()
}
