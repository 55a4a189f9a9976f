package brock

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/internal/view"
)

// Isolation says what a transaction is checked for when it commits. At each level
// all reads of a transaction see the same version of the store.
type Isolation uint8

// The isolation levels.
const (
	Serializable      Isolation = 0 // nothing that it read has changed: keys, absent keys, and ranges that its iterators covered; very many keys are noted as ranges that contain them
	SnapshotIsolation Isolation = 1 // no key that it writes, but not by Apply, was written since it began; write skew is possible
	LastWriterWins    Isolation = 2 // nothing is checked
)

// TxnOptions configures a transaction. The zero value is a read-only transaction.
type TxnOptions struct {
	Update     bool       // the transaction may write
	Isolation  Isolation  // what an update is checked for
	Durability Durability // of an update's commit; zero = use Options.Durability
	ReadAt     uint64     // version to read, see Retention.Age; an update is checked against all commits after it; 0 = the newest
	CommitAt   uint64     // version that an update's commit gets, greater than that of every commit before; 0 = the next one
	MaxMemory  int64      // bytes of memory for an update's writes, and as many for its read set; more writes go to files; 0 = 1/8 of MemoryLimit; at most 1 GiB
	Retries    int        // how often UpdateContext runs its function again after ErrConflict; none with ReadAt; 0 = DefaultRetries, <0 = none

	from *Snapshot // that it reads; nil: the store
}

func (o *TxnOptions) validateTxn() error {
	switch {
	case o.Isolation > LastWriterWins:
		return &OptionError{Field: "Isolation", Reason: "is unknown"}
	case o.MaxMemory < 0:
		return &OptionError{Field: "MaxMemory", Reason: "is negative"}
	case o.MaxMemory > maxTxnMemory:
		return &OptionError{Field: "MaxMemory", Reason: "is above 1 GiB"}
	case o.Durability > Buffered:
		return errUnknownDurability
	case o.CommitAt > MaxCommitAt:
		return &OptionError{Field: "CommitAt", Reason: "is above MaxCommitAt"}
	case o.CommitAt != 0 && !o.Update:
		return &OptionError{Field: "CommitAt", Reason: "needs Update"}
	}
	return nil
}

// Txn is a transaction. It reads one version of the store. Only the transaction sees its
// writes until Commit, which makes them visible together. One goroutine at a time may
// use it; but each iterator of a read-only transaction may have its own goroutine.
//
// End every Txn by Commit or Discard. After that its methods return ErrTxnDone, and after
// the store was closed ErrClosed: they never panic.
//
// A Txn addresses one keyspace, the default one at first. In returns the same
// transaction addressing another.
type Txn struct {
	*transaction
	keyspace *Keyspace // the keyspace that it addresses
}

// newTxn allocates a transaction and its first Txn together: one allocation, not two.
func newTxn(db *DB) *Txn {
	t := new(struct {
		first       Txn
		transaction transaction
	})
	// Not from a pool: users may keep a Txn beyond its end. A pooled one could then be somebody
	// else's open transaction, and no check could tell (decision 10).
	t.first = Txn{&t.transaction, db.main}
	t.transaction.db = db
	return &t.first
}

// transaction is what the Txns of all keyspaces (Txn.In) have in common.
type transaction struct {
	db     *DB       // the store
	pin    *view.Pin // what it reads from: one View, one version
	writes *writes   // nil in a read-only transaction
	extra  *txnExtra // nil in most transactions

	active    atomic.Bool   // it has not ended, and its Commit has not begun
	gets      uint32        // point reads
	iterators atomic.Uint32 // iterators that were made
	phase     uint16        // random start of the sampling of the latency of gets
	isolation Isolation
	synced    bool          // Commit waits until the writes are durable
	managed   bool          // View or Update ends it, so Commit is refused
	taken     bool          // the user has an Item in first: it must not be reused
	readAt    bool          // TxnOptions.ReadAt was set
	clock     atomic.Uint64 // time for expiry, in Unix milliseconds; 0 = not read yet
	at        entry.Version // version that it reads
	committed entry.Version // version of its writes after a Commit

	lent lentKeys   // copies to poison at the end
	mu   sync.Mutex // guards:
	open *Iterator  // head of the list of open iterators

	// The first item found and its key lie in the transaction itself, so that a View
	// with one Get allocates once. Keep the struct small for that case: with the first Txn
	// (newTxn) it takes 288 bytes now, which is a size that the Go heap has.
	more     *results // the items after the first
	first    result
	firstKey [48]byte
}

// txnExtra has the fields that few transactions need, to keep transaction small.
type txnExtra struct {
	ctx     context.Context // nil: never ends
	err     error           // why the transaction could not begin
	leak    *leak           // for a transaction begun by hand, which may leak; nil in View and Update
	cleanup runtime.Cleanup // runs leak.release when the transaction is garbage
}

// checkAddressed returns nil while the transaction is open and the keyspace that t addresses can be
// used. Else it returns the error for the caller.
func (t *Txn) checkAddressed() error {
	if err := t.transaction.checkActive(); err != nil {
		return err
	}
	// Not Keyspace.checkExists: a keyspace that was dropped after the transaction began is still read as
	// it was.
	return t.keyspace.refused
}

// checkActive returns nil while the transaction is open. Else it returns the reason: the transaction
// has ended, the store was closed, or the context has ended. The nil transaction is that of a zero
// Txn.
func (t *transaction) checkActive() error {
	switch {
	case t == nil:
		return ErrTxnDone
	// Before all else: the pin of a transaction that has ended may be another reader's by now.
	case !t.active.Load():
		if t.extra != nil && t.extra.err != nil {
			return t.extra.err
		}
		return ErrTxnDone
	case t.db.closed.Load():
		return ErrClosed
	// Each call asks the context, and no goroutine waits for it. So after the context's end the
	// transaction still holds its View until it is discarded.
	case t.extra != nil && t.extra.ctx != nil:
		return t.extra.ctx.Err()
	}
	return nil
}

// In returns the same transaction, addressing the keyspace ks; nil is the default
// one. Commit and Discard of either end both.
//
// If ks can't be read, the calls that follow return the error: ErrVersionGone if
// TxnOptions.ReadAt is older than the versions that ks retains, or than ks itself;
// ErrKeyspaceNotFound if ks was dropped before the transaction began. A keyspace
// that is dropped later is still read as it was, but Commit returns
// ErrKeyspaceNotFound if the transaction wrote to it, and ErrConflict if the
// transaction is Serializable and addressed it.
func (t *Txn) In(ks *Keyspace) *Txn {
	if t.transaction == nil || t.keyspace == ks {
		return t
	}
	s := t.addressKeyspace(ks)
	if s == t.keyspace {
		return t
	}
	// It may be read from now on, so a drop of it counts as a conflict.
	if t.writes != nil && t.isolation == Serializable && s.refused == nil {
		s.noteWritten(&t.writes.addressed)
	}
	// A new Txn, as t goes on addressing the keyspace that it has.
	return &Txn{t.transaction, s}
}

// addressKeyspace returns ks; nil is the default keyspace. If the transaction can't
// use ks, it returns a stand-in that makes each call return the reason (refusing).
func (t *transaction) addressKeyspace(ks *Keyspace) *Keyspace {
	s := resolveKeyspace(t.db, ks)
	switch {
	case t.checkActive() != nil: // the pin may be gone; later calls return that error
	case s.refused != nil:
	case s.absentFrom(t.pin):
		return refusingKeyspace(ErrKeyspaceNotFound)
	// Begin can't ask this: it fails only if no keyspace has the version, as each retains history
	// by its own options.
	case t.readAt && t.at < t.pin.FloorOf(s.at.ID):
		return refusingKeyspace(ErrVersionGone)
	}
	return s
}

// Get returns the item of key, or ErrKeyNotFound. The item is valid until the transaction ends. key
// is copied. Get also returns ErrKeyTooLarge, ErrTxnDone,
// ErrClosed, the error of the transaction's context, a *CorruptionError for damage, and ErrRefused
// if the disk can't be read.
func (t *Txn) Get(key []byte) (item *Item, err error) {
	r, stored, err := t.findKey(key)
	if err != nil {
		return nil, err
	}
	t.markUsed(r, stored)
	// A lookup leaves the entry's key unspecified. This one lies in memory of the transaction, so
	// it stays valid whatever happens to files.
	r.entry.Key = stored
	r.item.placeEntry(t.transaction, &r.entry)
	r.item.found = true
	return &r.item, nil
}

// Has reports whether key has a value. It does not read the value. Its errors are those of Get,
// without ErrKeyNotFound.
func (t *Txn) Has(key []byte) (found bool, err error) {
	_, _, err = t.findKey(key)
	return wasFound(err)
}

// wasFound says what err, of the lookup of a key, says of it.
func wasFound(err error) (bool, error) {
	if err == ErrKeyNotFound {
		return false, nil
	}
	return err == nil, err
}

// findKey looks key up, first in the pending writes, then in the pinned View. If the transaction is
// Serializable, it adds the key to the read set, whether found or not. Result and stored key lie in
// memory of the transaction, which the next call reuses unless they are marked as used. So absent
// keys cost none.
func (t *Txn) findKey(key []byte) (r *result, stored []byte, err error) {
	if err := t.checkAddressed(); err != nil {
		return nil, nil, err
	}
	if err := checkKey(key); err != nil {
		return nil, nil, err
	}
	// It also covers the copy of key, which may itself be a slice of a mapped file.
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	r, stored = t.scratchItem(key)
	found := false
	h := checksum.HashKey(t.db.seed, stored)
	// Own writes hide what is committed. A key that is found there needs no conflict check:
	// the transaction has not seen what others have committed for it.
	if w := t.writes; w != nil {
		if found, err = t.getOwn(stored, h, &r.entry); err != nil {
			return nil, nil, err
		}
		// Whatever the lookup finds: somebody may commit a key that is absent now, and that is a
		// conflict too.
		if !found && t.isolation == Serializable {
			w.reads.AddKey(stored, h)
		}
	}
	if !found {
		found, err = t.lookupStored(stored, h, &r.entry)
	}
	// The View returns deletes and expired entries as it does others: they end a lookup, as they
	// hide what lies in older places.
	switch e := &r.entry; {
	case err != nil:
		return nil, nil, err
	case !found, e.Kind == entry.Delete, e.Expires != 0 && !e.Live(t.expiryNow()):
		return nil, nil, ErrKeyNotFound
	}
	return r, stored, nil
}

// getOwn is Writes.Get, for operations too.
func (t *transaction) getOwn(stored []byte, h uint64, e *entry.Entry) (found bool, err error) {
	found, err = t.writes.Get(stored, h, e)
	if !found || err != nil || e.Kind != pending.Unseen {
		return found, err
	}
	if err := t.showResult(stored, h); err != nil {
		return false, err
	}
	return t.writes.Get(stored, h, e)
}

// showResult reads a stored key that operations were applied to, so that own reads find the result.
func (t *transaction) showResult(stored []byte, h uint64) error {
	if t.isolation == Serializable {
		t.writes.reads.AddKey(stored, h)
	}
	var base entry.Entry
	// All of a long value, as OpClearIf may leave it to be seen.
	if err := t.pin.ReadBase(stored, h, MaxValueSize, &base); err != nil {
		return err
	}
	return t.writes.Resolve(stored, h, &base, t.expiryNow())
}

// sampleReads: the latency of one point read in 256 is measured, since to read the clock
// twice would slow a read down.
const sampleReads = 256

// lookupStored gets a stored key from the pinned View, and measures every 256th call.
func (t *transaction) lookupStored(stored []byte, h uint64, e *entry.Entry) (bool, error) {
	t.gets++
	// Most transactions have fewer than 256 gets. If each counted from zero, none of theirs would
	// ever be measured.
	if (t.gets+uint32(t.phase))%sampleReads != 0 {
		found, err := t.pin.Get(stored, h, e)
		runtime.KeepAlive(t) // a leaked transaction must not end during its last call
		return found, err
	}
	begin := sinceOpen(t.db)
	found, err := t.pin.Get(stored, h, e)
	t.db.counters.read.addDuration(sinceOpen(t.db) - begin)
	return found, err
}

// readSeparated reads the separated value of an entry that the transaction has found: from the
// pinned View or, for its own writes, from its spilled files. See view.Pin.ReadValue.
func (t *transaction) readSeparated(e *entry.Entry, dst []byte, lend bool) (value []byte, own bool, err error) {
	if e.Version == rangedel.Pending {
		return t.writes.Files().Value(e.Key, e, dst)
	}
	return t.pin.ReadValue(e.Key, e, dst, lend)
}

// expiryNow returns the time for expiry. It reads the clock once for each transaction, so that
// all its reads agree on what has expired.
func (t *transaction) expiryNow() uint64 {
	if now := t.clock.Load(); now != 0 {
		return now
	}
	// Iterators on several goroutines may get here at once: all must see one time.
	t.clock.CompareAndSwap(0, max(t.db.now(), 1))
	return t.clock.Load()
}

// writeTime returns the time from which a time to live counts: that of the write. It is never
// before the transaction's own time, by which its reads may see the entry.
func (t *transaction) writeTime() uint64 { return max(t.expiryNow(), t.db.now()) }

// expiryClock lets scans ask the transaction for its time for expiry.
type expiryClock transaction

// Now returns the transaction's time for expiry.
func (c *expiryClock) Now() uint64 { return (*transaction)(c).expiryNow() }

// noteLent notes that the user gets memory of the pin. If the transaction leaks after that, its
// View must stay, as the user may still read the memory (view.Pin.Keep).
func (t *transaction) noteLent() {
	// With CopyValues the user has copies only, so even after a leak nobody can still look at the
	// View's memory.
	if t.extra != nil && t.extra.leak != nil && !t.db.opts.CopyValues {
		t.extra.leak.lent.Store(true)
	}
}

// Set writes a pair. Key and value are copied. It returns ErrReadOnly in a read-only
// transaction, and ErrInvalid for a key or value that can't be stored: then the transaction is
// as before the call, and can be used. After any other error, such as ErrNoSpace when writes go
// to files, discard the transaction. Delete, SetEntry and DeleteRange return the same errors.
func (t *Txn) Set(key, value []byte) error {
	return t.addWrite(&Entry{Key: key, Value: value}, entry.Set)
}

// SetEntry writes a pair with its attributes. Key and value are copied; e can be used again. A nil
// e and a negative TTL are ErrInvalid.
func (t *Txn) SetEntry(e *Entry) error { return t.addWrite(e, entry.Set) }

// Delete deletes key, whether or not it has a value. key is copied.
func (t *Txn) Delete(key []byte) error {
	return t.addWrite(&Entry{Key: key}, entry.Delete)
}

func (t *Txn) addWrite(e *Entry, kind entry.Kind) error {
	if err := t.checkUpdate(); err != nil {
		return err
	}
	// Writes may go to files here, and the end of the transaction's context must end that too.
	ctx := t.Context()
	return t.writes.finishWrite(ctx, t.db, t.writes.addWrite(ctx, t.keyspace, e, kind, t.writeTime))
}

// checkUpdate returns nil if the transaction can write to its keyspace.
func (t *Txn) checkUpdate() error {
	if err := t.checkAddressed(); err != nil {
		return err
	}
	if t.writes == nil {
		return ErrReadOnly
	}
	// After a failure to write them to files, pending writes may be incomplete.
	return t.writes.Err()
}

// Commit makes all writes visible at once, and durable as the transaction's Durability
// says. The transaction has ended, whatever Commit returns.
//
// After an error that is ErrStopped, the next Open finds either all writes or none. After any
// other error nothing was written: a *ConflictError (run the transaction again), ErrVersionMismatch
// if TxnOptions.CommitAt is not above the newest version any more (which a run does not help), ErrNoSpace,
// ErrRefused, ErrKeyspaceNotFound, ErrClosed, ErrInvalid or ErrUnsupported as Apply says, or the
// error of a context that has ended before the commit began. Once the commit has begun, Commit
// waits for it.
//
// In a function given to View or Update, Commit returns ErrInvalid and does nothing: Update
// commits when the function has returned. So it does in the Filter of an iterator of an update.
func (t *Txn) Commit() error { return t.CommitContext(t.Context()) }

// CommitContext is Commit with a context of its own: it waits for its turn no longer than ctx
// lasts. The transaction must not have outlived its own context.
func (t *Txn) CommitContext(ctx context.Context) error {
	if t.transaction == nil {
		return ErrTxnDone
	}
	if ctx == nil {
		return errNilContext
	}
	// A managed transaction that has ended returns ErrTxnDone below, as any other does.
	if t.managed && t.active.Load() {
		return errManaged
	}
	if t.refuseNestedEnd() {
		return errNestedMove
	}
	return t.commitTxn(ctx)
}

func (t *transaction) commitTxn(ctx context.Context) error {
	// The caller expects the transaction to have ended, whatever is returned.
	if err := cmp.Or(t.checkActive(), errs.Ended(ctx)); err != nil {
		t.discardWrites()
		return err
	}
	// Not a plain store: if two goroutines end it against the rules, a second release of the pin
	// would take the View from the reader who has that pin by then.
	if !t.active.CompareAndSwap(true, false) {
		return ErrTxnDone
	}
	defer t.endTransaction()
	w := t.writes
	// Without writes there is nothing to check: all reads are of one version, so the
	// transaction is serializable as of that version.
	if w == nil || w.Len() == 0 {
		return nil
	}
	t.closeIterators() // this adds the ranges that they have read to the read set
	c := commit.Check{
		Isolation: commit.Isolation(t.isolation),
		Since:     t.pin.Version(),
		Reads:     &w.reads,
		Written:   w.written,
		Addressed: w.addressed,
	}
	v, err := w.commitWrites(ctx, t.db, c, t.synced)
	if err != nil {
		return explainRefusal(err, &c)
	}
	t.committed = v
	return nil
}

// Discard ends the transaction, drops its writes and closes its iterators. It may be
// called at any time, also after Commit and more than once. After a Discard in a function
// given to Update, Update commits nothing and returns ErrTxnDone. For a nil Txn, which Begin
// returns with an error, it does nothing; nor does it in the Filter of an iterator of an update.
func (t *Txn) Discard() {
	if t != nil && t.transaction != nil && !t.refuseNestedEnd() {
		t.discardWrites()
	}
}

// refuseNestedEnd reports whether a Filter asks for the end of an update, whose iterators can't end in the
// middle of a move. Those of a read-only transaction hold what they read by themselves.
func (t *transaction) refuseNestedEnd() (nested bool) {
	if !t.active.Load() || t.writes == nil {
		return false
	}
	for it := t.open; it != nil; it = it.next {
		// In this order, and without leaving the loop early: the call also notes the error in each
		// iterator whose filter asks.
		nested = it.refuseNested() || nested
	}
	return nested
}

func (t *transaction) discardWrites() {
	if t.active.CompareAndSwap(true, false) {
		t.endTransaction()
	}
}

// endTransaction releases what the transaction holds. It is not active any more, so later calls
// don't use what is released here.
func (t *transaction) endTransaction() {
	// It was ended as it should be: the garbage collector must not release its pin once more.
	if t.extra != nil && t.extra.leak != nil {
		t.extra.cleanup.Stop()
	}
	t.closeIterators()
	// Counters are shared by all transactions: each adds to them once, at its end.
	t.db.counters.addReads(int64(t.gets), int64(t.iterators.Load()), uint32(t.phase))
	t.lent.poison()
	if w := t.writes; w != nil {
		// Gone before the pool has them: a call that comes too late must not reach the writes of
		// another transaction.
		t.writes = nil
		w.discardFiles()
		w.returnToPool()
	}
	// After closeIterators, which gives iterators on other goroutines their share of the pin. Else
	// the View could be freed in the middle of their moves.
	t.pin.Release()
}

// closeIterators ends the iterators that are still open. Those of an update belong to this
// goroutine, so they are closed now. Those of a read-only transaction may be in use on other
// goroutines now. So each gets a hold of the pin, and gives it back later: when it is used next
// or, if it has leaked, when the garbage collector frees it.
func (t *transaction) closeIterators() {
	if t.writes != nil {
		for it := t.open; it != nil; it = t.open {
			it.releaseOnce()
			// Without it the next move would say that the user has closed the iterator.
			it.err = ErrTxnDone
		}
		return
	}
	if t.iterators.Load() == 0 { // most have none, and need no lock
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for it := t.open; it != nil; it = t.open {
		t.pin.AddReference()
		runtime.AddCleanup(it, (*orphan).releaseOrphan, it.makeOrphan())
	}
}

// ReadVersion returns the version that the transaction reads, also after its end.
func (t *Txn) ReadVersion() uint64 {
	if t.transaction == nil {
		return 0
	}
	return uint64(t.at)
}

// CommitVersion returns the version of the transaction's writes after a Commit that
// wrote something, else 0.
func (t *Txn) CommitVersion() uint64 {
	if t.transaction == nil {
		return 0
	}
	return uint64(t.committed)
}

// Context returns the context that Begin, ViewContext or UpdateContext was given.
func (t *Txn) Context() context.Context {
	if t.transaction == nil || t.extra == nil || t.extra.ctx == nil {
		return context.Background()
	}
	return t.extra.ctx
}
