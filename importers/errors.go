package importers

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/brockdb/brock"
)

// The errors of this package, for errors.Is. Others are those of package brock, of the operating
// system and of the libraries that read the source.
var (
	// ErrInUse: another process has the source open, or another import goes to the same store.
	ErrInUse = fmt.Errorf("in use by another process: %w", brock.ErrLocked)
	// ErrNotEmpty: the store to import into has something already, and that is no unfinished
	// import of the same source.
	ErrNotEmpty = errors.New("is not empty")
	// ErrDiffers: the compare has found pairs that differ.
	ErrDiffers = errors.New("source and store differ")
	// ErrRefused: a key, a name or a store of the source is of a kind that can't be kept.
	ErrRefused = errors.New("can't be kept")
	// ErrUsage: Options make no sense together.
	ErrUsage = errors.New("wrong options")
	// ErrSource: the library of the source's engine has returned an error, or has panicked.
	ErrSource = errors.New("can't be read")
)

// sourceError wraps what the library of a peer has returned.
func sourceError(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %w: %w", path, ErrSource, err)
}

// guard calls fn, which calls a library of a peer. Some of them panic, or read a mapped file beyond
// its end, when a file is damaged: guard makes an error of that.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return fn()
}
