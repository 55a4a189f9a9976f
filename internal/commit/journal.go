package commit

import "github.com/brockdb/brock/internal/entry"

// Journal is where the groups are recorded; only the leader calls it.
type Journal interface {
	// Append writes a group. An error that is errs.ErrNoSpace, and not
	// errs.ErrStopped, has left nothing of it.
	Append(Group) (Position, error)
	// Sync makes everything appended so far durable. After an error that is
	// errs.ErrNoSpace, and not errs.ErrStopped, it may be tried again.
	Sync() error
	// Retract takes back the last Append, after a Sync that failed so.
	Retract() error
}

// Group is what is appended to the journal at once. The payload slices, one a
// transaction, come to lie one behind the other; Append changes the checksums
// of their records.
type Group struct {
	Transactions int
	Payload      [][]byte
}

// Position is a place in the journal.
type Position struct {
	Segment entry.FileNum
	Offset  int64
}
