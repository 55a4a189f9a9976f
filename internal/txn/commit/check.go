package commit

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// Isolation says which conflicts a transaction is checked for when it commits.
type Isolation uint8

// The isolation levels, strictest first.
const (
	Serializable      Isolation = iota // nothing that it read has changed
	SnapshotIsolation                  // no key that it writes has changed
	LastWriterWins                     // nothing is checked
)

// Check is what must hold for a transaction to commit. The commit leader checks it against
// the View and against earlier members of its group. The zero value always holds.
type Check struct {
	Isolation Isolation
	Since     entry.Version // newest version that the transaction could see
	Reads     *ReadSet      // what Serializable checks; nil: nothing was read
	Written   Keyspaces     // keyspaces that the transaction writes to
	Addressed Keyspaces     // keyspaces that a Serializable transaction may have read
}

// AsksNothing reports whether the check holds whatever keys have changed. Dropped is asked anyway.
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

// Dropped returns errs.ErrKeyspaceNotFound if a keyspace was dropped that the transaction
// writes to. It returns a Refusal if one was dropped that the transaction may have read:
// changes before the drop may be gone, so a conflict with them can't be found any more. The
// answer is only final for a commit leader; for others a drop may follow.
func (c *Check) Dropped() error {
	if c.Written.findDropped() != nil {
		return errs.ErrKeyspaceNotFound
	}
	if k := c.Addressed.findDropped(); k != nil {
		return &Refusal{Dropped: k}
	}
	return nil
}

// NameOf is the name of the keyspace of a stored key that the transaction has read or
// written; the default one has none.
func (c *Check) NameOf(stored []byte) string {
	id, _ := entry.KeyspaceOf(stored)
	for _, set := range []*Keyspaces{&c.Addressed, &c.Written} {
		for _, ks := range set.list {
			// Stored keys begin with the number of their keyspace.
			if ks.ID == id {
				return ks.Name
			}
		}
	}
	return ""
}
