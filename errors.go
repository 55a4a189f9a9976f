package brock

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/txn/commit"
)

// The errors of the package; test for them with errors.Is.
var (
	ErrKeyNotFound      = errs.ErrKeyNotFound      // the key has no value that this reader sees
	ErrKeyspaceNotFound = errs.ErrKeyspaceNotFound // the keyspace was dropped, or a read-only store has none of that name
	ErrConflict         = errs.ErrConflict         // what the transaction read or wrote has changed: nothing was written, run it again; errors.As finds a *ConflictError
	ErrVersionMismatch  = errs.ErrVersionMismatch  // CompareAndSet or CompareAndDelete found another version, or a version given to a commit is not above the newest; errors.Is reports ErrConflict too
	ErrReadOnly         = errs.ErrReadOnly         // a write in a read-only transaction or store
	ErrTxnDone          = errs.ErrTxnDone          // the transaction was committed or discarded, or the Snapshot was closed
	ErrClosed           = errs.ErrClosed           // the store is closed
	ErrLocked           = errs.ErrLocked           // the store is open already, in another process or in this one; errors.As finds a *vfs.LockedError, which names it
	ErrInvalid          = errs.ErrInvalid          // an argument or option is invalid; OptionError names the field
	ErrExist            = errs.ErrExist            // Options.MustBeNew is set, and the store exists; or there is something where a checkpoint, a restored or a salvaged store is to be made
	ErrNotExist         = errs.ErrNotExist         // there is no store, and Options.MustExist is set or Mode makes none
	ErrCorrupt          = errs.ErrCorrupt          // data is damaged; CorruptionError says where
	ErrFormat           = errs.ErrFormat           // the store was written by a newer release
	ErrKey              = errs.ErrKey              // Options.Keys doesn't fit: it is missing, wrong, or the store is plain; or a provider failed
	ErrForeign          = errs.ErrForeign          // the directory holds something else, or belongs to another store
	ErrNoSpace          = errs.ErrNoSpace          // the disk is full, or DiskLimit is reached: nothing was written, unless the error is ErrStopped too; deletes may still work, and writes work again once there is space
	ErrRefused          = errs.ErrRefused          // the system refused a call, as for too many open files or a file that another program holds, or a read failed: nothing was written, unless the error is ErrStopped too; try again later, as the store does with its own work
	ErrVersionGone      = errs.ErrVersionGone      // TxnOptions.ReadAt is older than the versions that are retained
	ErrUnsupported      = errs.ErrUnsupported      // not possible on this platform or in this mode
	ErrStopped          = errs.ErrStopped          // a write or sync failed earlier: reads go on, but nothing is written until the store is opened again
)

// Errors of a key or value that can't be stored. For all of them errors.Is reports
// ErrInvalid, and the transaction or batch can still be used.
var (
	ErrKeyTooLarge   = fmt.Errorf("brock: key larger than %d bytes: %w", MaxKeySize, ErrInvalid)
	ErrValueTooLarge = fmt.Errorf("brock: value larger than %d bytes: %w", MaxValueSize, ErrInvalid)
)

var (
	errNilEntry       = fmt.Errorf("brock: nil entry: %w", ErrInvalid)
	errNilContext     = fmt.Errorf("brock: nil context: %w", ErrInvalid)
	errNilFunction    = fmt.Errorf("brock: nil function: %w", ErrInvalid)
	errManaged        = fmt.Errorf("brock: Update commits the transaction, and View has nothing to commit: %w", ErrInvalid)
	errNegativeTTL    = fmt.Errorf("brock: negative time to live: %w", ErrInvalid)
	errIteratorClosed = fmt.Errorf("brock: iterator is closed: %w", ErrInvalid)
	errNestedMove     = fmt.Errorf("brock: a Filter moves or closes its own iterator, or ends its transaction: %w", ErrInvalid)
)

// The greatest lengths of a key and a value, in bytes. A key may be
// empty: it is the least one. A value may be empty, too, which is not the same as absent.
const (
	MaxKeySize   = 1 << 20   // 1 MiB
	MaxValueSize = 1<<31 - 1 // 2 GiB - 1
)

// MaxValueSize is entry.MaxValue: if they differ, the index is out of range, and doesn't compile.
var _ = [1]int{}[MaxValueSize-entry.MaxValue]

// CorruptionError reports damaged data. Its fields are
//
//	File   string // name within its directory
//	Offset int64  // of what is damaged; -1 = the file as a whole
//	Reason string // what is wrong
//	Err    error  // the cause, or nil
//
//	Keys  []KeyRange // the keys that are concerned, by keyspace; nil = not known
//	Stale bool       // a read that passes the damage may show older versions of these keys, or deleted ones
//
//	FollowUp bool // damage that was reported before explains this: no further key is concerned
//
// Each entry or value that can't be read is of a key in Keys, unless its keyspace was
// dropped. Keys is set for a damaged run, and for the value of one key. errors.Is reports
// ErrCorrupt. The text of the error has no key and no value.
type CorruptionError = errs.Corruption

// KeyRange is a range of the keys of one keyspace:
//
//	Keyspace     string // "" = the default one
//	Lower, Upper []byte // keys in [Lower, Upper); nil = no bound
type KeyRange = errs.KeyRange

// OptionError reports an invalid option by the name of its field. errors.Is reports
// ErrInvalid.
type OptionError struct {
	Field  string // as in "KeyspaceDefaults.ValueThreshold"
	Reason string
}

// Error names the field and the reason.
func (e *OptionError) Error() string {
	return "brock: option " + e.Field + ": " + e.Reason
}

// Is reports whether target is ErrInvalid.
func (e *OptionError) Is(target error) bool { return target == ErrInvalid }

// ConflictError reports what a transaction was refused for: others have changed what it
// has read, or what it writes. Nothing was written. errors.Is reports ErrConflict. Its
// bytes belong to the receiver.
type ConflictError struct {
	Keyspace     string // "" = the default one
	Key          []byte // the key that others have changed; nil: something in the range
	Lower, Upper []byte // the range; nil = no bound: all of a keyspace if that was dropped
	Runs         int    // how often Update ran its function; 1 for Commit

	refusal *commit.Refusal // for the turns of Update; never nil
}

// Error names the keyspace and how many runs there were. It holds no key.
func (e *ConflictError) Error() string {
	s := ErrConflict.Error()
	if e.Keyspace != "" {
		s += fmt.Sprintf(" in keyspace %q", e.Keyspace)
	}
	if e.Runs > 1 {
		s += fmt.Sprintf(" in each of %d runs", e.Runs)
	}
	return s
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// explainRefusal returns a *ConflictError if err is a refusal of c, else err.
func explainRefusal(err error, c *commit.Check) error {
	var r *commit.Refusal
	if !errors.As(err, &r) {
		return err
	}
	e := &ConflictError{Runs: 1, refusal: r}
	// What changed before the drop may be gone, so no key or range can be named.
	if r.Dropped != nil {
		e.Keyspace = r.Dropped.Name
		return e
	}
	e.Keyspace = c.NameOf(r.Lo)
	if !r.Range {
		e.Key = bytes.Clone(userKey(r.Lo))
		return e
	}
	e.Lower = userBound(r.Lo)
	// Many reads count as one range, which may end in a later keyspace.
	if id, _ := entry.KeyspaceOf(r.Lo); bytes.HasPrefix(r.Hi, entry.AppendKeyspace(nil, id)) {
		e.Upper = userBound(r.Hi)
	}
	return e
}

// userBound returns a copy of the user's part of a stored bound; nil if there is none.
func userBound(stored []byte) []byte {
	if key := userKey(stored); len(key) > 0 {
		return bytes.Clone(key)
	}
	return nil
}

// checkKey returns an error for a key that can't be stored.
func checkKey(key []byte) error {
	if len(key) > MaxKeySize {
		return ErrKeyTooLarge
	}
	return nil
}
