package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"syscall"

	"github.com/brockdb/brock/internal/base/errs"
)

// LockedError reports that a lock is held by another handle. errors.Is(err,
// brock.ErrLocked) is true.
type LockedError struct {
	Name   string // the lock file
	Owner  string // what the holder has written into the lock file; empty if not known
	Shared bool   // the holders share the lock
}

// Error names the lock file and its holder.
func (e *LockedError) Error() string {
	s := "lock " + e.Name + ": in use by "
	switch {
	case e.Shared:
		return s + "readers"
	case e.Owner != "":
		return s + e.Owner
	}
	return s + "another"
}

// Is makes every LockedError the ErrLocked of package brock.
func (e *LockedError) Is(target error) bool { return target == errs.ErrLocked }

// IsNoSpace reports whether err says that a disk, or a quota, is full.
func IsNoSpace(err error) bool {
	if errors.Is(err, errs.ErrNoSpace) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	// ERROR_HANDLE_DISK_FULL, ERROR_DISK_FULL and ERROR_DISK_QUOTA_EXCEEDED; other systems give
	// these numbers to other errors.
	return runtime.GOOS == "windows" &&
		(errors.Is(err, syscall.Errno(39)) || errors.Is(err, syscall.Errno(112)) || errors.Is(err, syscall.Errno(1295)))
}

// NoSpace returns err, wrapped with brock.ErrNoSpace if IsNoSpace(err).
func NoSpace(err error) error {
	if IsNoSpace(err) && !errors.Is(err, errs.ErrNoSpace) {
		return fmt.Errorf("%w: %w", errs.ErrNoSpace, err)
	}
	return err
}

// IsInterrupted reports whether err says that a call was cut short, as by a signal, and
// may be made again for what it has not done.
func IsInterrupted(err error) bool {
	return errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.EAGAIN)
}

// IsOutOfFiles reports whether err says that the process or the system has no more file
// descriptors.
func IsOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// IsOutOfMemory reports whether err says that the system had no memory for a call.
func IsOutOfMemory(err error) bool { return errors.Is(err, syscall.ENOMEM) }

// pathError returns the error of an operation on a path, as package os does.
func pathError(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: path, Err: err}
}
