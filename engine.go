package brock

import (
	"context"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/tombstone"
)

// engine is what the root asks of a tree. Close must not wait for pins, and
// whatever they read must stay readable until the last of them is released.
type engine interface {
	Acquire(at entry.Version) (pin, error)
	Visible() entry.Version
	Keyspaces() []manifest.Keyspace
	CreateKeyspace(name string, o manifest.KeyspaceOptions) (manifest.Keyspace, error)
	SetKeyspace(id entry.KeyspaceID, o manifest.KeyspaceOptions) error
	// DropKeyspace is called when nothing is written to it any more.
	DropKeyspace(id entry.KeyspaceID) error
	Size(lo, hi []byte) (entries, bytes, separated uint64)
	Split(lo, hi []byte, n int) [][]byte
	// Jumped adds up what Jump has told.
	Jumped(bytes uint64)
	Flush(ctx context.Context) error
	Compact(ctx context.Context) error
	Reclaim(ctx context.Context) (int64, error)
	Verify(ctx context.Context, report func(*errs.Corruption)) error
	Metrics() TreeMetrics
	// NewSpill keeps writes in files.
	NewSpill() spill
	Close() error
}

// pin is a reader's hold on one state of an engine, at one version.
type pin interface {
	Version() entry.Version
	// From notes the program counter where the reader began.
	From(pc uintptr)
	// Holds reports whether there was a keyspace of this number, other than the
	// default one, when the pin was acquired.
	Holds(id entry.KeyspaceID) bool
	// Floor is the version below which history of a keyspace may be missing in what
	// the pin holds.
	Floor(id entry.KeyspaceID) entry.Version
	// Get finds the newest version of key up to Version, also a delete or an
	// expired one, but nothing that a range tombstone covers. It leaves dst.Key alone.
	Get(key []byte, dst *entry.Entry) (bool, error)
	// Value is never nil without an error. A compressed value, which e.Raw tells,
	// is decoded into dst if its capacity is enough, else into memory of its own.
	Value(key []byte, e *entry.Entry, dst []byte) ([]byte, error)
	// Touch has a separated value brought near; false means that Value may
	// have to wait for the disk, and more so than a goroutine costs.
	Touch(e *entry.Entry) bool
	// Jump tells how many bytes count as jumped to because e's separated value
	// lies far from the one before.
	Jump(e *entry.Entry) uint64
	// Iterator walks all versions, also those newer than Version and those that
	// range tombstones cover.
	Iterator() iterator.Iterator
	// Cover is what range tombstones up to Version cover and, with voids, ranges in
	// which nothing is left; nil if there are none.
	Cover(voids bool) *tombstone.Cover
	Release()
}

// spill is the pending writes of one transaction that are in files, until Commit
// makes them the store's. It is used by one goroutine at a time, save for Value,
// and Discard ends it in any case.
type spill interface {
	// Add writes encoded records, of which the last is the transaction's last-th;
	// the later of two with one key counts. ranges are all its range deletes so
	// far, with the number of each as version. After an error, which sticks, only
	// reads and Discard are left.
	Add(ctx context.Context, records []byte, last int, ranges *tombstone.Set) error
	// Get fills dst, of version 0, and leaves dst.Key alone; a range delete gives a
	// delete of the key.
	Get(key []byte, h uint64, dst *entry.Entry) (bool, error)
	// Value is like that of a pin.
	Value(key []byte, e *entry.Entry, dst []byte) ([]byte, error)
	// Iterators yield entries of version 0, none that a range delete covers, all of
	// which are given; those of earlier ones hide those of later ones.
	Iterators(ranges *tombstone.Set) []iterator.Iterator
	// Prepare does what no other commit need wait for, and has conflicts looked
	// for among what was committed so far. Nothing can be added afterwards.
	Prepare(ctx context.Context, check func(changes) error) error
	// Writes reports, after Prepare, whether a key in [lo, hi) is written, be it by
	// a range delete; without hi, whether lo is.
	Writes(lo, hi []byte) (bool, error)
	// Commit runs in a turn of the committer; touches tells, as Writes does, which
	// of the keys and ranges committed since Prepare are a conflict, nil that none is.
	Commit(v entry.Version, touches func(lo, hi []byte) (bool, error)) error
	Entries() int64
	Bytes() int64 // of the records added
	Discard()
}

// changes is what was committed up to a moment.
type changes interface {
	conflict.Changes
	// Overwritten reports whether a key that a spill writes is newer than since.
	Overwritten(ctx context.Context, since entry.Version) (bool, error)
}

// committer is what the root asks of the commit pipeline. When Commit returns,
// also early because ctx ended, nothing refers to the request any more.
type committer interface {
	Commit(ctx context.Context, r *commit.Request) (entry.Version, error)
	CommitAlone(ctx context.Context, record func(v entry.Version) error) (entry.Version, error)
	Sync(ctx context.Context) error
	Close() error
}
