package brock

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

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
	t, err := db.beginFor(ctx, &o, fn)
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

// Update runs fn in a transaction and commits it if fn returns nil. If the
// commit conflicts, fn is run again in a new transaction, DefaultRetries times
// at most, so it should have no other effects.
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
	for run := 0; ; run++ {
		// An error of fn itself is the caller's, even if it is ErrConflict: only a
		// conflict of the commit runs fn again.
		committing, err := db.updateOnce(ctx, &o, fn)
		if !committing || run >= retries || !errors.Is(err, ErrConflict) {
			return err
		}
		db.counters.retries.Add(1)
		if err := backOff(ctx, run); err != nil {
			return err
		}
	}
}

// updateOnce reports, beside the error, whether it comes from the commit.
func (db *DB) updateOnce(ctx context.Context, o *TxnOptions, fn func(txn *Txn) error) (committing bool, err error) {
	t, err := db.beginFor(ctx, o, fn)
	if err != nil {
		return false, err
	}
	defer t.Discard()
	if err := fn(t); err != nil {
		return false, err
	}
	return true, t.commit()
}

// The wait before the n-th rerun is random, up to a bound that doubles.
const (
	firstBackOff = 50 * time.Microsecond
	lastBackOff  = 20 * time.Millisecond
)

func backOff(ctx context.Context, run int) error {
	// Chance keeps transactions that conflict from meeting again and again.
	bound := min(firstBackOff<<min(run, 16), lastBackOff)
	select {
	case <-time.After(rand.N(bound)):
		return nil
	case <-never(ctx).Done():
		return ctx.Err()
	}
}

// NewTransaction begins a transaction, read-only or an update. End it by Commit or
// Discard: defer txn.Discard(). If it could not begin, its methods return the error.
func (db *DB) NewTransaction(update bool) *Txn {
	t, err := db.beginByHand(context.Background(), &TxnOptions{Update: update})
	if err != nil {
		t = newTxn(db)
		t.rare = &rare{err: err}
	}
	return t
}

// Begin begins a transaction, as NewTransaction does. When ctx ends, the
// transaction's methods return its error.
func (db *DB) Begin(ctx context.Context, o TxnOptions) (*Txn, error) {
	return db.beginByHand(ctx, &o)
}

// beginByHand is called by what the user calls, and by nothing else.
func (db *DB) beginByHand(ctx context.Context, o *TxnOptions) (*Txn, error) {
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
func (db *DB) beginFor(ctx context.Context, o *TxnOptions, fn func(*Txn) error) (*Txn, error) {
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
		t.writes.limit = db.txnMemory(o.MaxMemory)
		t.writes.reads.Limit = int(max(t.writes.limit, minReadSet))
		t.synced = db.synced(o.Durability)
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
