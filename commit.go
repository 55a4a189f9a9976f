package brock

import (
	"bytes"
	"context"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/internal/txn/pending"
)

// writes has the pending writes of a transaction or batch, and what its commit needs.
type writes struct {
	pending.Writes
	limit     int64            // bytes of memory above which they go to files
	written   commit.Keyspaces // keyspaces that are written to
	addressed commit.Keyspaces // keyspaces that a Serializable transaction may have read
	reads     commit.ReadSet   // keys and ranges that a Serializable transaction has read
	request   commit.Request   // of its commit, which another goroutine may lead
	yields    bool             // the transaction can run again, so it yields to others' turns
	turn      *commit.Turn     // place in the lines of Update; nil = none
	sorted    bool             // they come in rising order of keys, from a Loader
}

var writesPool = sync.Pool{New: func() any { return new(writes) }}

func newWrites() *writes { return writesPool.Get().(*writes) }

// returnToPool empties w and keeps it for later transactions. Nothing may refer to it any more.
func (w *writes) returnToPool() {
	w.Writes.Reset()
	w.written.Reset()
	w.addressed.Reset()
	w.reads.Reset()
	// A request refers to its payload, and a turn to its line: the pool must keep neither alive.
	w.request, w.yields, w.turn = commit.Request{}, false, nil
	// A pool would keep the memory of one large transaction for ever.
	if w.memoryBytes() <= pending.MaxPooled {
		writesPool.Put(w)
	}
}

// memoryBytes is how many bytes of memory w takes with all its parts, also when it is empty.
func (w *writes) memoryBytes() int {
	return w.Writes.MemoryBytes() + w.reads.Memory() + w.written.Memory() + w.addressed.Memory()
}

// addWrite adds a set or a delete of e in the keyspace k. Key and value are copied; a value that is
// too large for the memory limit is copied to a file at once. After an error that is not ErrInvalid
// the writes must be discarded: Err returns that error from then on.
func (w *writes) addWrite(ctx context.Context, k *Keyspace, e *Entry, kind entry.Kind, now func() uint64) (err error) {
	if err := e.checkLimits(); err != nil {
		return err
	}
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	// The write is encoded now: the caller may reuse key and value when this returns.
	// Loaded once: SetOptions may replace it meanwhile, and time to live and compression must be
	// those of one set of options.
	c := k.encoder.Load()
	write := e.makeWrite(kind, c, now)
	// Before the write, which may fail half-way: a keyspace too many can only refuse a commit, but
	// one that is missing would let a commit write to a dropped keyspace.
	k.noteWritten(&w.written)
	if w.IsLarge(&write, w.limit) {
		large := write // AddLarge has its entry escape; that of other writes stays on the stack
		return w.AddLarge(ctx, w.spillTo(k.db), c, &large)
	}
	w.Add(c, &write)
	return nil
}

// deleteRange adds a range delete of [lo, hi) in the keyspace k; nil is no bound.
func (w *writes) deleteRange(k *Keyspace, lo, hi []byte) error {
	if len(lo) > MaxKeySize || len(hi) > MaxKeySize {
		return ErrKeyTooLarge
	}
	lo, hi, err := k.storedBounds(nil, lo, hi, nil)
	if err != nil {
		return err
	}
	// An empty range is no error and no write: it must not make the drop of the keyspace refuse the
	// commit.
	if bytes.Compare(lo, hi) < 0 {
		w.DeleteRange(lo, hi)
		k.noteWritten(&w.written)
	}
	return nil
}

// leastDirect is the least memory limit for writes by DB.Set and other calls that commit
// one write. It has room for the longest key with the longest inline value.
const leastDirect = 2 << 20

// minReadSet is the least memory limit of a read set, in bytes: so much is always noted key
// by key, and does not become ranges.
const minReadSet = 64 << 10

// loaderBlock is how many bytes of records a sorted load gathers before they are written: few enough
// for the caches of a processor.
const loaderBlock = 256 << 10

// finishWrite must be called after each write, with its error. It moves the writes to files if they
// take more memory than limit.
func (w *writes) finishWrite(ctx context.Context, db *DB, err error) error {
	limit := w.limit
	if w.sorted {
		limit = min(limit, loaderBlock)
	}
	if err == nil && w.BytesInMemory() > limit {
		err = w.SpillMemory(ctx, w.spillTo(db))
	}
	// Nobody has read what has no index, so the files of incomplete writes go at once: the user need
	// not end a batch. An error that is ErrInvalid leaves the writes as they were.
	if err != nil && !w.Indexed && w.Err() != nil {
		w.discardFiles()
	}
	return err
}

// spillTo returns what makes the files of spilled writes.
func (w *writes) spillTo(db *DB) func() pending.Files {
	if w.sorted {
		return db.newLoad
	}
	return db.newSpill
}

// discardFiles removes the files of spilled writes, unless they were committed.
func (w *writes) discardFiles() {
	if files := w.Files(); files != nil {
		files.Discard()
	}
}

// commitUnchecked is commitWrites of writes that have read nothing: only the drop of a keyspace that
// they write to, which is checked at every isolation, refuses them.
func (w *writes) commitUnchecked(ctx context.Context, db *DB, synced bool) (entry.Version, error) {
	return w.commitWrites(ctx, db, commit.Check{Isolation: commit.LastWriterWins, Written: w.written}, synced)
}

// commitWrites commits w if c holds, and adds to the counters. When it returns without an error, the
// writes are durable if synced is set or if they were spilled.
func (w *writes) commitWrites(ctx context.Context, db *DB, c commit.Check, synced bool) (v entry.Version, err error) {
	// The store may have been closed since the transaction began.
	if err := checkWritable(db); err != nil {
		return 0, err
	}
	begin := sinceOpen(db)
	var entries, bytes int64
	// Spilled writes don't go through the journal. They commit alone, between two groups, by
	// one edit of the manifest.
	if files := w.Files(); files == nil {
		if err := w.Err(); err != nil {
			return 0, err
		}
		payload, records := w.Payload()
		// It lies in w, which is pooled: the leader is another goroutine, so each commit would have
		// to allocate its request.
		w.request = commit.Request{Payload: payload, Records: records, Ranges: w.RangesInPayload(), Check: c, Synced: synced, Given: w.Given(), Yields: w.yields, Turn: w.turn, Operations: w.Operations()}
		if w.request.Operations != nil {
			w.request.Now = db.now()
		}
		v, err = db.commits.Commit(ctx, &w.request)
		entries, bytes = int64(w.request.Records), int64(len(w.request.Payload))
	} else if err = w.SpillMemory(ctx, w.spillTo(db)); err == nil {
		// All of them: SpillMemory has moved what was left in memory, as the edit adds files and nothing
		// else.
		var at entry.Version
		if given := w.Given(); len(given) > 0 {
			at = given[0].Version
		}
		v, err = db.commits.CommitAlone(ctx, files, c, at)
		entries, bytes = files.Entries(), files.Bytes()
	}
	db.counters.addCommit(sinceOpen(db)-begin, err, entries, bytes)
	return v, err
}
