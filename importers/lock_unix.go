//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package importers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// lockPath locks a file or directory for readers or, exclusive, for one process. Badger locks the
// directory and goleveldb its file LOCK, by flock; LevelDB and Pebble lock that file by fcntl. This
// takes both locks, so it fails while any of them has the store open for writing, and they fail while
// it is held. A file that is not there is not locked.
func lockPath(path string, exclusive bool) (release func(), err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	release = func() { _ = f.Close() } // which releases the locks
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if info, stat := f.Stat(); err == nil && stat == nil && !info.IsDir() {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Whence: 0})
	}
	switch {
	case err == nil:
		return release, nil
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EACCES):
		err = fmt.Errorf("%s is %w", path, ErrInUse)
	default:
		err = &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	release()
	return nil, err
}
