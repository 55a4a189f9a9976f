package brock

import (
	"fmt"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// maxLocked is the length of the longest value that Lock writes again, in bytes: the longest that is
// not written from where it is.
const maxLocked = 1<<20 - 1

var (
	errLockUnchecked = fmt.Errorf("brock: Lock with LastWriterWins, which checks nothing: %w", ErrInvalid)
	errLockTooLarge  = fmt.Errorf("brock: Lock of a value larger than %d bytes, lock another key in its place: %w", maxLocked, ErrInvalid)
)

// Lock reads key so that it counts as written, too. Of two transactions that lock the same key, one
// conflicts; so it does with one that has written the key and, if that is Serializable, with one that
// has read it. Under SnapshotIsolation it prevents write skew: transactions that must not decide by
// the same state lock one key that stands for that. It waits for nobody: the conflict shows at
// Commit. Nobody needs to have written the key before.
//
// The commit writes the key again as it is, with its value, meta byte and expiry, or a delete if it
// is absent. So it costs as much as Set; the key gets a new version, which history, CompareAndSet and
// Watch see; and Get shows it as a write of this transaction. RollbackTo takes the lock back.
//
// Lock returns ErrInvalid in a transaction that is LastWriterWins, and for a value of 1 MiB or more;
// then the transaction is as before the call. The other errors are those of Get and Set.
func (t *Txn) Lock(key []byte) (err error) {
	if err := t.checkUpdate(); err != nil {
		return err
	}
	if t.isolation == LastWriterWins {
		// It would write an old value over what others have committed.
		return errLockUnchecked
	}
	if err := checkKey(key); err != nil {
		return err
	}
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	stored, w := t.keyspace.storedKey(key), t.writes
	h := checksum.HashKey(t.db.seed, stored)
	if t.isolation == Serializable {
		// Also a key that the transaction has written, as that alone is no conflict.
		w.reads.AddKey(stored, h)
	}
	var e entry.Entry
	// What is applied is no read, and is not checked, before it is shown.
	if own, err := t.getOwn(stored, h, &e); own || err != nil {
		return err
	}
	found, err := t.lookupStored(stored, h, &e)
	switch {
	case err != nil:
		return err
	case !found || !e.Live(t.expiryNow()):
		e = entry.Entry{Kind: entry.Delete}
	case e.ValueLen() > maxLocked:
		return errLockTooLarge
	case e.Separated:
		value, _, err := t.readSeparated(&e, nil, false)
		if err != nil {
			return err
		}
		e = entry.Entry{Value: value, Expires: e.Expires, Kind: e.Kind, Meta: e.Meta}
	}
	e.Key = key
	// Not as a new entry of the user: that would get the time to live of the keyspace.
	t.keyspace.noteWritten(&w.written)
	w.Add(t.keyspace.encoder.Load(), &e)
	return w.finishWrite(t.Context(), t.db, nil)
}
