package conflict

import (
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
)

// Isolation says what a transaction is checked for when it commits.
type Isolation uint8

// The isolation levels, strictest first.
const (
	Serializable      Isolation = iota // nothing it read has changed
	SnapshotIsolation                  // no key it writes has changed
	LastWriterWins                     // nothing is checked
)

// Check is what must hold when a transaction commits: it is handed down to the
// layer that knows what has changed. The zero value always holds.
type Check struct {
	Isolation Isolation
	Since     entry.Version // newest version that the transaction could see
	Reads     *ReadSet      // what Serializable checks; nil = nothing was read
	Written   Keyspaces     // keyspaces that the transaction writes to
	Addressed Keyspaces     // keyspaces that a Serializable transaction may have read
}

// AsksNothing reports whether the check holds whatever has changed in any key.
func (c *Check) AsksNothing() bool {
	switch c.Isolation {
	case Serializable:
		return c.Reads == nil || c.Reads.Empty()
	case SnapshotIsolation:
		return false
	}
	return true
}

// AsksRanges reports whether the check of a transaction, which deletes this many
// ranges, asks for changes in ranges.
func (c *Check) AsksRanges(deletes int) bool {
	if c.Isolation == SnapshotIsolation {
		return deletes > 0
	}
	return c.Isolation == Serializable && c.Reads != nil && len(c.Reads.ranges) > 0
}

// Dropped returns errs.ErrKeyspaceNotFound if a keyspace was dropped that the
// transaction writes to. It returns errs.ErrConflict for one that it may have
// read: what changed there before the drop may be gone, so nobody can tell any
// more whether that was a conflict. Only a commit leader may rely on the answer.
func (c *Check) Dropped() error {
	switch {
	case c.Written.anyDropped():
		return errs.ErrKeyspaceNotFound
	case c.Addressed.anyDropped():
		return errs.ErrConflict
	}
	return nil
}

// Keyspaces are those keyspaces of a transaction that can be dropped. Each is
// the flag that is set once it was.
type Keyspaces []*atomic.Bool

// Add adds the keyspace with this flag, once.
func (k *Keyspaces) Add(dropped *atomic.Bool) {
	if !slices.Contains(*k, dropped) {
		*k = append(*k, dropped)
	}
}

// Reset empties k and keeps its memory.
func (k *Keyspaces) Reset() {
	clear(*k)
	*k = (*k)[:0]
}

func (k Keyspaces) anyDropped() bool {
	return slices.ContainsFunc(k, (*atomic.Bool).Load)
}
