package brock

import (
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
)

// The errors of the package; test for them with errors.Is.
var (
	ErrKeyNotFound      = errs.ErrKeyNotFound      // no value that this reader may see
	ErrKeyspaceNotFound = errs.ErrKeyspaceNotFound // the keyspace was dropped, or is to be opened in a read-only store that has none of that name
	ErrConflict         = errs.ErrConflict         // run the transaction again; nothing was written
	ErrVersionMismatch  = errs.ErrVersionMismatch  // from CompareAndSet and CompareAndDelete; also an ErrConflict
	ErrReadOnly         = errs.ErrReadOnly         // a write in a read-only transaction or store
	ErrTxnDone          = errs.ErrTxnDone          // the transaction was committed or discarded
	ErrClosed           = errs.ErrClosed           // the store is closed
	ErrLocked           = errs.ErrLocked           // someone has the store open; the text says who, errors.As a *vfs.LockedError
	ErrInvalid          = errs.ErrInvalid          // an argument or option that can't be; OptionError names the field
	ErrExist            = errs.ErrExist            // Options.MustBeNew, and there is a store
	ErrNotExist         = errs.ErrNotExist         // Options.MustExist or ReadOnly, and there is none
	ErrCorrupt          = errs.ErrCorrupt          // damaged data; CorruptionError says where
	ErrFormat           = errs.ErrFormat           // written by a newer release
	ErrForeign          = errs.ErrForeign          // the directory holds something else
	ErrNoSpace          = errs.ErrNoSpace          // no disk space, or no more below DiskLimit: nothing was written, unless it is ErrStopped too; deletes may go on, and all does when there is space
	ErrVersionGone      = errs.ErrVersionGone      // TxnOptions.ReadAt is older than what is retained
	ErrUnsupported      = errs.ErrUnsupported      // not on this platform, or not in this mode
	ErrStopped          = errs.ErrStopped          // a write or sync failed earlier: reads go on, writes don't before the store is opened again
)

// The refusals of a key or value. All are ErrInvalid, and a transaction or
// batch that returned one can be used on.
var (
	ErrEmptyKey      = fmt.Errorf("brock: empty key: %w", ErrInvalid)
	ErrKeyTooLarge   = fmt.Errorf("brock: key larger than %d bytes: %w", MaxKeySize, ErrInvalid)
	ErrValueTooLarge = fmt.Errorf("brock: value larger than %d bytes: %w", MaxValueSize, ErrInvalid)
)

var (
	errNilEntry       = fmt.Errorf("brock: nil entry: %w", ErrInvalid)
	errNegativeTTL    = fmt.Errorf("brock: negative time to live: %w", ErrInvalid)
	errIteratorClosed = fmt.Errorf("brock: iterator is closed: %w", ErrInvalid)
)

// What a key and a value may measure, in bytes. A key has at least one byte; a
// value may be empty, which is not the same as absent.
const (
	MaxKeySize   = 1 << 20
	MaxValueSize = entry.MaxValue
)

// CorruptionError reports damaged data: File and Offset say where (offset -1:
// the file as a whole), Reason what is wrong, Err what led here, if anything.
// It is an ErrCorrupt, and never holds a key or a value.
type CorruptionError = errs.Corruption

// OptionError reports an option that can't be, by the field's name. It is an ErrInvalid.
type OptionError struct {
	Field  string // as in "KeyspaceDefaults.ValueThreshold"
	Reason string
}

// Error names the field and the reason.
func (e *OptionError) Error() string {
	return "brock: option " + e.Field + ": " + e.Reason
}

// Is makes every OptionError an ErrInvalid.
func (e *OptionError) Is(target error) bool { return target == ErrInvalid }

// checkKey refuses keys that can't be stored.
func checkKey(key []byte) error {
	switch {
	case len(key) == 0:
		return ErrEmptyKey
	case len(key) > MaxKeySize:
		return ErrKeyTooLarge
	}
	return nil
}
