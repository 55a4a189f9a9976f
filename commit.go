package brock

import (
	"bytes"
	"context"
	"sync"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/pending"
)

// writes are what a transaction or batch writes, and what its commit needs.
type writes struct {
	pending.Writes
	limit     int64              // bytes of memory from which on they go to files
	written   conflict.Keyspaces // keyspaces that are written to
	addressed conflict.Keyspaces // keyspaces that a Serializable transaction may have read
	reads     conflict.ReadSet
	request   commit.Request
	yields    bool         // the transaction may be run again
	turn      *commit.Turn // nil: it has none
}

var writesPool = sync.Pool{New: func() any { return new(writes) }}

func newWrites() *writes { return writesPool.Get().(*writes) }

// recycle gives w to later transactions. Nothing may refer to it any more.
func (w *writes) recycle() {
	small := w.Writes.Reset()
	w.written.Reset()
	w.addressed.Reset()
	w.reads.Reset()
	w.request, w.yields, w.turn = commit.Request{}, false, nil
	// A pool would keep the memory of one large transaction for ever.
	if small {
		writesPool.Put(w)
	}
}

// add adds wr to the writes of the keyspace k. Key and value are copied: to files, if
// memory has no room for the value. After an error that is not ErrInvalid the writes
// can only be discarded, and Err returns it.
func (w *writes) add(ctx context.Context, db *DB, k *keyspaceState, wr *write, now func() uint64) (err error) {
	if err := wr.check(); err != nil {
		return err
	}
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	// Encoded at once: the caller's key and value are free when this returns.
	c := k.encoder.Load()
	e := wr.entry(c, now)
	k.note(&w.written)
	if w.Large(&e, w.limit) {
		return w.AddLarge(never(ctx), db.tree, c, &e)
	}
	w.Add(c, &e)
	return nil
}

// deleteRange adds the delete of the keys in [lo, hi) of the keyspace k; nil is no
// bound.
func (w *writes) deleteRange(k *keyspaceState, lo, hi []byte) error {
	if len(lo) > MaxKeySize || len(hi) > MaxKeySize {
		return ErrKeyTooLarge
	}
	lo, hi, err := k.bounds(lo, hi)
	if err != nil {
		return err
	}
	if bytes.Compare(lo, hi) < 0 {
		w.DeleteRange(lo, hi)
		k.note(&w.written)
	}
	return nil
}

// leastDirect is the least memory for writes that are a commit of one call each: for the
// longest key, and the longest value that is kept beside its key.
const leastDirect = 2 << 20

// minReadSet is how much of what a transaction reads is always noted exactly, in bytes.
const minReadSet = 64 << 10

// spillIfLarge writes what is in memory to files once that is too much.
func (w *writes) spillIfLarge(ctx context.Context, db *DB) error {
	if w.InMemory() <= w.limit {
		return nil
	}
	return w.Spill(never(ctx), db.tree)
}

// commit commits w if c holds, and counts that. A nil ctx never ends. Writes in
// files are durable when it returns, others if synced.
func (db *DB) commit(ctx context.Context, w *writes, c conflict.Check, synced bool) (v entry.Version, err error) {
	if err := db.writable(); err != nil {
		return 0, err
	}
	ctx = never(ctx)
	begin := monotonic(db)
	var entries, bytes int64
	// Writes in files don't pass the journal: they commit in a turn of their own, by one
	// edit of the manifest.
	if files := w.Files(); files == nil {
		payload, records := w.Payload()
		entries, bytes = int64(records), int64(len(payload))
		w.request = commit.Request{Payload: payload, Records: records, Ranges: w.InPayload(), Check: c, Synced: synced, Yields: w.yields, Turn: w.turn}
		v, err = db.commits.Commit(ctx, &w.request)
	} else if err = w.SpillRest(ctx, db.tree); err == nil {
		v, err = db.commits.CommitAlone(ctx, files, c, w.turn)
		entries, bytes = files.Entries(), files.Bytes()
	}
	db.counters.addCommit(monotonic(db)-begin, err, entries, bytes)
	return v, err
}

// never is ctx, or for nil one that never ends.
func never(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
