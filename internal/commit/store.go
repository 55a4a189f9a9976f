package commit

import (
	"context"

	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
)

// Store is what is written to. All committers call Throttle, SortSince, CheckReads and
// CatchUp, at any time; only the leader calls the others, so never two at a time.
type Store interface {
	conflict.Changes
	// Throttle may make a committer wait until the store can take the payload, or
	// refuse it; nil stands for a large transaction that has none.
	Throttle(ctx context.Context, payload []byte) error
	// SortSince makes ChangedSince cheap, however much is newer than since.
	SortSince(since entry.Version)
	// CheckReads returns a conflict.Refusal if anything that was read was written after
	// since, and up to which version it has looked.
	CheckReads(reads *conflict.ReadSet, since entry.Version) (upTo entry.Version, err error)
	// EachArrival calls fn with each key (without hi) and range delete newer than since,
	// until fn returns an error, which it returns. It returns false if it doesn't know
	// all of them at once.
	EachArrival(since entry.Version, fn func(lo, hi []byte) error) (all bool, err error)
	// Prepare makes room for n bytes of records in memory. If it fails, nothing of the
	// group is written, but the pipeline goes on.
	Prepare(n int) error
	// Apply adds the records of the transaction with version v, which begin at this
	// position, and returns where those of the next one of the group begin.
	Apply(payload []byte, at entry.Position, v entry.Version) (next entry.Position, err error)
	// Publish makes all versions up to v visible.
	Publish(v entry.Version)
	// CatchUp does, after a commit, what the store is late with because of it.
	CatchUp()
}

// Journal is where the groups are recorded; only the leader calls it.
type Journal interface {
	// Append writes a group of transactions one behind the other, and returns where
	// the first lies. It sets the versions of their records, first in the first
	// transaction, first+1 in the next, and their checksums. An error that passes (as
	// package failure says) has left nothing of the group.
	Append(first entry.Version, transactions [][]byte) (entry.Position, error)
	// Sync makes everything appended so far durable. After an error that passes it may
	// be tried again.
	Sync() error
	// Retract takes back the last Append, after a Sync that failed so.
	Retract() error
}

// Alone is a transaction that commits without the journal, in a turn of its own.
type Alone interface {
	// Prepare does what other commits need not wait for. It returns
	// errs.ErrConflict if c does not hold for what was committed so far.
	Prepare(ctx context.Context, c conflict.Check) error
	// Commit records the transaction as version v, and makes it and all that was
	// committed before durable. It returns errs.ErrConflict if c does not hold for
	// what was committed since Prepare. After an error that is no errs.ErrStopped
	// nothing of the transaction was written; one that is ends all writing.
	Commit(v entry.Version, c conflict.Check) error
}
