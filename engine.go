package brock

import (
	"context"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/iterator"
)

// engine is what the root asks of a tree. Close must not wait for pins, and
// whatever they read must stay readable until the last of them is released.
type engine interface {
	Acquire(at entry.Version) (pin, error)
	Visible() entry.Version
	Size(lo, hi []byte) (entries, bytes, separated uint64)
	Split(lo, hi []byte, n int) [][]byte
	Flush(ctx context.Context) error
	Compact(ctx context.Context) error
	Reclaim(ctx context.Context) (int64, error)
	Verify(ctx context.Context, report func(*errs.Corruption)) error
	Metrics() TreeMetrics
	Close() error
}

// pin is a reader's hold on one state of an engine, at one version.
type pin interface {
	Version() entry.Version
	// From notes the program counter where the reader began.
	From(pc uintptr)
	// Get finds the newest version of key up to Version, also a delete or an
	// expired one. It leaves dst.Key alone.
	Get(key []byte, dst *entry.Entry) (bool, error)
	// Value is never nil without an error.
	Value(key []byte, e *entry.Entry) ([]byte, error)
	// Touch has a separated value brought near; false means that Value may
	// have to wait for the disk, and more so than a goroutine costs.
	Touch(e *entry.Entry) bool
	// Jump tells how many bytes count as scattered because e's separated value
	// lies far from the one before; Scattered adds such bytes up.
	Jump(e *entry.Entry) uint64
	Scattered(bytes uint64)
	// Iterator walks all versions, also those newer than Version.
	Iterator() iterator.Iterator
	Release()
}

// committer is what the root asks of the commit pipeline. When Commit returns,
// also early because ctx ended, nothing refers to the request any more.
type committer interface {
	Commit(ctx context.Context, r *commit.Request) (entry.Version, error)
	Sync(ctx context.Context) error
	Close() error
}
