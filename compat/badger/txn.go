package badger

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock"
)

// badgerPrefix begins the keys of the store itself.
var badgerPrefix = []byte("!badger!")

// maxKeySize is Badger's limit. Brock would take longer keys.
const maxKeySize = 65000

// Txn is a transaction. It reads one version of the store, and only the transaction sees its writes
// until Commit. One goroutine at a time may use an update. Several may call Get of a read-only
// transaction, and each of its iterators may have its own. End it by Commit or Discard.
type Txn struct {
	db     *DB
	brock  *brock.Txn // of a managed store it is read-only, and addresses the versions
	readTs uint64

	update    bool
	discarded bool
	inUpdate  bool                  // a function given to Update has it, so it can't commit by itself
	taken     bool                  // the user has the first item
	writes    int                   // calls that have written
	count     int64                 // of Badger's limits: writes
	size      int64                 // of Badger's limits: bytes
	commitTs  uint64                // managed mode: of CommitAt
	failed    atomic.Pointer[error] // why an iterator has ended early, or the transaction could not begin

	pending map[string]*Entry // writes of a managed store
	reads   []uint64          // managed mode: hashes of the keys read
	point   sync.Mutex        // held during point reads of a read-only transaction
	undo    *undo             // what iterators that are open still see; nil: nothing was written meanwhile
	open    *Iterator         // list of the open iterators of an update
	items   []Item            // free items for later reads
	first   Item              // that of the first read, so that it needs no allocation
}

// NewTransaction begins a transaction, read-only or an update. If it could not begin, its methods
// return the error. It panics in managed mode: use NewTransactionAt there.
func (db *DB) NewTransaction(update bool) *Txn {
	if db.opt.managedTxns {
		panic("ReadTs should not be retrieved for managed DB")
	}
	db.queue.settle() // it sees what CommitWith was called for
	return db.beginTxn(0, update)
}

// NewTransactionAt begins a transaction that reads at readTs. It panics unless the store is managed.
func (db *DB) NewTransactionAt(readTs uint64, update bool) *Txn {
	if !db.opt.managedTxns {
		panic("Cannot use NewTransactionAt with managedDB=false. Use NewTransaction instead.")
	}
	return db.beginTxn(readTs, update)
}

// makeTxn returns a transaction whose part of Brock is yet to come.
func (db *DB) makeTxn(readTs uint64, update bool) *Txn {
	// In a read-only store all transactions are.
	return &Txn{db: db, readTs: readTs, update: update && !db.opt.ReadOnly, count: 1, size: int64(len("!badger!txn") + 10)}
}

// brockOptions returns the options of Brock's transaction.
func (t *Txn) brockOptions() brock.TxnOptions {
	if !t.update || t.db.opt.managedTxns {
		return brock.TxnOptions{}
	}
	o := brock.TxnOptions{Update: true, Retries: -1}
	if !t.db.opt.DetectConflicts {
		o.Isolation = brock.LastWriterWins
	}
	return o
}

// beginTxn begins a transaction that the user ends.
func (db *DB) beginTxn(readTs uint64, update bool) *Txn {
	t := db.makeTxn(readTs, update)
	b, err := db.store.Begin(context.Background(), t.brockOptions())
	if err != nil {
		t.fail(readError(err))
		return t
	}
	t.adopt(b)
	return t
}

// adopt gives it the transaction of Brock.
func (t *Txn) adopt(b *brock.Txn) {
	if t.brock = b; t.db.opt.managedTxns {
		t.brock = b.In(t.db.data)
	} else {
		t.readTs = b.ReadVersion()
	}
}

// View runs fn in a read-only transaction, and returns its error. In managed mode it reads the newest
// versions. It returns ErrDBClosed after Close, and the error of an iterator that has ended early.
func (db *DB) View(fn func(txn *Txn) error) error {
	if db.IsClosed() {
		return ErrDBClosed
	}
	var readTs uint64
	if db.opt.managedTxns {
		readTs = newestTs
	} else {
		db.queue.settle()
	}
	t := db.makeTxn(readTs, false)
	err := db.store.View(func(b *brock.Txn) error {
		t.adopt(b)
		defer t.end()
		return t.finish(fn(t))
	})
	if t.brock == nil { // it could not begin
		return readError(err)
	}
	return err
}

// Update runs fn in a transaction and commits it, if fn returns nil. fn runs once: after ErrConflict
// call Update again. It returns ErrDBClosed after Close, and the errors of Commit. It panics in managed
// mode.
func (db *DB) Update(fn func(txn *Txn) error) error {
	if db.IsClosed() {
		return ErrDBClosed
	}
	if db.opt.managedTxns {
		panic("Update can only be used with managedDB=false.")
	}
	t := db.makeTxn(0, true)
	if !t.update { // a read-only store
		return db.View(fn)
	}
	t.inUpdate = true
	db.queue.settle()
	var ofFn error
	err := db.store.UpdateContext(context.Background(), t.brockOptions(), func(b *brock.Txn) error {
		t.adopt(b)
		defer t.end()
		discarded := false
		if ofFn = t.finish(fn(t)); ofFn == nil {
			discarded = t.discarded
		}
		switch {
		case discarded && t.writes > 0:
			ofFn = errDiscardedCommit
		case discarded:
			ofFn = errNothingToCommit
		}
		return ofFn
	})
	switch {
	case ofFn == errNothingToCommit:
		return nil
	case ofFn != nil:
		return ofFn
	case t.brock == nil:
		return readError(err)
	}
	return writeError(err)
}

// finish returns the error of the user's function, or that of an iterator, which the function could not
// see.
func (t *Txn) finish(err error) error {
	if err == nil {
		err = t.failure()
	}
	return err
}

// fail notes an error that no call could return. Several iterators may do so at once.
func (t *Txn) fail(err error) { t.failed.CompareAndSwap(nil, &err) }

// failure returns the error that was noted first.
func (t *Txn) failure() error {
	if p := t.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// end ends the transaction on this side. Brock's ends by itself.
func (t *Txn) end() {
	t.discarded, t.open, t.undo, t.pending = true, nil, nil, nil
}

// ReadTs returns the version that the transaction reads.
func (t *Txn) ReadTs() uint64 { return t.readTs }

// checkReadable returns nil while the transaction can read.
func (t *Txn) checkReadable() error {
	switch {
	case t.discarded:
		return ErrDiscardedTxn
	case t.brock == nil:
		return t.failure()
	case t.db.IsClosed():
		return ErrDBClosed
	}
	return nil
}

// Get returns the item of key. The item is valid until the transaction ends. Several goroutines may call
// it, and read the values, if the transaction is read-only. It returns ErrKeyNotFound,
// ErrEmptyKey, ErrDiscardedTxn, ErrBannedKey, ErrDBClosed, and Brock's errors for what can't be read.
func (t *Txn) Get(key []byte) (item *Item, rerr error) {
	if len(key) == 0 {
		return nil, ErrEmptyKey
	}
	if err := t.checkReadable(); err != nil {
		return nil, err
	}
	if err := t.db.checkBanned(key); err != nil {
		return nil, err
	}
	// Badger's doesn't promise it, but there goroutines can share a read-only transaction.
	if !t.update {
		t.point.Lock()
		defer t.point.Unlock()
	}
	if t.db.opt.managedTxns {
		return t.getVersion(key)
	}
	found, err := t.brock.Get(key)
	if err != nil {
		return nil, readError(err)
	}
	item = t.newItem()
	item.source = found
	return item, nil
}

// itemBlock is how many items are allocated at once, from the second on.
const itemBlock = 8

// newItem returns an item that stays the user's until the transaction ends.
func (t *Txn) newItem() *Item {
	if !t.taken {
		t.taken = true
		t.first.txn, t.first.shared = t, !t.update
		return &t.first
	}
	if len(t.items) == 0 {
		t.items = make([]Item, itemBlock)
	}
	item := &t.items[0]
	t.items = t.items[1:]
	item.txn, item.shared = t, !t.update
	return item
}

// Set writes a pair. Key and value are copied. It returns ErrReadOnlyTxn, ErrDiscardedTxn, ErrEmptyKey,
// ErrInvalidKey, ErrBannedKey, an error for a key or value that is too long, with
// Options.LimitTxnSize ErrTxnTooBig, and Brock's error if writes that go to files can't be written.
func (t *Txn) Set(key, val []byte) error {
	e := Entry{Key: key, Value: val}
	return t.modify(&e)
}

// SetEntry writes a pair with its attributes, as Set does.
func (t *Txn) SetEntry(e *Entry) error { return t.modify(e) }

// Delete deletes key. Its errors are those of Set.
func (t *Txn) Delete(key []byte) error {
	e := Entry{Key: key, flags: flagDeleted}
	return t.modify(&e)
}

func (t *Txn) modify(e *Entry) error {
	switch {
	case !t.update:
		return ErrReadOnlyTxn
	case t.discarded:
		return ErrDiscardedTxn
	case t.brock == nil:
		if err := t.failure(); err != ErrDBClosed {
			return err
		}
		return ErrBlockedWrites // as a write of Badger ends after Close, there at the commit
	}
	if err := t.db.checkEntry(e); err != nil {
		return err
	}
	if err := t.countWrite(e); err != nil {
		return err
	}
	if t.db.opt.managedTxns {
		t.addPending(e)
		return nil
	}
	if t.open != nil {
		if err := t.noteUndo(e.Key); err != nil {
			return readError(err)
		}
	}
	err := t.write(e)
	if err == nil {
		t.writes++
	}
	return writeError(err)
}

// write writes to the transaction of Brock.
func (t *Txn) write(e *Entry) error {
	switch {
	case e.flags&flagDeleted != 0:
		return t.brock.Delete(e.Key)
	case e.ExpiresAt == 0 && e.UserMeta == 0 && e.flags == 0:
		return t.brock.Set(e.Key, e.Value)
	}
	b := e.toBrock()
	return t.brock.SetEntry(&b)
}

// checkEntry returns an error for an entry that Badger refuses.
func (db *DB) checkEntry(e *Entry) error {
	switch {
	case len(e.Key) == 0:
		return ErrEmptyKey
	case bytes.HasPrefix(e.Key, badgerPrefix):
		return ErrInvalidKey
	case len(e.Key) > maxKeySize:
		return tooLong("Key", maxKeySize, e.Key)
	case int64(len(e.Value)) > db.opt.ValueLogFileSize:
		return tooLong("Value", db.opt.ValueLogFileSize, e.Value)
	}
	return db.checkBanned(e.Key)
}

func tooLong(what string, limit int64, b []byte) error {
	return fmt.Errorf("%s with size %d exceeded %d limit. %s:\n%s", what, len(b), limit, what, hex.Dump(b[:min(len(b), 1<<10)]))
}

// countWrite counts a write as Badger does, and returns ErrTxnTooBig if that is asked for.
func (t *Txn) countWrite(e *Entry) error {
	if !t.db.opt.LimitTxnSize {
		return nil
	}
	opt := &t.db.opt
	count, size := t.count+1, t.size+e.estimateSize(opt.ValueThreshold)+10
	if count >= opt.maxBatchCount || size >= opt.maxBatchSize {
		return ErrTxnTooBig
	}
	t.count, t.size = count, size
	return nil
}

// Discard ends the transaction and drops its writes. It may be called more than once, and after Commit.
// It closes iterators that are open.
func (t *Txn) Discard() {
	if t.discarded {
		return
	}
	t.end()
	if t.brock != nil {
		t.brock.Discard()
	}
}

// Commit makes all writes visible at once. The transaction has ended, whatever Commit returns, except
// for a managed one without a version. Without writes it is Discard, and returns nil. It returns
// ErrConflict, ErrBlockedWrites after Close, the error of an iterator that has ended early, and Brock's
// errors: as on a full disk. Then nothing was written; after an error that is brock.ErrStopped the next
// Open finds all writes or none.
func (t *Txn) Commit() error {
	if t.writes == 0 {
		t.Discard()
		return nil
	}
	if err := t.checkCommit(); err != nil {
		return err
	}
	defer t.Discard()
	if err := t.failure(); err != nil {
		return err
	}
	if t.db.IsClosed() { // Close may wait for Subscribes yet
		return ErrBlockedWrites
	}
	t.db.queue.settle()
	if t.db.opt.managedTxns {
		return writeError(t.commitPending())
	}
	return writeError(t.brock.Commit())
}

// checkCommit returns an error of use, after which the transaction is as it was.
func (t *Txn) checkCommit() error {
	switch {
	case t.discarded:
		return errDiscardedCommit
	case t.inUpdate:
		return errNestedCommit
	case t.db.opt.managedTxns && t.commitTs == 0:
		return errNoCommitTs
	}
	return nil
}

// CommitWith is Commit in the background: it returns at once, and then cb gets the result on a goroutine of
// its own. Commits keep the order of the calls. Transactions that begin later see the writes, in managed
// mode once cb was called. If 1000 wait already, it waits; Close waits for all. With Options.SyncWrites the
// commits of a managed store share syncs. It panics for a nil cb.
func (t *Txn) CommitWith(cb func(error)) {
	if cb == nil {
		panic("Nil callback provided to CommitWith")
	}
	if t.writes == 0 {
		t.Discard()
		go cb(nil)
		return
	}
	// As in Badger: on the caller's goroutine if the transaction is not ended by this.
	if err := t.checkCommit(); err != nil {
		cb(err)
		return
	}
	if err := t.commitLater(cb); err != nil {
		go cb(err)
	}
	t.Discard()
}

// commitLater gives the writes to the queue.
func (t *Txn) commitLater(cb func(error)) error {
	if err := t.failure(); err != nil {
		return err
	}
	c := queued{writes: t.pending, version: t.commitTs, done: cb}
	if t.db.opt.managedTxns {
		if err := t.admitPending(); err != nil {
			return err
		}
	} else {
		c.txn = t.brock
	}
	if !t.db.queue.add(c) {
		return ErrBlockedWrites
	}
	if c.txn != nil {
		t.brock = nil // the queue has it
	}
	return nil
}

// CommitAt commits at the version commitTs, and calls callback as CommitWith does, unless it is nil. It
// panics unless the store is managed.
func (t *Txn) CommitAt(commitTs uint64, callback func(error)) error {
	if !t.db.opt.managedTxns {
		panic("Cannot use CommitAt with managedDB=false. Use Commit instead.")
	}
	t.commitTs = commitTs
	if callback == nil {
		return t.Commit()
	}
	t.CommitWith(callback)
	return nil
}
