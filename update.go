package brock

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/internal/view"
)

// View runs fn in a read-only transaction, and returns the error of fn. What the transaction
// has handed out is valid until fn returns. It returns ErrClosed if the store is closed, and
// ErrInvalid for a nil fn.
func (db *DB) View(fn func(txn *Txn) error) error { return db.main.View(fn) }

// ViewContext is View with options; o.Update is ignored. When ctx ends, the transaction's
// methods return its error. The errors for o are those of Begin.
func (db *DB) ViewContext(ctx context.Context, o TxnOptions, fn func(txn *Txn) error) error {
	return db.main.ViewContext(ctx, o, fn)
}

// View is DB.View with a transaction that addresses the keyspace.
func (k *Keyspace) View(fn func(txn *Txn) error) error {
	return k.ViewContext(context.Background(), TxnOptions{}, fn)
}

// ViewContext is DB.ViewContext with a transaction that addresses the keyspace.
func (k *Keyspace) ViewContext(ctx context.Context, o TxnOptions, fn func(txn *Txn) error) error {
	o.Update = false
	t, err := k.beginFor(ctx, &o, fn)
	if err != nil {
		return err
	}
	// Deferred, as a panic of fn goes on to the caller, and must not leave the pin behind.
	defer t.Discard()
	return fn(t)
}

// Update runs fn in a transaction and commits it if fn returns nil, with the durability of
// Options. Else it discards the transaction and returns the error of fn. If the commit
// conflicts, Update runs fn again in a new transaction. So fn should have no effects outside
// the transaction. Update returns the errors of Txn.Commit.
//
// From a call's second conflict on, calls that conflict over the same key or range run one
// after the other, first come, first served (from the first conflict on, if others take
// turns there already). So a call succeeds, no matter how many others there are. But writes
// by Set, batches and transactions begun by hand take no turns: after DefaultRetries
// conflicts, Update gives up with a *ConflictError. A turn ends after 100 ms, so that a slow
// function or commit does not hold up others. fn must not wait for another Update of what it has
// read.
func (db *DB) Update(fn func(txn *Txn) error) error { return db.main.Update(fn) }

// Update is DB.Update with a transaction that addresses the keyspace.
func (k *Keyspace) Update(fn func(txn *Txn) error) error {
	return k.UpdateContext(context.Background(), TxnOptions{}, fn)
}

// UpdateContext is Update with options; o.Update is ignored. When ctx ends, the methods of the
// transaction, and the waits between two runs, return its error. The errors for o are those of
// Begin.
func (db *DB) UpdateContext(ctx context.Context, o TxnOptions, fn func(txn *Txn) error) error {
	return db.main.UpdateContext(ctx, o, fn)
}

// UpdateContext is DB.UpdateContext with a transaction that addresses the keyspace.
func (k *Keyspace) UpdateContext(ctx context.Context, o TxnOptions, fn func(txn *Txn) error) error {
	o.Update = true
	retries := o.Retries
	switch {
	case o.ReadAt != 0: // it would read the same version and conflict again
		retries = 0
	case retries == 0:
		retries = DefaultRetries
	}
	var turn *commit.Turn // its place in the lines, from the first conflict on
	// Also if fn panics: those behind this call in the line would wait until its turn is over by
	// time.
	defer func() {
		if turn != nil {
			turn.End()
		}
	}()
	for run := 1; ; run++ {
		refused, err := k.updateOnce(ctx, &o, fn, turn, run <= retries)
		if refused == nil || retries <= 0 {
			return err
		}
		if refused.Runs = run; run > retries {
			return refused
		}
		if turn == nil {
			// One for all runs of the call, as it keeps its place in the lines. With a new one for
			// each run, younger calls could pass it again and again.
			turn = k.db.commits.Turns.New()
		}
		k.db.counters.retries.Add(1)
		// The first conflict is mostly by chance: a wait would only make the call slower. But one
		// with a call that has its turn comes again until that turn ends.
		if run > 1 || refused.refusal.Yields {
			if err := turn.Wait(ctx, refused.refusal); err != nil {
				return err
			}
		}
	}
}

// updateOnce runs fn once and commits. If the commit conflicts, it also returns the conflict,
// so that fn can run again. An error of fn goes to the user, even if it is ErrConflict.
// yields: fn can run again, so its commit may be refused in favour of another call's turn.
func (k *Keyspace) updateOnce(ctx context.Context, o *TxnOptions, fn func(txn *Txn) error, turn *commit.Turn, yields bool) (*ConflictError, error) {
	t, err := k.beginFor(ctx, o, fn)
	if err != nil {
		return nil, err
	}
	defer t.Discard()
	// The turn goes with the writes, as the commit pipeline asks about both.
	t.writes.turn, t.writes.yields = turn, yields
	if err := fn(t); err != nil {
		return nil, err
	}
	err = t.commitTxn(t.Context())
	// Not errors.As on the error of fn: only a refusal of this commit may run fn again.
	refused, _ := err.(*ConflictError)
	return refused, err
}

// NewTransaction begins a transaction, read-only or an update. End it by Commit or
// Discard: defer txn.Discard(). If it could not begin, its methods return the error.
func (db *DB) NewTransaction(update bool) *Txn {
	t, err := beginByHand(context.Background(), db, &TxnOptions{Update: update})
	if err != nil {
		t = newTxn(db)
		t.extra = &txnExtra{err: err}
	}
	return t
}

// Begin begins a transaction. End it by Commit or Discard. When ctx ends, the transaction's
// methods return its error.
//
// Begin returns an *OptionError for options that are invalid, ErrReadOnly for an update of a
// read-only store, ErrVersionGone if o.ReadAt is older than all versions that are retained, and
// ErrInvalid if it is newer than DB.Version.
func (db *DB) Begin(ctx context.Context, o TxnOptions) (*Txn, error) {
	return beginByHand(ctx, db, &o)
}

// beginByHand begins a transaction that the user must end. Only exported methods may call
// it, directly: the caller's caller is noted as the place where the transaction began.
func beginByHand(ctx context.Context, db *DB, o *TxnOptions) (*Txn, error) {
	var caller [1]uintptr
	// Past runtime.Callers, this function and the exported method: the user's line, for
	// Events.LongReader and Events.Leak.
	runtime.Callers(3, caller[:])
	t, err := beginTxn(ctx, db, o, caller[0]-1) // -1: the line of the call, not the one after it
	if err != nil {
		return nil, err
	}
	// Only transactions begun by hand can leak. The pin is released when the
	// garbage collector finds that nobody can end the transaction any more.
	if t.extra == nil {
		t.extra = new(txnExtra)
	}
	t.extra.leak = &leak{report: db.report, pin: t.pin}
	t.extra.cleanup = runtime.AddCleanup(t, (*leak).releaseLeaked, t.extra.leak)
	return t, nil
}

// leak has what must be released if a transaction that was begun by hand is never ended. It
// does not refer to the transaction, which could not become garbage otherwise, nor to the DB.
type leak struct {
	report *reporter
	pin    *view.Pin
	lent   atomic.Bool // the user has got memory of the pin's View
}

// releaseLeaked releases the pin of a leaked transaction, and reports the leak.
func (l *leak) releaseLeaked() {
	// First of all: after its release the pin is another reader's, with another version and origin.
	info := LeakInfo{Version: uint64(l.pin.Version()), Begun: l.pin.Origin(), Kept: l.lent.Load()}
	// A slice of the pin's memory does not keep the transaction alive: it may be in use.
	l.pin.ReleaseLeaked(info.Kept)
	l.report.onLeak(info)
}

// entryOf returns the program counter where fn begins, from which reports get fn's name. A
// func value points to it. reflect.Value.Pointer returns the same, but fn's captured
// variables would then be allocated on the heap.
func entryOf(fn func(*Txn) error) uintptr {
	return **(**uintptr)(unsafe.Pointer(&fn))
}

// beginFor begins a transaction for fn, which addresses the keyspace. The caller ends it; fn can't
// commit it.
func (k *Keyspace) beginFor(ctx context.Context, o *TxnOptions, fn func(*Txn) error) (*Txn, error) {
	if err := k.checkExists(); err != nil {
		return nil, err
	}
	if fn == nil {
		return nil, errNilFunction
	}
	t, err := beginTxn(ctx, k.db, o, entryOf(fn))
	if err != nil {
		return nil, err
	}
	// If fn could commit, Update could neither drop the writes when fn fails afterwards, nor run fn
	// again after a conflict.
	t.managed = true
	return t.In(k), nil
}

// beginTxn begins a transaction. origin is the program counter to report if it stays open long.
func beginTxn(ctx context.Context, db *DB, o *TxnOptions, origin uintptr) (*Txn, error) {
	if err := o.validateTxn(); err != nil {
		return nil, err
	}
	if err := checkRead(ctx, db); err != nil {
		return nil, err
	}
	if o.Update && db.commits == nil {
		return nil, ErrReadOnly
	}
	// A context that never ends need not be checked by every call.
	// Other contexts that never end may have values, which Txn.Context must return.
	if ctx.Done() == nil && ctx == context.Background() {
		ctx = nil
	}
	var p *view.Pin
	var err error
	if o.from == nil {
		p, err = db.engine.Views.Acquire(entry.Version(o.ReadAt))
	} else {
		p, err = o.from.fork()
	}
	if err != nil {
		return nil, err
	}
	// From here on nothing fails, so the pin can't leak.
	p.SetOrigin(origin)
	t := newTxn(db)
	t.pin, t.at, t.isolation, t.readAt = p, p.Version(), o.Isolation, o.ReadAt != 0
	if ctx != nil {
		t.extra = &txnExtra{ctx: ctx}
	}
	if o.Update {
		t.writes = newWrites()
		t.writes.Indexed = true
		t.writes.limit = db.opts.txnMemory(o.MaxMemory)
		t.writes.reads.Seed = db.seed
		t.writes.reads.Limit = int(max(t.writes.limit, minReadSet))
		t.synced = db.opts.isSynced(o.Durability)
		if o.CommitAt != 0 {
			t.writes.BeginVersion(entry.Version(o.CommitAt))
		}
	}
	t.phase = uint16(rand.Uint32())
	t.active.Store(true)
	// Another keyspace may have history of this version that the default one lacks.
	if t.readAt {
		t.keyspace = t.addressKeyspace(nil)
	}
	return t, nil
}
