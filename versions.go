package brock

import (
	"context"
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/txn/commit"
)

// MaxCommitAt is the greatest version that a caller may give to a commit.
const MaxCommitAt = 1<<56 - 1 - 1<<40

// It is entry.MaxGiven: if they differ, the index is out of range, and doesn't compile.
var _ = [1]int{}[MaxCommitAt-entry.MaxGiven]

// MaxBatchVersions is how many versions the writes of one Batch may have.
const MaxBatchVersions = commit.MaxTransactions

var (
	errGivenVersion   = fmt.Errorf("brock: a version that is given is from 1 to MaxCommitAt: %w", ErrInvalid)
	errVersionOrder   = fmt.Errorf("brock: versions of a batch rise, and all writes have one or none has: %w", ErrInvalid)
	errBatchVersions  = fmt.Errorf("brock: batch of more than MaxBatchVersions versions: %w", ErrInvalid)
	errVersionsMemory = fmt.Errorf("brock: batch of several versions is larger than its memory, 1/8 of MemoryLimit: %w", ErrInvalid)
	errPartOperations = fmt.Errorf("brock: SetVersioned in a batch of several versions: %w", ErrInvalid)
	errNotManual      = fmt.Errorf("brock: the keyspace's Retention is not Manual: %w", ErrInvalid)
)

// At gives the writes that follow this version, which must be greater than those given before. So one
// Batch may have writes of several versions: all of them become visible at once, and a crash leaves
// all or none. A read at one of the versions, if Retention keeps it, shows what was written up to it.
// Commit asks that the least one is above the version of every commit before.
//
// A Batch of one version may be as large as any other. One of several must fit into its memory, 1/8 of
// Options.MemoryLimit.
//
// At returns ErrInvalid, and the batch is as before, for a version that does not rise or is above
// MaxCommitAt, after writes without a version, and beyond MaxBatchVersions; and so does each write
// that would not fit. SetVersioned goes with one version only.
func (b *Batch) At(version uint64) error {
	if err := b.checkBatch(); err != nil {
		return err
	}
	w, v := &b.writes, entry.Version(version)
	given := w.Given()
	switch n := len(given); {
	case v == 0 || v > entry.MaxGiven:
		return errGivenVersion
	case n == 0 && w.Len() > 0, n > 0 && v <= given[n-1].Version:
		return errVersionOrder
	case n > 0 && len(w.Operations()) > 0:
		return errPartOperations
	case n == MaxBatchVersions:
		return errBatchVersions
	case w.Files() != nil:
		return errVersionsMemory
	}
	w.BeginVersion(v)
	return nil
}

// recordRoom is more than a record takes in memory beside its key and value.
const recordRoom = 256

// checkRoom returns an error if a write of so many bytes does not fit into a batch of several
// versions. Files have one version, so it can't go there.
func (b *Batch) checkRoom(bytes int) error {
	// A large value has checksums of its pieces, too.
	if b.writes.HasVersions() && b.writes.BytesInMemory()+int64(bytes+bytes/1024+recordRoom) > b.writes.limit {
		return errVersionsMemory
	}
	return nil
}

// AdvanceVersion makes version the newest one without a write: the next commit gets a greater one.
// It is durable on return, and so is every commit before it. A Watch yields it as a Commit without
// changes. ctx can end it only before it begins.
//
// It returns ErrVersionMismatch if version is not above DB.Version, ErrInvalid above MaxCommitAt,
// ErrReadOnly, ErrNoSpace, ErrRefused and ErrClosed; then nothing has changed. After ErrStopped the
// next Open finds one version or the other.
func (db *DB) AdvanceVersion(ctx context.Context, version uint64) error {
	if err := checkWork(ctx, db); err != nil {
		return err
	}
	switch v := entry.Version(version); {
	case v > entry.MaxGiven:
		return errGivenVersion
	case v == 0:
		return ErrVersionMismatch
	default:
		return db.commits.CommitEdit(ctx, v, db.engine.Keyspaces.Advance)
	}
}

// SetDiscardVersion gives up history of a keyspace whose Retention is Manual: what was visible at
// version and later stays readable, so of each key its newest version at or below version stays, and
// older ones go. It reads no keys: compactions drop what is given up. It is durable on return, and so
// is every commit before it. From then on reads below version return ErrVersionGone; transactions that
// are open go on. What was given up does not come back: a version at or below an earlier one changes
// nothing.
//
// It returns ErrInvalid if version is above DB.Version or the Retention is not Manual,
// ErrKeyspaceNotFound after a drop, ErrReadOnly, ErrNoSpace, ErrRefused, ErrStopped and ErrClosed;
// then all is as before.
func (k *Keyspace) SetDiscardVersion(version uint64) error {
	if err := checkWriteTo(k); err != nil {
		return err
	}
	if !k.Options().Versions.Manual {
		return errNotManual
	}
	// A floor above what a power loss leaves would hide that.
	if err := k.db.commits.Sync(context.Background()); err != nil {
		return err
	}
	return k.db.engine.Keyspaces.Discard(k.at.ID, entry.Version(version))
}
