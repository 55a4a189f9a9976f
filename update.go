package brock

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/view"
)

// View runs fn in a read-only transaction, and returns its error.
func (db *DB) View(fn func(txn *Txn) error) error {
	return db.ViewContext(context.Background(), TxnOptions{}, fn)
}

// ViewContext is View with options. When ctx ends, the transaction's methods return
// its error.
func (db *DB) ViewContext(ctx context.Context, o TxnOptions, fn func(txn *Txn) error) error {
	o.Update = false
	t, err := beginFor(ctx, db, &o, fn)
	if err != nil {
		return err
	}
	defer t.Discard()
	return fn(t)
}

// View is DB.View with a transaction that addresses the keyspace.
func (k *Keyspace) View(fn func(txn *Txn) error) error {
	if err := k.usable(); err != nil {
		return err
	}
	if fn == nil {
		return errNilFunction
	}
	return k.db.View(func(txn *Txn) error { return fn(txn.In(k)) })
}

// Update runs fn in a transaction and commits it if fn returns nil. If the commit
// conflicts, fn is run again in a new transaction, so it should have no other effects.
//
// From the second conflict on, or the first if others do so already, calls that conflict
// over the same key or range run one after the other, first come, first served. So a call
// gets through, however many others there are: it gives up, with a *ConflictError, after
// DefaultRetries conflicts with writes that take no turns, such as those of Set, batches
// and transactions begun by hand. A turn ends after 100 ms, so that nobody waits for a
// slow function. fn must not wait for another Update of what it has read.
func (db *DB) Update(fn func(txn *Txn) error) error {
	return db.UpdateContext(context.Background(), TxnOptions{}, fn)
}

// Update is DB.Update with a transaction that addresses the keyspace.
func (k *Keyspace) Update(fn func(txn *Txn) error) error {
	if err := k.usable(); err != nil {
		return err
	}
	if fn == nil {
		return errNilFunction
	}
	return k.db.Update(func(txn *Txn) error { return fn(txn.In(k)) })
}

// UpdateContext is Update with options. When ctx ends, the methods of the
// transaction, and the waits between two runs, return its error.
func (db *DB) UpdateContext(ctx context.Context, o TxnOptions, fn func(txn *Txn) error) error {
	o.Update = true
	retries := o.Retries
	switch {
	case o.ReadAt != 0: // what conflicted will do so again
		retries = 0
	case retries == 0:
		retries = DefaultRetries
	}
	refused, err := updateOnce(ctx, db, &o, fn, nil, retries > 0)
	if refused == nil || retries <= 0 {
		return err
	}
	return updateAgain(ctx, db, &o, fn, retries, refused)
}

// updateAgain runs fn again after the first conflict: once beside others, who may
// have been ahead by chance, and then in turn. Where others take turns already, chance
// has no part.
func updateAgain(ctx context.Context, db *DB, o *TxnOptions, fn func(txn *Txn) error, retries int, refused *ConflictError) error {
	turn := db.commits.Turns.New()
	defer turn.End()
	for run := 1; ; run++ {
		db.counters.retries.Add(1)
		if run > 1 || refused.refusal.Yields {
			if err := turn.Wait(never(ctx), refused.refusal); err != nil {
				return err
			}
		}
		var err error
		if refused, err = updateOnce(ctx, db, o, fn, turn, run < retries); refused == nil {
			return err
		}
		if refused.Runs = run + 1; run >= retries {
			return refused
		}
	}
}

// updateOnce returns, beside the error, that of the commit if it is a conflict. One of fn
// itself is the caller's, even if it is ErrConflict. yields says that fn may run again.
func updateOnce(ctx context.Context, db *DB, o *TxnOptions, fn func(txn *Txn) error, turn *commit.Turn, yields bool) (*ConflictError, error) {
	t, err := beginFor(ctx, db, o, fn)
	if err != nil {
		return nil, err
	}
	defer t.Discard()
	t.writes.turn, t.writes.yields = turn, yields
	if err := fn(t); err != nil {
		return nil, err
	}
	err = t.commit()
	refused, _ := err.(*ConflictError)
	return refused, err
}

// NewTransaction begins a transaction, read-only or an update. End it by Commit or
// Discard: defer txn.Discard(). If it could not begin, its methods return the error.
func (db *DB) NewTransaction(update bool) *Txn {
	t, err := beginByHand(context.Background(), db, &TxnOptions{Update: update})
	if err != nil {
		t = newTxn(db)
		t.rare = &rare{err: err}
	}
	return t
}

// Begin begins a transaction, as NewTransaction does. When ctx ends, the
// transaction's methods return its error.
func (db *DB) Begin(ctx context.Context, o TxnOptions) (*Txn, error) {
	return beginByHand(ctx, db, &o)
}

// beginByHand is called by what the user calls, and by nothing else.
func beginByHand(ctx context.Context, db *DB, o *TxnOptions) (*Txn, error) {
	var caller [1]uintptr
	runtime.Callers(3, caller[:])
	t, err := db.begin(ctx, o, caller[0]-1) // what was called, not where it returns to
	if err != nil {
		return nil, err
	}
	// Only transactions begun by hand can leak. The pin is released when the
	// garbage collector finds that nobody can end the transaction any more.
	if t.rare == nil {
		t.rare = new(rare)
	}
	t.rare.leak = &leak{db: db, pin: t.pin}
	t.rare.cleanup = runtime.AddCleanup(t, (*leak).release, t.rare.leak)
	return t, nil
}

// leak is what a transaction that was begun by hand holds, should it leak.
type leak struct {
	db   *DB
	pin  *view.Pin
	lent atomic.Bool // it has handed out memory that its pin keeps
}

func (l *leak) release() {
	info := LeakInfo{Version: uint64(l.pin.Version()), Begun: l.pin.Begun(), Kept: l.lent.Load()}
	// A slice that was handed out doesn't keep its transaction alive, and may be in use.
	if info.Kept {
		l.pin.Keep()
	} else {
		l.pin.Release()
	}
	l.db.counters.leaked.Add(1)
	l.db.report.onLeak(info)
}

// entryOf is the program counter of fn, which names it. A func value points to
// one; package reflect says so too, but has what fn captures allocated for it.
func entryOf(fn func(*Txn) error) uintptr {
	return **(**uintptr)(unsafe.Pointer(&fn))
}

// beginFor starts a transaction for fn, which does not end it: its caller does.
func beginFor(ctx context.Context, db *DB, o *TxnOptions, fn func(*Txn) error) (*Txn, error) {
	if fn == nil {
		return nil, errNilFunction
	}
	t, err := db.begin(ctx, o, entryOf(fn))
	if err == nil {
		t.managed = true
	}
	return t, err
}

// begin starts a transaction. Its origin is a program counter.
func (db *DB) begin(ctx context.Context, o *TxnOptions, origin uintptr) (*Txn, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := db.usable(); err != nil {
		return nil, err
	}
	if o.Update && db.commits == nil {
		return nil, ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// A context that never ends need not be asked by every call.
	if ctx.Done() == nil && ctx == context.Background() {
		ctx = nil
	}
	p, err := db.tree.Acquire(entry.Version(o.ReadAt))
	if err != nil {
		return nil, err
	}
	// From here on nothing fails, so that the pin always has an owner.
	p.From(origin)
	t := newTxn(db)
	t.pin, t.at, t.isolation, t.readAt = p, p.Version(), o.Isolation, o.ReadAt != 0
	if ctx != nil {
		t.rare = &rare{ctx: ctx}
	}
	if o.Update {
		t.writes = newWrites()
		t.writes.Indexed = true
		t.writes.limit = db.opts.txnMemory(o.MaxMemory)
		t.writes.reads.Seed = db.encoding.seed
		t.writes.reads.Limit = int(max(t.writes.limit, minReadSet))
		t.synced = db.opts.synced(o.Durability)
	}
	t.phase = rand.Uint32()
	t.holds.Store(1)
	t.state.Store(txnOpen)
	// The default keyspace may lack history of this version, though another has it.
	if t.readAt {
		t.keyspace = t.address(nil)
	}
	return t, nil
}
