// Package errs holds the errors that every layer shares: the sentinels that the
// public package exports and the typed report of damaged data.
package errs

import (
	"context"
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
	ErrForeign          = errors.New("brock: not a Brock store, or not the right one")
	ErrNoSpace          = errors.New("brock: out of space")
	ErrRefused          = errors.New("brock: refused by the system")
	ErrVersionGone      = errors.New("brock: version is no longer retained")
	ErrUnsupported      = errors.New("brock: not supported on this platform or mode")
	ErrKey              = errors.New("brock: wrong or missing key")
	ErrStopped          = errors.New("brock: writes are stopped after a failed write or sync")
)

// Ended returns nil while ctx has not ended. Then it returns an error for which errors.Is reports
// ctx.Err() and the cause, or the cause alone if that is ErrClosed: the store has ended the context.
func Ended(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	// The cause says more. It is enough alone if it already says that the context has ended.
	cause := context.Cause(ctx)
	if errors.Is(cause, err) || errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, ErrClosed) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Corruption reports damaged data: which file, where, and what is wrong there.
type Corruption struct {
	File   string // name within its directory
	Offset int64  // of the damaged structure; -1 if the whole file is meant
	Reason string // what was expected and what was found
	Err    error  // the cause, if another error led here

	// Keys are the ranges of keys that are concerned, one for each keyspace; nil: not
	// known. Every entry that can't be read has a key there.
	Keys []KeyRange
	// Stale says that a read that passes the damage may show older versions of these keys,
	// or deleted ones. Without it, keys can only be missing.
	Stale bool
	// FollowUp says that damage which was reported before explains this: no further key is
	// concerned, and Keys is nil.
	FollowUp bool

	concerns bool // lo and hi are set
	lo, hi   []byte
}

// KeyRange is a range of keys of one keyspace.
type KeyRange struct {
	Keyspace     string // "" = the default one
	Lower, Upper []byte // keys in [Lower, Upper); nil: no bound
}

// Concern notes in c that stored keys in [lo, hi) are concerned; a nil hi is no bound.
// It keeps both.
func Concern(c *Corruption, lo, hi []byte) { c.concerns, c.lo, c.hi = true, lo, hi }

// Concerned is what Concern has noted.
func Concerned(c *Corruption) (lo, hi []byte, ok bool) { return c.lo, c.hi, c.concerns }

// NewCorruption returns a report with a formatted reason.
func NewCorruption(file string, offset int64, format string, args ...any) *Corruption {
	return &Corruption{File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// Error names the file, the offset and the reason; it never holds a key or a value.
func (c *Corruption) Error() string {
	s := "brock: corrupt data in " + c.File
	// Never a key or a value: errors go to logs.
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
