package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

const maxOwner = 256 // bytes of a lock file that are shown

// osLock is a lock that is held, of a directory and of a file in it. The file has the holder's
// name, but anybody may remove or replace it. The lock of the directory stays then.
type osLock struct {
	shared bool

	mu   sync.Mutex
	dir  *os.File // nil where a directory can't be locked, and once closed
	file *os.File // nil if there was none to share, and once closed
}

// Lock implements FS.
func (f osFS) Lock(name string, shared bool) (io.Closer, error) {
	l := &osLock{shared: shared}
	// The directory first: its lock holds even if somebody removes the file, and another process
	// makes a new one.
	err := l.lockDir(f, name)
	if err == nil {
		err = l.lockFile(f, name)
	}
	if err != nil {
		return nil, errors.Join(err, l.releaseLock())
	}
	return l, nil
}

// lockDir takes the lock of the directory. It does nothing where directories can't be locked, as
// on network file systems and some systems.
func (l *osLock) lockDir(f osFS, name string) error {
	dir, err := f.openDir("lock", filepath.Dir(name))
	if err != nil {
		return err
	}
	held, err := tryLock(dir, l.shared)
	switch {
	case held:
		l.dir = dir
		return nil
	case err != nil:
		// No lock of a directory here: the file's lock must do.
		return dir.Close()
	}
	file, _ := f.openRegular(name, os.O_RDONLY) // it may be gone
	err = whoLocked(name, dir, file, l.shared)
	if file != nil {
		err = errors.Join(err, file.Close())
	}
	return errors.Join(err, dir.Close())
}

// lockFile takes the lock of the file.
func (l *osLock) lockFile(f osFS, name string) error {
	flag := os.O_RDWR | os.O_CREATE
	if l.shared {
		flag = os.O_RDONLY
	}
	file, err := f.openRegular(name, flag)
	if l.shared && l.dir != nil && errors.Is(err, fs.ErrNotExist) {
		return nil // the directory is enough
	}
	if err != nil {
		return err
	}
	// Only the holder of the lock writes its name.
	// Both locks: a process on a system that can't lock directories looks at the file only.
	held, err := tryLock(file, l.shared)
	if held && !l.shared {
		if err = signLock(file); err != nil {
			unlock(file)
		}
	}
	if !held && err == nil {
		err = whoLocked(name, file, file, l.shared)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file = file
	return nil
}

// signLock leaves the name of this process in the lock file. A full disk must not keep
// a store from being opened, so the name may be missing.
func signLock(f *os.File) error {
	// Or the rest of a longer name would stay.
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(ownName()+"\n"), 0)
	}
	if IsNoSpace(err) {
		return nil
	}
	return err
}

// ownName returns the name of this process as the holder of a lock.
func ownName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("pid %d on host %s", os.Getpid(), host)
}

// whoLocked returns a LockedError with the name of the holder, which is in file; nil: there is no
// file. If an exclusive lock of locked can't be had but a shared one can, the holders are
// readers, which leave no name.
func whoLocked(name string, locked, file *os.File, shared bool) error {
	e := &LockedError{Name: name}
	if !shared {
		if held, err := tryLock(locked, true); held && err == nil {
			// It was only a question. A shared lock that is kept would shut out the next writer.
			unlock(locked)
			e.Shared = true
			return e
		}
	}
	if file != nil {
		text := make([]byte, maxOwner)
		n, _ := file.ReadAt(text, 0)
		e.Owner, _, _ = strings.Cut(string(text[:n]), "\n")
	}
	if e.Owner == ownName() {
		e.Owner += ", which is this process"
	}
	return e
}

// Close releases the lock.
func (l *osLock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == nil && l.file == nil {
		return fs.ErrClosed
	}
	return l.releaseLock()
}

// releaseLock removes the name first, so that nobody reads the name of a holder that has
// left; if that fails, the next holder overwrites it.
func (l *osLock) releaseLock() (err error) {
	if l.file != nil {
		if !l.shared {
			_ = l.file.Truncate(0)
		}
		unlock(l.file)
		err = l.file.Close()
	}
	if l.dir != nil {
		unlock(l.dir)
		err = errors.Join(err, l.dir.Close())
	}
	l.dir, l.file = nil, nil
	return err
}
