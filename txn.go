package brock

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/scan"
	"github.com/brockdb/brock/internal/tree"
	"github.com/brockdb/brock/internal/view"
)

// Isolation says what a transaction is checked for when it commits. At each level
// all reads of a transaction see the same version of the store.
type Isolation uint8

// The isolation levels.
const (
	Serializable      Isolation = 0 // nothing that it read has changed: keys, absent keys, and ranges that its iterators covered; very many keys count as ranges that cover them
	SnapshotIsolation Isolation = 1 // no key that it writes was written since it began; write skew is possible
	LastWriterWins    Isolation = 2 // nothing is checked
)

// TxnOptions configures a transaction. The zero value is a read-only transaction.
type TxnOptions struct {
	Update     bool       // the transaction may write
	Isolation  Isolation  // what an update is checked for
	Durability Durability // of an update's commit; zero = use Options.Durability
	ReadAt     uint64     // version to read, see Retention.Age; an update is checked against all commits after it; 0 = the newest
	MaxMemory  int64      // bytes of memory for an update's writes, beyond which they go to files, and as many for what it read; 0 = 1/8 of MemoryLimit, at most 1 GiB
	Retries    int        // of UpdateContext without ReadAt: most runs after the first one, on ErrConflict; 0 = DefaultRetries, <0 = none
}

func (o *TxnOptions) validate() error {
	switch {
	case o.Isolation > LastWriterWins:
		return &OptionError{Field: "Isolation", Reason: "is unknown"}
	case o.MaxMemory < 0:
		return &OptionError{Field: "MaxMemory", Reason: "is negative"}
	case o.MaxMemory > maxTxnMemory:
		return &OptionError{Field: "MaxMemory", Reason: "is above 1 GiB"}
	case o.Durability > Buffered:
		return &OptionError{Field: "Durability", Reason: "is unknown"}
	}
	return nil
}

// Txn is a transaction. It reads one version of the store. The writes of an update
// are seen by the transaction alone until they are committed together. It belongs
// to one goroutine at a time; but each iterator of a read-only transaction may have
// a goroutine of its own.
//
// End every Txn by Commit or Discard. Its methods then return ErrTxnDone, and
// ErrClosed after the store was closed. No misuse does worse than that.
//
// A Txn addresses one keyspace, the default one at first. In returns the same
// transaction addressing another.
type Txn struct {
	*transaction
	keyspace *keyspaceState // that its keys are of
}

// newTxn is a transaction and its Txn in one piece of memory.
func newTxn(db *DB) *Txn {
	t := new(struct {
		first       Txn
		transaction transaction
	})
	t.first = Txn{&t.transaction, db.main.state}
	t.transaction.db = db
	return &t.first
}

// transaction is what all Txns of a transaction share.
type transaction struct {
	db     *DB
	pin    *view.Pin
	writes *writes // nil in a read-only transaction
	rare   *rare   // nil: none of it

	state     atomic.Uint32
	holds     atomic.Int32 // of the pin: the transaction's and its open iterators'
	gets      uint32       // point reads
	phase     uint32       // in the sampling of their latency
	iterators uint32
	isolation Isolation
	synced    bool
	managed   bool // View or Update ends it
	taken     bool // first is an item that was handed out
	readAt    bool // at was asked for
	clock     atomic.Uint64
	at        entry.Version
	committed entry.Version

	mu   sync.Mutex
	open *Iterator // head of the list of open iterators
	lent lentKeys  // copies to poison at the end

	// The first item found and its key lie in the Txn itself, so that a View
	// with one Get allocates once; every byte of it counts there.
	more     *results // the other items
	first    result
	firstKey [48]byte
}

// rare is what few transactions have.
type rare struct {
	ctx     context.Context // nil: never ends
	err     error           // why the transaction never began
	leak    *leak           // of one that may leak; nil: its end is certain
	cleanup runtime.Cleanup // of the leak
	spill   *tree.Spill     // the pending writes that are in files
}

// The states of a Txn; the zero Txn is done.
const (
	txnDone uint32 = iota
	txnOpen
	txnCommitting
	txnCommitted
)

// usable returns nil while the transaction can go on, in this keyspace.
func (t *Txn) usable() error {
	if t.transaction == nil {
		return ErrTxnDone
	}
	if err := t.transaction.usable(); err != nil {
		return err
	}
	return t.keyspace.refused
}

// usable returns nil while the transaction can go on.
func (t *transaction) usable() error {
	if t.state.Load() != txnOpen {
		if t.rare != nil && t.rare.err != nil {
			return t.rare.err
		}
		return ErrTxnDone
	}
	if t.db.closed.Load() {
		return ErrClosed
	}
	if ctx := t.ctx(); ctx != nil {
		return ctx.Err()
	}
	return nil
}

// ctx is the context that governs the transaction; nil never ends.
func (t *transaction) ctx() context.Context {
	if t.rare == nil {
		return nil
	}
	return t.rare.ctx
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
	if t.transaction == nil {
		return t
	}
	s := t.address(ks)
	if s == t.keyspace {
		return t
	}
	if t.writes != nil && t.isolation == Serializable && s.refused == nil {
		s.note(&t.writes.addressed)
	}
	return &Txn{t.transaction, s}
}

// address is the keyspace ks, or stands in for it.
func (t *transaction) address(ks *Keyspace) *keyspaceState {
	s := t.db.main.state
	switch {
	case ks == nil:
	case ks.db != t.db:
		return refusing(errKeyspaceForeign)
	default:
		s = ks.state
	}
	switch {
	case t.usable() != nil: // whatever is done says so
	case s.absentFrom(t.pin, t.db.commits == nil):
		return refusing(ErrKeyspaceNotFound)
	case t.readAt && t.at < t.pin.Floor(s.ID):
		return refusing(ErrVersionGone)
	}
	return s
}

// Get returns the item of key, or ErrKeyNotFound.
func (t *Txn) Get(key []byte) (item *Item, err error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	// Item and key lie in memory of the transaction, and are only kept if the key is
	// found: absent keys cost no memory.
	r, stored := t.scratch(key)
	found, err := t.find(stored, &r.entry)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrKeyNotFound
	}
	t.keep(r, stored)
	r.entry.Key = stored
	r.item.place(t.transaction, &r.entry)
	r.item.found = true
	return &r.item, nil
}

// Has reports whether key has a value. It does not read the value.
func (t *Txn) Has(key []byte) (found bool, err error) {
	if err := t.usable(); err != nil {
		return false, err
	}
	if err := checkKey(key); err != nil {
		return false, err
	}
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	r, stored := t.scratch(key)
	return t.find(stored, &r.entry)
}

// find looks a stored key up, in the pending writes first, and notes that it was read.
// A pageio.Guard must be on.
func (t *transaction) find(stored []byte, e *entry.Entry) (bool, error) {
	found := false
	h := hash.Sum(t.db.encoding.seed, stored)
	// Own writes hide what is committed. To find one is no read that could conflict:
	// nobody else can change it.
	if w := t.writes; w != nil {
		var err error
		if found, err = w.Get(stored, h, e); err != nil {
			return false, err
		}
		if !found && t.isolation == Serializable {
			w.reads.AddKey(stored, h)
		}
	}
	if !found {
		var err error
		if found, err = t.lookup(stored, h, e); !found || err != nil {
			return false, err
		}
	}
	if e.Expires == 0 {
		return e.Kind != entry.Delete, nil
	}
	return e.Live(t.now()), nil
}

// sampleReads is how many point reads share one measurement of their latency.
const sampleReads = 256

func (t *transaction) lookup(stored []byte, h uint64, e *entry.Entry) (bool, error) {
	t.gets++
	if (t.gets+t.phase)%sampleReads != 0 {
		found, err := t.pin.Get(stored, h, e)
		runtime.KeepAlive(t) // a leaked transaction must not end during its last call
		return found, err
	}
	begin := monotonic(t.db)
	found, err := t.pin.Get(stored, h, e)
	t.db.counters.read.observe(monotonic(t.db) - begin)
	return found, err
}

// values is where the separated values of the transaction are read.
func (t *transaction) values() scan.Values {
	if t.rare == nil {
		return scan.Values{Pin: t.pin}
	}
	return scan.Values{Pin: t.pin, Files: t.rare.spill}
}

// value reads a value that is separated, or compressed among the pending writes;
// see view.Pin.OwnValue.
func (t *transaction) value(e *entry.Entry, dst []byte) (value []byte, own bool, err error) {
	if e.Separated {
		return t.values().Value(e.Key, e, dst)
	}
	value, err = t.db.encoding.compression.Decode(dst, e.Codec, e.Value, int(e.Raw))
	return value, true, err
}

// now is the time for expiry, read from the clock once a transaction.
func (t *transaction) now() uint64 {
	if now := t.clock.Load(); now != 0 {
		return now
	}
	// Iterators on several goroutines may get here at once: all must see one time.
	t.clock.CompareAndSwap(0, max(t.db.now(), 1))
	return t.clock.Load()
}

// expiryClock is a transaction as the clock of its scans.
type expiryClock transaction

// Now is the transaction's time for expiry.
func (c *expiryClock) Now() uint64 { return (*transaction)(c).now() }

// lends notes that memory of the pin is handed out.
func (t *transaction) lends() {
	if t.rare != nil && t.rare.leak != nil && !t.db.opts.CopyValues {
		t.rare.leak.lent.Store(true)
	}
}

// lend is b as a copy that is poisoned at the end.
func (t *transaction) lend(b []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lent.lend(b)
}

// Set writes a pair. Key and value are copied. After an error that is ErrInvalid
// the transaction is as it was. After another error, such as ErrNoSpace when writes
// go to files, it can only be discarded.
func (t *Txn) Set(key, value []byte) error {
	return t.write(&write{key: key, value: value, kind: entry.Set})
}

// SetEntry writes a pair with its attributes. Key and value are copied.
func (t *Txn) SetEntry(e *Entry) error {
	if e == nil {
		return errNilEntry
	}
	w := e.write()
	return t.write(&w)
}

// Delete deletes key, whether or not it has a value.
func (t *Txn) Delete(key []byte) error {
	return t.write(&write{key: key, kind: entry.Delete})
}

func (t *Txn) write(w *write) error {
	if err := t.takes(); err != nil {
		return err
	}
	return t.wrote(t.writes.add(t.ctx(), t.db, t.keyspace, w, t.now))
}

// takes returns nil while the transaction takes writes to its keyspace.
func (t *Txn) takes() error {
	if err := t.usable(); err != nil {
		return err
	}
	if t.writes == nil {
		return ErrReadOnly
	}
	// After a failure to write them to files, pending writes may be incomplete.
	return t.writes.Err()
}

// wrote ends a write that has returned err: what is in memory goes to files once that
// is too much.
func (t *transaction) wrote(err error) error {
	if err == nil {
		err = t.writes.spillIfLarge(t.ctx(), t.db)
	}
	// The files are read until the last iterator has ended, long after the writes are
	// recycled, so the transaction keeps them too.
	if files := t.writes.Files(); files != nil {
		if t.rare == nil {
			t.rare = new(rare)
		}
		t.rare.spill = files
	}
	return err
}

// Commit makes all writes visible at once, and durable as the transaction's
// Durability says. It returns a *ConflictError if nothing was written and the
// transaction should be run again. The transaction has ended in any case.
//
// If the context ends before the commit begins, Commit returns the context's error
// and nothing was written. Once the commit has begun, Commit waits for it.
//
// In a function that View or Update runs, Commit returns ErrInvalid and does nothing:
// Update commits when the function has returned.
func (t *Txn) Commit() error {
	if t.transaction == nil {
		return ErrTxnDone
	}
	if t.managed && t.state.Load() == txnOpen {
		return errManaged
	}
	return t.commit()
}

func (t *transaction) commit() error {
	if err := t.usable(); err != nil {
		t.discard()
		return err
	}
	if !t.state.CompareAndSwap(txnOpen, txnCommitting) {
		return ErrTxnDone
	}
	w := t.writes
	// Without writes the transaction has seen one version and changed nothing: there
	// is nothing to check.
	if w == nil || w.Len() == 0 {
		t.end(txnCommitted)
		return nil
	}
	t.closeIterators() // completes the ranges read
	c := t.check()
	v, err := t.db.commit(t.ctx(), w, c, t.synced)
	if err != nil {
		err = explained(err, &c)
		t.end(txnDone)
		return err
	}
	t.committed = v
	t.end(txnCommitted)
	return nil
}

// check is what must hold for the transaction to commit.
func (t *transaction) check() conflict.Check {
	w := t.writes
	return conflict.Check{
		Isolation: conflict.Isolation(t.isolation),
		Since:     t.pin.Version(),
		Reads:     &w.reads,
		Written:   w.written,
		Addressed: w.addressed,
	}
}

// Discard ends the transaction, forgets its writes and closes its iterators. It may
// be called at any time, also after Commit and twice. After a Discard in a function
// that Update runs, Update commits nothing and returns ErrTxnDone. Of a nil Txn, as Begin
// returns with an error, it does nothing.
func (t *Txn) Discard() {
	if t != nil && t.transaction != nil {
		t.discard()
	}
}

func (t *transaction) discard() {
	if t.state.CompareAndSwap(txnOpen, txnDone) {
		t.end(txnDone)
	}
}

// end releases everything and leaves the transaction in state.
func (t *transaction) end(state uint32) {
	if t.rare != nil && t.rare.leak != nil {
		t.rare.cleanup.Stop()
	}
	// From now on every call is refused, so nobody begins to use what is released.
	t.state.Store(state)
	t.closeIterators()
	// Counters are shared by all transactions: each adds to them once, at its end.
	t.db.counters.addReads(int64(t.gets), int64(t.iterators), t.phase)
	t.lent.poison()
	if w := t.writes; w != nil {
		t.writes = nil
		w.recycle()
	}
	t.drop()
}

// closeIterators ends the iterators that are still open. Those of an update run
// on its goroutine and are closed. Those of a read-only transaction may be in
// use elsewhere this moment, so each releases its own hold of the pin when it is
// next used or, if it has leaked, when it is collected.
func (t *transaction) closeIterators() {
	if t.writes != nil {
		for it := t.open; it != nil; it = t.open {
			it.release()
			it.err = ErrTxnDone
		}
		return
	}
	if t.holds.Load() == 1 { // the transaction's: none is open
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for it := t.open; it != nil; it = t.open {
		runtime.AddCleanup(it, (*orphan).release, it.orphaned())
	}
}

// drop gives one hold of the pin back.
func (t *transaction) drop() {
	if t.holds.Add(-1) == 0 {
		t.pin.Release()
		if t.rare != nil && t.rare.spill != nil {
			t.rare.spill.Discard()
		}
	}
}

// ReadVersion returns the version that the transaction reads.
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
	if t.transaction == nil {
		return context.Background()
	}
	return never(t.ctx())
}
