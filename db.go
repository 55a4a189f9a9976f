package brock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/follow"
	"github.com/brockdb/brock/internal/engine"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/vfs"
)

// DB is an open store. Any number of goroutines may use it. End it by Close.
type DB struct {
	opts      Options              // in force, but for Keys after a rotation
	engine    *engine.Engine       // nil in a DB that was not opened
	source    follow.Source        // the files that Checkpoint and Backup copy; its Follower is nil unless the store of another process is followed
	base      vfs.FS               // where checkpoints are made
	newSpill  func() pending.Files // makes files for the writes of one transaction
	newLoad   func() pending.Files // for writes that come in the order of keys
	commits   *commit.Pipeline     // nil in a read-only store
	main      *Keyspace            // the default keyspace
	keyspaces keyspaces            // the named ones
	now       func() uint64        // the time of expiry, in Unix milliseconds; never 0
	counters  counters             // what Metrics has of the API
	report    *reporter            // events, log lines and metrics of what happens
	loss      *Loss                // what Open has left out because of damage; nil: nothing
	forget    func()               // lets go of the user's functions, so that nothing but the DB refers to them

	seed        uint64                 // of key hashes
	compression pending.Compression    // what values were compressed to so far
	direct      *pending.MemoryLimiter // memory for writes of one call each, such as Set

	began      time.Time     // when it was opened, with a monotonic reading
	openTime   time.Duration // how long Open took, once it had the lock
	lastBackup atomic.Int64  // when the last Backup or Checkpoint ended well, in Unix milliseconds; 0 = never

	lastKeys  atomic.Pointer[KeyProvider] // of a closed store that could be written to
	closed    atomic.Bool                 // Close has begun
	closeOnce sync.Once                   // the first Close works, and others wait for it
	closeErr  error                       // result of Close
	locks     []io.Closer                 // of the directories; a read-only store may lack some
	dirs      vfs.Dirs                    // held open
	atEnd     func() error                // Close calls it last, before it gives back the locks; may be nil
}

// Close waits for the commits that are under way, makes everything committed
// durable, stops all background work and releases the store's lock.
//
// Calls that are under way end soon and return ErrClosed, or nil if they were done. Close waits
// for Compact, Reclaim and RotateKey. It does not wait for a Checkpoint, Backup or Verify: these
// only read the store's files.
//
// It does not wait for transactions. Their methods and those of the DB return ErrClosed from
// now on, but what they handed out stays valid until they are discarded; only then is the
// memory that they read from freed. Events and log messages that still wait are delivered,
// unless one call takes more than 1 s, or all of them more than 5 s. Close may be called more
// than once, also at the same time: each call returns the same result once the store is closed.
func (db *DB) Close() error {
	if db == nil { // what Open returns with an error
		return nil
	}
	db.closeOnce.Do(func() {
		// First of all: new calls end at once, so that Close need not wait for them.
		db.closed.Store(true)
		if db.engine == nil { // it was not opened
			return
		}
		var err error // the first one
		// Commits end first: then nobody writes to the tree that is closed.
		if db.commits != nil {
			// Close has no context: it may take as long as the disk, since it promises that all
			// commits are durable.
			err = cmp.Or(db.commits.Sync(context.Background()), db.commits.Close())
		}
		err = cmp.Or(err, db.engine.Close())
		if db.source.Follower != nil {
			db.source.Follower.Close()
		}
		if db.atEnd != nil && err == nil {
			err = db.atEnd()
		}
		// The directories before the locks: a Backup or RotateKey that is still on its way out
		// must reach no file of the next one who opens the store.
		err = cmp.Or(err, db.dirs.Close())
		for _, lock := range slices.Backward(db.locks) {
			err = cmp.Or(err, lock.Close())
		}
		db.closeErr = err
		db.forget()
	})
	return db.closeErr
}

// checkOpen returns nil while the store is open.
func checkOpen(db *DB) error {
	if db.closed.Load() || db.engine == nil {
		return ErrClosed
	}
	return nil
}

// checkWritable returns nil while the store can be written to.
func checkWritable(db *DB) error {
	if err := checkOpen(db); err != nil {
		return err
	}
	if db.commits == nil {
		return ErrReadOnly
	}
	return nil
}

// Err returns why the store takes no more writes until it is opened again: an error that is
// ErrStopped, with its cause, after a write or sync that failed; ErrClosed after Close. It returns nil
// while the store works, and for one that is only read. A full disk is no such error. It may be
// called at any time, and is cheap: ask it in health checks, as reads go on when writes have ended.
func (db *DB) Err() error {
	err := checkWritable(db)
	switch {
	case errors.Is(err, ErrReadOnly):
		return nil
	case err != nil:
		return err
	}
	if err := db.commits.Stopped(); err != nil {
		return err
	}
	if ended := db.report.ended.Load(); ended != nil && !errors.Is(*ended, ErrStopped) {
		return fmt.Errorf("%w: %w", ErrStopped, *ended)
	} else if ended != nil {
		return *ended
	}
	return nil
}

// Options returns the options in force, defaults filled in. Keys is the provider that RotateKey
// has set last, if it did. It may be called at any time, also after Close.
func (db *DB) Options() Options {
	o := db.opts
	if db.commits != nil { // a read-only store has the keys of Open
		o.Keys = db.engine.Keys.Provider()
	}
	// After the engine was asked: Close sets lastKeys before it makes the engine forget the provider,
	// so one of the two looks finds it.
	if last := db.lastKeys.Load(); last != nil {
		o.Keys = *last
	}
	return o
}

// Version returns the version that a transaction which begins now reads. It is 0 for
// an empty or closed store.
func (db *DB) Version() uint64 {
	if checkOpen(db) != nil {
		return 0
	}
	return uint64(db.engine.Views.Visible())
}

// VersionAt returns the newest version that is known to have been committed before t, by the store's
// clock: for TxnOptions.ReadAt. It may be older than the one that a perfect log would name, but no
// newer: the store notes the time whenever it flushes, compacts, collects, spills or makes a
// keyspace, and of noted times some hundreds stay, fewer the older they are. For a time that is not
// before now it returns the newest version.
//
// It returns ErrVersionGone if t is before all times that are known, or the version is older than all
// keyspaces retain (Retention.Age); so may Begin, later or for another keyspace.
func (db *DB) VersionAt(t time.Time) (uint64, error) {
	if err := checkOpen(db); err != nil {
		return 0, err
	}
	views := db.engine.Views
	// Before the clock is read: what is committed in between may be newer than t.
	visible := views.Visible()
	if !t.Before(db.report.clockTime()) {
		return uint64(visible), nil
	}
	// In the millisecond of a sample, more may have been committed after t.
	v := min(visible, views.Current().Layout.VersionAt(t.UnixMilli()-1))
	if v == 0 || v < views.Floors.LowestFloor() {
		return 0, fmt.Errorf("brock: no version of %v is known any more: %w", t, ErrVersionGone)
	}
	return uint64(v), nil
}

// checkContext returns nil for a context that has not ended. A nil context is misuse.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return errs.Ended(ctx)
}

// checkRead returns nil if a call with this context may read the store.
func checkRead(ctx context.Context, db *DB) error { return cmp.Or(checkOpen(db), checkContext(ctx)) }

// checkWork returns nil if a call with this context may write to the store.
func checkWork(ctx context.Context, db *DB) error {
	return cmp.Or(checkWritable(db), checkContext(ctx))
}

// Sync returns when everything committed so far survives a power loss. On a full
// disk it may return ErrNoSpace: what is committed stays committed, and Sync may be
// called again. It also returns ErrStopped, ErrReadOnly, ErrClosed, and the error of ctx, which
// ends the wait for its turn.
func (db *DB) Sync(ctx context.Context) error {
	if err := checkWork(ctx, db); err != nil {
		return err
	}
	return db.commits.Sync(ctx)
}

// Flush writes the entries in memory to files of the tree, and returns when that is done.
// Others go on reading and writing. Durability does not need it. It shortens the next Open. It
// returns ErrNoSpace or ErrRefused if the files can't be written, ErrStopped, ErrReadOnly,
// ErrClosed, or the error of ctx; what was not flushed by then stays in memory.
func (db *DB) Flush(ctx context.Context) error {
	if err := checkWork(ctx, db); err != nil {
		return err
	}
	return db.engine.Work.Flush(ctx)
}

// Compact flushes, and compacts all runs into one. Others go on reading and writing. After
// that, reads are as fast as they can be, and entries that were overwritten or deleted are gone,
// but for those that are retained or that an open transaction reads. It returns ErrNoSpace if
// the disk has no room for the new run, a *CorruptionError if a run is damaged, and the errors of
// Flush. After an error the store has what it had.
func (db *DB) Compact(ctx context.Context) error {
	if err := checkWork(ctx, db); err != nil {
		return err
	}
	return db.engine.Work.Compact(ctx)
}

// Reclaim makes the files as small as they can be: it flushes, compacts all runs
// into one, and moves live values out of segments with garbage until garbage is at most
// 1/5 of the live data. It returns by how many bytes the files shrank. A store also
// does this by itself while clients write and when it is idle. Its errors are those of Compact;
// then a part of the work may be done, which harms nothing.
func (db *DB) Reclaim(ctx context.Context) (int64, error) {
	if err := checkWork(ctx, db); err != nil {
		return 0, err
	}
	return db.engine.Work.Reclaim(ctx)
}

// Verify reads every file, and checks every checksum and cross-reference. It calls
// report, unless nil, for each problem, one at a time. It returns the first problem,
// for which errors.Is reports ErrCorrupt, or the error that kept it from going on,
// or nil if all is well.
func (db *DB) Verify(ctx context.Context, report func(*CorruptionError)) error {
	if err := checkRead(ctx, db); err != nil {
		return err
	}
	var first *CorruptionError
	found := func(c *CorruptionError) {
		if first == nil {
			first = c
		}
		if report != nil {
			report(c)
		}
	}
	var err error
	if db.source.Follower != nil {
		err = verifyFollowed(ctx, db.engine, db.source.Follower, found)
	}
	if err == nil {
		err = db.engine.Verify(ctx, found)
	}
	// Even if ctx has ended since: that there is damage is what the caller must know.
	if first != nil {
		return first
	}
	return err
}

// Loss describes what Open has left out because of damage, as Options.Recover allows. It is
// nil if nothing was left out.
func (db *DB) Loss() *Loss {
	if db.loss == nil {
		return nil
	}
	loss := *db.loss
	return &loss
}

// Metrics returns what the store has done since Open and what it holds now. It may be
// called at any time.
func (db *DB) Metrics() Metrics {
	var m Metrics
	db.counters.copyInto(&m)
	if db.report != nil {
		m.EventsDropped, m.Leaked = db.report.calls.Dropped(), db.report.leaked.Load()
	}
	m.CompressedFrom, m.CompressedTo = db.compression.Bytes()
	m.Stopped = errors.Is(db.Err(), ErrStopped)
	m.OpenTime = db.openTime
	if at := db.lastBackup.Load(); at != 0 {
		m.LastBackup = time.UnixMilli(at)
	}
	if checkOpen(db) == nil {
		m.Tree = db.engine.Metrics()
		m.Tree.Memory.Pending = db.direct.UsedBytes()
	}
	return m
}

// Files lists the files that the data of a store is in, of the moment of the call: runs from the newest
// to the oldest, segments, the journal, and what only the change feed needs. It reads no file. The
// manifest, the lock and keys are not among them, nor what only open readers need any more
// (TreeMetrics.PinnedBytes). Of a store that is followed the journal that isn't flushed is missing,
// as in Metrics; a store in memory has files in its memory.
//
// It returns ErrClosed after Close, and for a nil db.
func Files(db *DB) ([]FileInfo, error) {
	if db == nil {
		return nil, ErrClosed
	}
	if err := checkOpen(db); err != nil {
		return nil, err
	}
	return db.engine.ListFiles()
}

// sinceOpen returns the time since Open. It never goes back, as Options.Now may.
func sinceOpen(db *DB) time.Duration { return time.Since(db.began) }
