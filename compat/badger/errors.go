package badger

import (
	"errors"
	"fmt"
	"math"

	"github.com/brockdb/brock"
)

// ValueThresholdLimit is a constant of Badger's engine. It limits nothing here.
const ValueThresholdLimit = math.MaxUint16 - 16 + 1

// The errors of Badger's API. The texts are Badger's, as programs log and compare them. Those that say
// "never returned" are there so that programs compile.
var (
	// ErrValueLogSize means that Options.ValueLogFileSize is out of its range.
	ErrValueLogSize = errors.New("Invalid ValueLogFileSize, must be in range [1MB, 2GB)")
	// ErrKeyNotFound means that the transaction sees no value of the key.
	ErrKeyNotFound = errors.New("Key not found")
	// ErrTxnTooBig means that a transaction has more writes than Badger would take. It is returned only
	// with Options.LimitTxnSize.
	ErrTxnTooBig = errors.New("Txn is too big to fit into one request")
	// ErrConflict means that others have changed what the transaction has read. Nothing was written.
	ErrConflict = errors.New("Transaction Conflict. Please retry")
	// ErrReadOnlyTxn means a write in a read-only transaction.
	ErrReadOnlyTxn = errors.New("No sets or deletes are allowed in a read-only transaction")
	// ErrDiscardedTxn means the use of a transaction that has ended.
	ErrDiscardedTxn = errors.New("This transaction has been discarded. Create a new one")
	// ErrEmptyKey means that a key is empty.
	ErrEmptyKey = errors.New("Key cannot be empty")
	// ErrInvalidKey means that a key begins with the prefix of the store's own keys.
	ErrInvalidKey = errors.New("Key is using a reserved !badger! prefix")
	// ErrBannedKey means that the key is of a banned namespace.
	ErrBannedKey = errors.New("Key is using the banned prefix")
	// ErrThresholdZero is never returned.
	ErrThresholdZero = errors.New("Value log GC can't run because threshold is set to zero")
	// ErrNoRewrite means that RunValueLogGC has freed nothing worth another call.
	ErrNoRewrite = errors.New("Value log GC attempt didn't result in any cleanup")
	// ErrRejected means that another RunValueLogGC is under way, or the store is closed.
	ErrRejected = errors.New("Value log GC request rejected")
	// ErrInvalidRequest means an argument out of its range.
	ErrInvalidRequest = errors.New("Invalid request")
	// ErrManagedTxn means a call that managed mode doesn't have.
	ErrManagedTxn = errors.New("Invalid API request. Not allowed to perform this action using ManagedDB")
	// ErrNamespaceMode means that Options.NamespaceOffset is negative.
	ErrNamespaceMode = errors.New("Invalid API request. Not allowed to perform this action when NamespaceMode is not set.")
	// ErrInvalidDump is never returned by this package's core.
	ErrInvalidDump = errors.New("Data dump cannot be read")
	// ErrZeroBandwidth means a sequence with leases of no numbers.
	ErrZeroBandwidth = errors.New("Bandwidth must be greater than zero")
	// ErrWindowsNotSupported is never returned: read-only stores work on Windows.
	ErrWindowsNotSupported = errors.New("Read-only mode is not supported on Windows")
	// ErrPlan9NotSupported is never returned.
	ErrPlan9NotSupported = errors.New("Read-only mode is not supported on Plan 9")
	// ErrTruncateNeeded is never returned: Open always repairs what a crash leaves.
	ErrTruncateNeeded = errors.New("Log truncate required to run DB. This might result in data loss")
	// ErrBlockedWrites means a write to a store that was closed.
	ErrBlockedWrites = errors.New("Writes are blocked, possibly due to DropAll or Close")
	// ErrNilCallback means a Subscribe without a callback.
	ErrNilCallback = errors.New("Callback cannot be nil")
	// ErrEncryptionKeyMismatch means that Options.EncryptionKey is not the key of the store.
	ErrEncryptionKeyMismatch = errors.New("Encryption key mismatch")
	// ErrInvalidDataKeyID means that a key registry has no data key of that number.
	ErrInvalidDataKeyID = errors.New("Invalid datakey id")
	// ErrInvalidEncryptionKey means a key that has neither 16, 24 nor 32 bytes.
	ErrInvalidEncryptionKey = errors.New("Encryption key's length should be" + "either 16, 24, or 32 bytes")
	// ErrGCInMemoryMode means RunValueLogGC of a store in memory.
	ErrGCInMemoryMode = errors.New("Cannot run value log GC when DB is opened in InMemory mode")
	// ErrGCInReadOnlyMode means RunValueLogGC of a read-only store.
	ErrGCInReadOnlyMode = errors.New("Cannot run value log GC when DB is opened in ReadOnly mode")
	// ErrDBClosed means a read of a store that was closed.
	ErrDBClosed = errors.New("DB Closed")
)

// Errors that Badger has no variable for.
var (
	errDiscardedCommit = errors.New("Trying to commit a discarded txn")
	errNothingToCommit = errors.New("badger: discarded without writes")
	errNoCommitTs      = errors.New("CommitTs cannot be zero. Please use commitAt instead")
	errNestedCommit    = errors.New("badger: Commit in a function given to Update, which commits by itself")
	errSetEntryAt      = errors.New("SetEntryAt can only be used in managed mode. Use SetEntry instead")
	errNeedsManaged    = errors.New("badger: entries with versions of their own need managed mode")
	errVersionZero     = errors.New("badger: an entry of a list has no version")
	errTooManyWrites   = fmt.Errorf("badger: Seek of an iterator that is older than very many writes of its transaction: %w", ErrTxnTooBig)
)

// readError returns the error of Badger's API for an error of a read.
func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case err == brock.ErrKeyNotFound: // the frequent one, never wrapped
		return ErrKeyNotFound
	case errors.Is(err, brock.ErrTxnDone):
		return ErrDiscardedTxn
	case errors.Is(err, brock.ErrClosed):
		return ErrDBClosed
	}
	return err
}

// writeError returns the error of Badger's API for an error of a write or commit.
func writeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, brock.ErrConflict):
		return ErrConflict
	case errors.Is(err, brock.ErrTxnDone):
		return ErrDiscardedTxn
	case errors.Is(err, brock.ErrReadOnly):
		return ErrReadOnlyTxn
	case errors.Is(err, brock.ErrClosed):
		return ErrBlockedWrites
	}
	return err
}
