package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// free is how many bytes this user can still write in the volume of dir.
func free(dir *os.File) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir.Name())
	if err != nil {
		return -1, err
	}
	var n uint64
	if err := windows.GetDiskFreeSpaceEx(name, &n, nil, nil); err != nil {
		return -1, err
	}
	return int64(min(n, 1<<62)), nil
}

// A lock is one byte far behind the text, as locked bytes can't be read.
var lockPlace = windows.Overlapped{OffsetHigh: 1 << 30}

// tryLock takes the lock of the open file.
func tryLock(f *os.File, shared bool) (bool, error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	at := lockPlace
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// unlock gives the lock back.
func unlock(f *os.File) {
	at := lockPlace
	_ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &at)
}
