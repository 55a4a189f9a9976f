package errs

import "errors"

// What a failed call of the file system has left behind, and so what may follow: all of the store asks
// for the class of an error, and nobody else looks at the errors of systems (docs/adr, 38).
// pageio.MarkErrors marks errors where they arise, since there it is known which call has failed.

// Class is what a failure has left behind.
type Class int

// The classes of failures. An error that nobody has marked is Final.
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

// ClassOf returns the class of an error that isn't nil.
func ClassOf(err error) Class {
	switch {
	// First: errors are joined, and one of unknown effect outweighs one that passes.
	case errors.Is(err, ErrStopped), errors.Is(err, ErrCorrupt), errors.Is(err, errFinal):
		return Final
	case errors.Is(err, ErrNoSpace):
		return Full
	case errors.Is(err, ErrRefused):
		return Refused
	}
	return Final
}

// Passes reports whether err is a failure after which all is as before.
func Passes(err error) bool { return err != nil && ClassOf(err) != Final }

// IsRefused reports whether err is of the class Refused.
func IsRefused(err error) bool { return err != nil && ClassOf(err) == Refused }

// IsFull reports whether err is of the class Full.
func IsFull(err error) bool { return err != nil && ClassOf(err) == Full }

// errFinal is what errors of calls are of which nobody knows what they have done.
var errFinal = errors.New("nobody knows what the call has done")

// marked is the error of a call, which errors.Is finds to be another one, too: ErrRefused or
// errFinal. An error that is joined to it hides neither.
type marked struct{ err, as error }

// Error is that of the call.
func (m *marked) Error() string { return m.err.Error() }

// Unwrap returns the error of the call.
func (m *marked) Unwrap() error { return m.err }

// Is reports whether target is the mark.
func (m *marked) Is(target error) bool { return target == m.as }

// MarkRefused marks the error of a call that has changed nothing, such as one for memory.
func MarkRefused(err error) error { return &marked{err, ErrRefused} }

// MarkFinal marks the error of a call that may have done anything.
func MarkFinal(err error) error { return &marked{err, errFinal} }
