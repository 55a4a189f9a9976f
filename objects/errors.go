package objects

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/brockdb/brock"
)

// ErrStale: the object that is read was overwritten or deleted by its own transaction. Open it
// again.
var ErrStale = fmt.Errorf("objects: the object was overwritten or deleted in this transaction: %w", brock.ErrInvalid)

// ErrSwept: an Upload was taken for one that a crash has left, and was removed, as more than an
// hour passed between its content and its link. Nothing is left of it. Upload again.
var ErrSwept = fmt.Errorf("objects: the upload was removed before it was linked: %w", brock.ErrConflict)

var (
	errNotOpened  = fmt.Errorf("objects: use Open or OpenBlobs: %w", brock.ErrInvalid)
	errName       = fmt.Errorf("objects: the name is empty or ends in %s: %w", partsSuffix, brock.ErrInvalid)
	errNilReader  = fmt.Errorf("objects: nil reader: %w", brock.ErrInvalid)
	errNilContext = fmt.Errorf("objects: nil context: %w", brock.ErrInvalid)
	errCount      = fmt.Errorf("objects: the reader returned a count that is not possible: %w", brock.ErrInvalid)
	errWrites     = fmt.Errorf("objects: the writer returned a count that is not possible: %w", brock.ErrInvalid)
	errTooLong    = fmt.Errorf("objects: longer than 2^63 - 1 bytes: %w", brock.ErrInvalid)
	errSize       = fmt.Errorf("objects: the content has another length than PutOptions.Size: %w", brock.ErrInvalid)
	errOffset     = fmt.Errorf("objects: negative offset: %w", brock.ErrInvalid)
	errWhence     = fmt.Errorf("objects: unknown whence: %w", brock.ErrInvalid)
	errDigest     = fmt.Errorf("objects: a digest is 64 hexadecimal digits: %w", brock.ErrInvalid)
	errReferences = fmt.Errorf("objects: the blob has as many references as can be counted: %w", brock.ErrInvalid)
)

// DamageError tells that an object can't be read as it was written. errors.Is reports
// brock.ErrCorrupt. If a head is damaged, delete its key from the keyspace of the heads, and call
// Sweep. The text has no key.
type DamageError struct {
	Key    []byte // of the object; nil = it is not known
	Part   int64  // number of the part that can't be read, from 0; -1 = the object as a whole
	Reason string // what is wrong
	Err    error  // the cause, or nil
}

// Error names the part and the reason.
func (e *DamageError) Error() string {
	s := "objects: "
	if e.Part >= 0 {
		s += fmt.Sprintf("part %d ", e.Part)
	}
	s += e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is brock.ErrCorrupt.
func (e *DamageError) Is(target error) bool { return target == brock.ErrCorrupt }

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// explainDamage adds what is known to err if that is damage.
func explainDamage(err error, key []byte, part int64, reason string) error {
	var d *DamageError
	switch {
	case errors.As(err, &d):
		if d.Key == nil {
			d.Key = bytes.Clone(key)
		}
	case errors.Is(err, brock.ErrCorrupt):
		err = &DamageError{Key: bytes.Clone(key), Part: part, Reason: reason, Err: err}
	}
	return err
}

// ignoreAbsent returns err unless it says that there is no such key.
func ignoreAbsent(err error) error {
	if errors.Is(err, brock.ErrKeyNotFound) {
		return nil
	}
	return err
}
