package brock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/tree"
)

// DB is an open store.
type DB struct {
	opts      Options
	tree      *tree.Tree
	commits   *commit.Pipeline // nil in a read-only store
	main      Keyspace         // the default keyspace
	keyspaces keyspaces
	now       func() uint64 // the time of expiry, in Unix milliseconds
	counters  counters

	encoding encoding

	began time.Time // with a monotonic reading

	closed    atomic.Bool
	closeOnce sync.Once
	closeErr  error
	closers   []func() error // what Open opened beside tree and commits, in the order of closing
}

// Close waits for the commits that are under way, makes everything committed
// durable, stops all background work and releases the store's lock.
//
// It doesn't wait for transactions: what they and the DB are asked from now on is
// ErrClosed, but what they handed out stays valid until they are discarded, and
// the memory they read from is only then given back. Close is safe twice, also
// at once; each call returns when the store is closed, with the same result.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		db.closed.Store(true)
		keep := func(err error) {
			if db.closeErr == nil {
				db.closeErr = err
			}
		}
		if db.commits != nil {
			keep(db.commits.Sync(context.Background()))
			keep(db.commits.Close())
		}
		if db.tree != nil {
			keep(db.tree.Close())
		}
		for _, c := range db.closers {
			keep(c())
		}
	})
	return db.closeErr
}

// usable returns nil while the store is open.
func (db *DB) usable() error {
	if db.closed.Load() || db.tree == nil {
		return ErrClosed
	}
	return nil
}

// writable returns nil while the store can be written to.
func (db *DB) writable() error {
	if err := db.usable(); err != nil {
		return err
	}
	if db.commits == nil {
		return ErrReadOnly
	}
	return nil
}

// Options are the options in force, defaults filled in.
func (db *DB) Options() Options { return db.opts }

// Version is the newest version that a transaction which begins now reads; 0 for
// an empty or closed store.
func (db *DB) Version() uint64 {
	if db.usable() != nil {
		return 0
	}
	return uint64(db.tree.Visible())
}

// Sync makes everything committed so far safe from a power loss. On a full disk it
// may be ErrNoSpace: then what is committed stays so, and Sync may be called again.
func (db *DB) Sync(ctx context.Context) error {
	if err := db.writable(); err != nil {
		return err
	}
	return db.commits.Sync(ctx)
}

// Flush writes the entries in memory out to the tree's files. Nothing needs it
// for durability; it shortens the next Open.
func (db *DB) Flush(ctx context.Context) error {
	if err := db.writable(); err != nil {
		return err
	}
	return db.tree.Flush(ctx)
}

// Compact flushes, and merges everything into one sorted run: reads get as fast
// as they can, and what overwrites and deletes left behind is dropped.
func (db *DB) Compact(ctx context.Context) error {
	if err := db.writable(); err != nil {
		return err
	}
	return db.tree.Compact(ctx)
}

// Reclaim gives back the space of whatever nobody can see any more, now: it
// flushes, merges everything, and moves what is live out of files with garbage,
// until garbage is at most a fifth of what is live. It returns by how many bytes
// the files shrank. Nothing needs it: a store does the same by itself when it is
// written to, and when it rests.
func (db *DB) Reclaim(ctx context.Context) (int64, error) {
	if err := db.writable(); err != nil {
		return 0, err
	}
	return db.tree.Reclaim(ctx)
}

// Verify reads every file, checks every checksum and cross-reference, and calls
// report, unless nil, for each problem, one at a time. It returns the first
// problem, an ErrCorrupt, or why it could not go on; nil means that all is well.
func (db *DB) Verify(ctx context.Context, report func(*CorruptionError)) error {
	if err := db.usable(); err != nil {
		return err
	}
	var first *CorruptionError
	err := db.tree.Verify(ctx, func(c *CorruptionError) {
		if first == nil {
			first = c
		}
		if report != nil {
			report(c)
		}
	})
	if first != nil {
		return first
	}
	return err
}

// Metrics is what this store has done and holds. It may be called at any time.
func (db *DB) Metrics() Metrics {
	var m Metrics
	db.counters.fill(&m)
	m.CompressedFrom, m.CompressedTo = db.encoding.compression.Bytes()
	if db.usable() == nil {
		m.Tree = TreeMetrics(db.tree.Metrics())
	}
	return m
}

// monotonic times what happens; unlike Options.Now it is not for stepping.
func (db *DB) monotonic() time.Duration { return time.Since(db.began) }

// synced reports whether a commit of this durability waits for the disk.
func (db *DB) synced(d Durability) bool {
	if d == DefaultDurability {
		d = db.opts.Durability
	}
	return d == Synced
}
