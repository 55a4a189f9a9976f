package brock

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"time"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/copies/follow"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/engine"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/internal/txn/scan"
	"github.com/brockdb/brock/internal/txn/spill"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// Open opens the store in o.Dir. It creates the store if there is none, unless
// Options.MustExist is set. If the last session did not end with Close, Open repairs the
// store; this needs no option.
//
// It returns ErrLocked if another process has the store open, ErrForeign if a directory
// holds something else, another store, or the values of another copy of this one,
// ErrKey if Options.Keys doesn't fit the store, ErrFormat for a store of a later format,
// and a *CorruptionError for damage, unless Options.Recover says what to do about it. A
// store that is refused is left as it was, except that there may be an empty LOCK. If a write
// of Open fails, a part of its repairs may be on disk; the next Open does the rest.
//
// The store goes on in its directories, whatever happens to their names. If you copy the
// files of a closed store, copy both Dir and ValueDir, and keep the master key elsewhere.
func Open(o Options) (*DB, error) { return OpenContext(context.Background(), o) }

// OpenContext is Open; ctx may end the wait for the lock, and for Options.Keys, but not the reading
// of the store, which may take seconds after a crash. If it has ended, the store is not opened, and
// its lock is free, even if a call of the KeyProvider is still running.
func OpenContext(ctx context.Context, o Options) (*DB, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	// Options first: a call with wrong options must touch nothing on the disk.
	op, err := newOpening(o)
	if err != nil {
		return nil, err
	}
	db, err := op.openStore(ctx)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", op.at.Dir, err)
	}
	return db, nil
}

// newOpening checks the options. It reads and writes no file.
func newOpening(o Options) (*opening, error) {
	o = o.inForce()
	if err := o.validateStore(); err != nil {
		return nil, err
	}
	op := &opening{options: o, base: fileSystem(o.FS), report: newReporter(userFuncs{o.Events, o.Logger, o.Now})}
	op.at = manifest.Options{FS: op.base, Dir: o.Dir, ValueDir: o.ValueDir, ReadOnly: o.Mode != ReadWrite, UpTo: o.Recover != Strict}
	if o.Keys != nil {
		op.at.Keys = op.openKeyring
	}
	if o.InMemory {
		op.memory = vfs.NewMem()
		op.at.FS, op.at.Dir = pageio.MarkErrors(op.memory), "/"
	}
	return op, nil
}

// opening is an Open under way.
type opening struct {
	options  Options           // with their defaults
	ctx      context.Context   // of the call to Open; it bounds the calls of a KeyProvider
	at       manifest.Options  // where the store is: its FS is held once that is set, and Resolve has seen its directories
	base     vfs.FS            // copies of the store are made in it
	memory   *vfs.Mem          // of an in-memory store; else nil
	held     vfs.Dirs          // the directories, held open
	keyring  *keyring.Keyring  // nil: the store is plain
	made     bool              // openDirs has made the directories, and their names are durable
	locks    []io.Closer       // of dir and valueDir, in this order; closeFailed closes them
	log      *manifest.Log     // nil until the manifest was read or made
	engine   *engine.Engine    // nil until openEngine has returned
	follower *follow.Follower  // nil unless Mode is Follow
	report   *reporter         // of the engine's events; the DB's later
	commits  **commit.Pipeline // of the DB, once it is there
	db       *DB               // nil until assembleDB has made it
}

func (o *opening) openStore(ctx context.Context) (db *DB, err error) {
	o.ctx = ctx
	defer func() {
		if db == nil { // an error, or a KeyProvider that panics
			o.closeFailed()
		}
	}()
	// In this order: the lock lies in a directory, and only who has the lock may write.
	if err := o.openDirs(); err != nil {
		return nil, err
	}
	if err := o.acquireLocks(ctx); err != nil {
		return nil, err
	}
	// The wait for the lock does not count as the time of Open.
	began := time.Now()
	if err := o.openManifest(ctx); err != nil {
		return nil, err
	}
	// Recovery: the journal is replayed, and what a crash has left is removed.
	recovery, err := o.openEngine()
	if err != nil {
		return nil, err
	}
	if o.options.Mode == Follow {
		if o.follower, err = o.beginFollowing(); err != nil {
			return nil, err
		}
	}
	if o.keyring != nil {
		// Only now is it known which keys the files need.
		if o.options.Mode == ReadWrite {
			_ = o.keyring.Clean() // what can't be removed now, the next Open removes
		}
		o.keyring.Bound(context.Background()) // the context of Open ends
	}
	// Nothing fails from here on, so nothing has to be undone.
	o.assembleDB(recovery)
	o.db.openTime = time.Since(began)
	if recovery.Lost != nil {
		o.db.loss = recovery.Lost
		o.report.onLoss(*o.db.loss)
	}
	o.report.queueMessage(slog.LevelInfo, "store opened", "dir", o.at.Dir, "version", o.db.Version(), "replayed", recovery.Entries,
		"cutBytes", recovery.CutBytes, "cutFrames", recovery.CutFrames, "removedFiles", recovery.Removed,
		"cutManifestBytes", recovery.Manifest.CutBytes, "mendedSuper", recovery.Manifest.SuperMended)
	return o.db, nil
}

// closeFailed closes the files and locks of a failed Open.
func (o *opening) closeFailed() {
	// The locks come last, as in Close: whoever gets them next must not meet this process in a
	// file.
	if o.log != nil {
		_ = o.log.Close()
	}
	if o.held != nil {
		_ = o.held.Close()
	}
	for _, lock := range o.locks {
		_ = lock.Close()
	}
}

// openDirs opens the store's directories; for a new store, it makes them first. From then on
// all files are reached through the open directories, so a rename of one does no harm.
func (o *opening) openDirs() error {
	o.at.Resolve()
	// Look before the lock is taken: that writes a file, and another program may have one of
	// the same name.
	look := manifest.CheckOpenable(o.at)
	absent := errors.Is(look, errs.ErrNotExist)
	switch {
	case absent && !o.at.ReadOnly && !o.options.MustExist:
		if err := manifest.MakeDirs(o.at); err != nil {
			return err
		}
		o.made = true
		o.at.Resolve()
	// A reader goes on, as a writer may be making the store: what the manifest says later is the
	// answer.
	case look != nil && !(absent && o.at.ReadOnly):
		return look
	}
	held, err := o.at.FS.OpenDirs(o.at.Dir, o.at.ValueDir)
	// Callers test for brock.ErrNotExist, which the file system's error is not.
	if absent && errors.Is(err, fs.ErrNotExist) {
		return look
	}
	if err != nil {
		return err
	}
	o.at.FS, o.held = held, held
	o.at.Resolve()
	return nil
}

// lockPoll is how often a lock that another process holds is tried again.
const lockPoll = 20 * time.Millisecond

// acquireLocks takes the locks of the store's directories, for itself or with other
// readers.
func (o *opening) acquireLocks(ctx context.Context) error {
	if o.options.Mode == Follow {
		// No lock: the writer holds it alone, and a follower must not keep a writer out either.
		return o.checkFollowable()
	}
	dirs := []string{o.at.Dir}
	if o.at.ValueDir != o.at.Dir {
		dirs = append(dirs, o.at.ValueDir)
	}
	// One deadline for both directories.
	deadline := time.Now().Add(o.options.LockWait)
	// Everybody takes that of Dir first. In two orders, two processes could each hold one and wait.
	for _, dir := range dirs {
		if err := o.acquireLock(ctx, dir, deadline); err != nil {
			return err
		}
	}
	return nil
}

func (o *opening) acquireLock(ctx context.Context, dir string, deadline time.Time) error {
	readOnly := o.options.Mode == ReadOnly
	path := filepath.Join(dir, filename.Of(filename.Lock, 0))
	for {
		lock, err := o.at.FS.Lock(path, readOnly)
		switch {
		case err == nil:
			o.locks = append(o.locks, lock)
			return nil
		case readOnly && errors.Is(err, fs.ErrNotExist):
			// No lock file: there is no store, or it was copied without LOCK, maybe to
			// a read-only medium. Reading the manifest shows which.
			return nil
		// The deadline counts only after a try, so LockWait 0 tries once.
		case !errors.Is(err, errs.ErrLocked) || !time.Now().Before(deadline):
			return err
		}
		select {
		case <-ctx.Done():
			return errs.Ended(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// openKeyring opens or creates the keyring for the manifest.
func (o *opening) openKeyring(uuid [16]byte, create bool) (*crypt.Ring, error) {
	open := keyring.Open
	if create {
		open = keyring.Create
	}
	var err error
	o.keyring, err = open(keyring.Options{FS: o.at.FS, Dir: o.at.Dir, UUID: uuid, Keys: o.options.Keys, Context: o.ctx, Created: o.report.clockTime().UnixMilli()})
	if err != nil {
		return nil, err
	}
	return o.keyring.Ring(), nil
}

// openManifest opens the log of edits, or creates the store.
func (o *opening) openManifest(ctx context.Context) error {
	log, err := o.loadManifest(ctx)
	switch {
	case err == nil:
		// Before MustBeNew is looked at: closeFailed closes it then.
		o.log = log
		if o.options.MustBeNew {
			return ErrExist
		}
		return nil
	case !errors.Is(err, errs.ErrNotExist) || o.options.MustExist || o.at.ReadOnly:
		return err
	}
	// openDirs did not see that the store is absent. An earlier Open may have made the
	// directories and failed before their names were durable, so make them durable now.
	if !o.made {
		outside := o.at
		// The names to make durable lie in the directories above, which the held ones don't reach.
		outside.FS = o.base
		if err := manifest.MakeDirs(outside); err != nil {
			return err
		}
	}
	uuid, seed, err := newIdentity()
	if err == nil {
		o.log, err = manifest.CreateStore(o.at, manifest.CreateOptions{UUID: uuid, Seed: seed, Created: time.Now().UnixMilli()})
	}
	return err
}

// newIdentity returns what tells a new store from others. The UUID binds files to it. The seed is
// random, so that nobody can choose keys whose hashes collide.
func newIdentity() (uuid [16]byte, seed uint64, err error) {
	var random [24]byte
	_, err = rand.Read(random[:])
	return [16]byte(random[:16]), binary.LittleEndian.Uint64(random[16:]), err
}

// journalPerMemtable is the most bytes of journal for one memtable. Large values take no room
// in a memtable, but the Open after a crash has to read them in the journal.
const journalPerMemtable = 512 << 20

// workers is the number of background tasks that run at once: a flush, a compaction and a
// collection.
const workers = 3

func (o *opening) openEngine() (engine.Recovery, error) {
	// The engine calls the pipeline, which is made of the engine: assembleDB fills in commits.
	report, commits := o.report, new(*commit.Pipeline)
	files, scrubEvery := o.options.Tuning.OpenFiles, max(o.options.Maintenance.ScrubEvery, 0)
	// A follower keeps each file open, as the writer may remove its name.
	if o.options.Mode == Follow {
		files = 0 // no limit
	}
	if o.options.InMemory {
		scrubEvery = 0 // never
	}
	e, recovery, err := engine.Open(engine.Config{
		OpenerConfig: view.OpenerConfig{
			Store: o.fileStore(), Follow: o.options.Mode == Follow, OpenFiles: files, VerifyReads: o.options.VerifyReads,
			Memory: o.options.MemoryLimit, RunFileBytes: o.options.Tuning.RunFileSize,
		},
		Keyring:  o.keyring,
		ReadOnly: o.at.ReadOnly,
		UpTo:     o.at.UpTo,
		Sizes: engine.Sizes{
			MemtableBytes: int(o.options.Tuning.MemtableSize),
			JournalBytes:  max(o.options.Tuning.SegmentSize, min(journalPerMemtable, 16*o.options.Tuning.MemtableSize)),
			SegmentBytes:  o.options.Tuning.SegmentSize,
			DiskLimit:     o.options.DiskLimit,
		},
		Feed: engine.FeedRetention(o.options.FeedRetention),
		Maintenance: engine.Maintenance{
			NoClustering: o.options.Maintenance.NoClustering, IdleAfter: o.options.Maintenance.IdleAfter, ScrubEvery: scrubEvery,
		},
		Now:  report.clockTime,
		Jobs: jobs.New(jobs.Options{Workers: workers, Passes: errs.IsRefused, OnFailing: report.onRefusal, OnError: report.onTaskError}),
		Policy: policy.Options{
			GarbageShare: int(math.Ceil(100 * o.options.Maintenance.GarbageRatio)),
			Retention:    policy.Retention(o.options.KeyspaceDefaults.Versions),
		},
		Exclusive:   func(ctx context.Context, fn func() error) error { return (*commits).Do(ctx, fn) },
		PastDeletes: scan.PastDeletes,
		Events: engine.Events{
			OnWork: report.onWork, OnStall: report.onStall, OnLongReader: report.onLongReader,
			OnSpace: report.onDiskSpace, OnDamage: report.onFoundDamage, OnFailure: report.onFailure,
		},
	}, o.log)
	o.engine, o.commits = e, commits
	return recovery, err
}

// fileStore says where the files of the store are.
func (o *opening) fileStore() filename.Store {
	super := o.log.Super()
	return filename.Store{FS: o.at.FS, Dir: o.at.Dir, ValueDir: o.at.ValueDir, UUID: super.UUID, Seed: super.Seed, Ring: o.log.Ring()}
}

// clearDir removes all files of a directory.
func clearDir(mem *vfs.Mem, dir string) {
	names, _ := mem.List(dir)
	for _, name := range names {
		_ = mem.Remove(filepath.Join(dir, name))
	}
	_ = mem.SyncDir(dir) // until then Mem has them for a crash
}

// assembleDB makes the DB of the tree and a new commit pipeline. Neither of these refers to the DB
// or to Options: a leaked transaction keeps them, and could never be freed if one of the user's
// functions leads to it.
func (o *opening) assembleDB(recovery engine.Recovery) {
	seed := o.log.Super().Seed
	db := &DB{opts: o.options, engine: o.engine, base: o.base, locks: o.locks, dirs: o.held, report: o.report, began: time.Now()}
	// Copies, as a closure over o would keep the whole opening, with Options, while the DB lives.
	report, keys, memory := o.report, o.keyring, o.memory
	// Never 0: as a time of expiry that means never, and in a transaction that no clock was read.
	db.now = func() uint64 { return uint64(max(report.clockTime().UnixMilli(), 1)) }
	db.forget = func() {
		report.endReports()
		if keys != nil {
			if last := KeyProvider(keys.Provider()); db.commits != nil {
				db.lastKeys.Store(&last)
			}
			keys.Forget()
		}
		if memory != nil {
			clearDir(memory, "/")
		}
	}
	db.seed, db.counters.reads = seed, new(readCounters)
	e, spills := o.engine, spill.Config{Files: o.engine.Files, SegmentBytes: o.options.Tuning.SegmentSize, Coder: o.engine.Views.Coder}
	db.newSpill = func() pending.Files { return spill.Begin(spills, e.Spills, e.Views, seed) }
	sorted := spills
	sorted.Sorted = true
	db.newLoad = func() pending.Files { return spill.Begin(sorted, e.Spills, e.Views, seed) }
	db.direct = pending.NewMemoryLimiter(max(db.opts.txnMemory(0), leastDirect))
	db.main = newKeyspace(db, entry.DefaultKeyspace, "", o.options.KeyspaceDefaults)
	db.keyspaces.turn = jobs.NewTurn()
	// After the seed, which keyspaces copy when they are made.
	db.keyspaces.loadLocked(db) // nobody else has the DB yet
	o.db = db
	db.source = follow.Source{
		Fileset: checkpoint.Fileset{Store: o.fileStore(), Created: o.log.Super().Created},
		Views:   o.engine.Views, Follower: o.follower, Unflushed: o.engine.Unflushed,
		Memory: o.options.MemoryLimit, RunFileBytes: o.options.Tuning.RunFileSize, Now: o.report.clockTime,
	}
	// A store that is only read has no pipeline: nil says so everywhere.
	if o.options.Mode != ReadWrite {
		return
	}
	db.counters.sync = new(histogram)
	// Its clock is not Options.Now, which may go back or stand still: it measures syncs, and how
	// long a leader waits for others.
	db.commits = commit.New(commit.Config{
		Store:    commit.Over(o.engine.Commits, o.engine.Views),
		Journal:  o.engine.Journal,
		Last:     o.engine.Views.Visible(),
		HashSeed: seed,
		Now:      time.Now,
		OnSync:   db.counters.sync.addDuration,
	})
	*o.commits, db.source.Exclusive = db.commits, db.commits.Do
	// Background work calls the pipeline through the DB, so it starts last.
	o.engine.Start()
}
