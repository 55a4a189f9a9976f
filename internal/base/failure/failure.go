// Package failure says what a failed call of the file system has left behind, and so
// what may follow: all of the store asks it, and nobody else looks at the errors of
// systems (docs/adr, 38). FS marks errors where they arise, since there it is known
// which call has failed.
package failure

import (
	"errors"
	"io"
	"io/fs"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// Class is what a failure has left behind.
type Class int

// The classes of failures. An error that FS has not marked is Final.
const (
	// Final: a write or sync of which nobody knows what it has done, damage, and
	// whatever else doesn't pass. What needs the file stops.
	Final Class = iota
	// Refused: the call has changed nothing; what a write has left must be taken back. The call
	// is made again later: by the caller of the store, or in the background with longer and
	// longer pauses.
	Refused
	// Full: the disk is full. As Refused, but work in the background waits for disk space. A
	// sync that fails so is Final, if anything relies on the file.
	Full
)

// Of returns the class of an error that isn't nil.
func Of(err error) Class {
	switch {
	// First: errors are joined, and one of unknown effect outweighs one that passes.
	case errors.Is(err, errs.ErrStopped), errors.Is(err, errs.ErrCorrupt), errors.As(err, new(*final)):
		return Final
	case vfs.IsNoSpace(err):
		return Full
	case errors.Is(err, errs.ErrRefused):
		return Refused
	}
	return Final
}

// Passes reports whether err is a failure after which all is as before.
func Passes(err error) bool { return err != nil && Of(err) != Final }

// IsRefused reports whether err is of the class Refused.
func IsRefused(err error) bool { return err != nil && Of(err) == Refused }

// IsFull reports whether err is of the class Full.
func IsFull(err error) bool { return err != nil && Of(err) == Full }

// refused marks the error of a call that has changed nothing.
type refused struct{ err error }

// Error is that of the call.
func (r *refused) Error() string { return r.err.Error() }

// Unwrap returns the error of the call.
func (r *refused) Unwrap() error { return r.err }

// Is makes it an errs.ErrRefused.
func (r *refused) Is(target error) bool { return target == errs.ErrRefused }

// final marks the error of a call of which nobody knows what it has done, so that an
// error joined to it can't hide that.
type final struct{ err error }

// Error is that of the call.
func (f *final) Error() string { return f.err.Error() }

// Unwrap returns the error of the call.
func (f *final) Unwrap() error { return f.err }

// Memory marks the error of a call that asks the system for memory: nothing has changed, and the
// next one may get it.
func Memory(err error) error { return unchanged(err) }

// unchanged marks the error of a call that changes nothing if it fails. What is absent
// is no failure, and stays so however often one asks.
func unchanged(err error) error {
	// These say something else than that the system has refused.
	if err == nil || err == io.EOF || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errors.ErrUnsupported) || vfs.IsNoSpace(err) {
		return vfs.NoSpace(err)
	}
	return &refused{err}
}

// unknown marks the error of a call that may have done anything.
func unknown(err error) error {
	if err == nil || errors.Is(err, errors.ErrUnsupported) || vfs.IsNoSpace(err) {
		return vfs.NoSpace(err)
	}
	return &final{err}
}
