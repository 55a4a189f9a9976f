package vfs

import (
	"errors"
	"syscall"
)

// IsInterrupted reports whether err says that a call was cut short, as by a signal, and
// may be made again for what it has not done.
func IsInterrupted(err error) bool { return errors.Is(err, syscall.EINTR) }

// IsOutOfFiles reports whether err says that the process or the system has no more file
// descriptors.
func IsOutOfFiles(err error) bool { return errors.Is(err, syscall.EMFILE) }

// IsOutOfMemory reports whether err says that the system had no memory for a call.
func IsOutOfMemory(error) bool { return false }
