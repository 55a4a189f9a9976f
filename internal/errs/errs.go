// Package errs holds the errors that every layer shares: the sentinels that the
// public package exports and the typed report of damaged data.
package errs

import (
	"errors"
	"fmt"
)

// The sentinels, as the public package documents them.
var (
	ErrKeyNotFound      = errors.New("brock: key not found")
	ErrKeyspaceNotFound = errors.New("brock: keyspace not found")
	ErrConflict         = errors.New("brock: transaction conflict")
	ErrVersionMismatch  = fmt.Errorf("brock: version mismatch: %w", ErrConflict)
	ErrReadOnly         = errors.New("brock: read-only")
	ErrTxnDone          = errors.New("brock: transaction is finished")
	ErrClosed           = errors.New("brock: store is closed")
	ErrLocked           = errors.New("brock: store is in use")
	ErrInvalid          = errors.New("brock: invalid argument")
	ErrExist            = errors.New("brock: store already exists")
	ErrNotExist         = errors.New("brock: store does not exist")
	ErrCorrupt          = errors.New("brock: corrupt data")
	ErrFormat           = errors.New("brock: unsupported on-disk format")
	ErrForeign          = errors.New("brock: not a store of ours")
	ErrNoSpace          = errors.New("brock: out of space")
	ErrRefused          = errors.New("brock: refused by the system")
	ErrVersionGone      = errors.New("brock: version is no longer retained")
	ErrUnsupported      = errors.New("brock: not supported on this platform or mode")
	ErrStopped          = errors.New("brock: writes are stopped after a failed write or sync")
)

// Corruption reports damaged data: which file, where, and what is wrong there.
type Corruption struct {
	File   string // name within its directory
	Offset int64  // of the damaged structure; -1 if the whole file is meant
	Reason string // what was expected and what was found
	Err    error  // the cause, if another error led here
}

// NewCorruption returns a report with a formatted reason.
func NewCorruption(file string, offset int64, format string, args ...any) *Corruption {
	return &Corruption{File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// Error names the file, the offset and the reason; it never holds a key or a value.
func (c *Corruption) Error() string {
	s := "brock: corrupt data in " + c.File
	if c.Offset >= 0 {
		s += fmt.Sprintf(" at %d", c.Offset)
	}
	s += ": " + c.Reason
	if c.Err != nil {
		s += ": " + c.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (c *Corruption) Unwrap() error { return c.Err }

// Is makes every report an ErrCorrupt.
func (c *Corruption) Is(target error) bool { return target == ErrCorrupt }
