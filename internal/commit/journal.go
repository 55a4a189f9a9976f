package commit

import "github.com/brockdb/brock/internal/entry"

// Journal is where the groups are recorded; only the leader calls it.
type Journal interface {
	// Append writes a group of transactions one behind the other, and returns where
	// the first lies. It sets the versions of their records, first in the first
	// transaction, first+1 in the next, and their checksums. An error that is
	// errs.ErrNoSpace, and not errs.ErrStopped, has left nothing of the group.
	Append(first entry.Version, transactions [][]byte) (entry.Position, error)
	// Sync makes everything appended so far durable. After an error that is
	// errs.ErrNoSpace, and not errs.ErrStopped, it may be tried again.
	Sync() error
	// Retract takes back the last Append, after a Sync that failed so.
	Retract() error
}
