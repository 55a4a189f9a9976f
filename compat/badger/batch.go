package badger

import (
	"context"
	"sync"

	"github.com/dgraph-io/ristretto/v2/z"
	"google.golang.org/protobuf/proto"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/compat/badger/pb"
	"github.com/brockdb/brock/compat/badger/y"
)

// WriteBatch writes in bulk, in groups: each group is a commit of its own. Some of them may be committed
// before Flush, and all are once Flush has returned nil. It reads nothing, so it never conflicts. Any
// number of goroutines may use it.
type WriteBatch struct {
	sync.Mutex // guards what follows

	db       *DB
	plain    *brock.Batch   // the group of a store that is not managed
	versions *versionWriter // the group of a managed store
	hashes   []uint64       // managed mode: of the keys of the group, for the oracle
	commitTs uint64         // managed mode: version of entries that have none
	count    int64          // writes of the group
	size     int64          // bytes of the group
	err      error          // the first error of a commit
	finished bool           // Flush or Cancel was called
}

// groupBytes is at least how large a group gets.
const groupBytes = 1 << 20

// NewWriteBatch returns an empty batch. It panics in managed mode.
func (db *DB) NewWriteBatch() *WriteBatch {
	if db.opt.managedTxns {
		panic("cannot use NewWriteBatch in managed mode. Use NewWriteBatchAt instead")
	}
	return &WriteBatch{db: db, plain: db.data.NewBatch()}
}

// NewWriteBatchAt returns an empty batch whose entries get the version commitTs, unless they have one. It
// panics unless the store is managed.
func (db *DB) NewWriteBatchAt(commitTs uint64) *WriteBatch {
	if !db.opt.managedTxns {
		panic("cannot use NewWriteBatchAt with managedDB=false. Use NewWriteBatch instead")
	}
	wb := db.NewManagedWriteBatch()
	wb.commitTs = commitTs
	return wb
}

// NewManagedWriteBatch returns an empty batch whose entries have versions: see SetEntryAt. It panics
// unless the store is managed.
func (db *DB) NewManagedWriteBatch() *WriteBatch {
	if !db.opt.managedTxns {
		panic("cannot use NewManagedWriteBatch with managedDB=false. Use NewWriteBatch instead")
	}
	return &WriteBatch{db: db, versions: newVersionWriter(db)}
}

// SetMaxPendingTxns does nothing: one group is committed at a time.
func (wb *WriteBatch) SetMaxPendingTxns(max int) {}

// Cancel ends the batch. Groups that were committed stay.
func (wb *WriteBatch) Cancel() {
	wb.Lock()
	defer wb.Unlock()
	wb.finished = true
	wb.reset()
}

// Set writes a pair. Key and value are copied. Its errors are those of Txn.Set, those of an earlier
// commit, and after Flush or Cancel ErrDiscardedTxn.
func (wb *WriteBatch) Set(k, v []byte) error {
	e := Entry{Key: k, Value: v}
	return wb.SetEntry(&e)
}

// SetEntry writes a pair with its attributes, as Set does.
func (wb *WriteBatch) SetEntry(e *Entry) error {
	wb.Lock()
	defer wb.Unlock()
	return wb.add(e)
}

// SetEntryAt writes a pair at a version of its own. It returns an error unless the store is managed.
func (wb *WriteBatch) SetEntryAt(e *Entry, ts uint64) error {
	if !wb.db.opt.managedTxns {
		return errSetEntryAt
	}
	e.version = ts
	return wb.SetEntry(e)
}

// Delete deletes a key, as Set writes one.
func (wb *WriteBatch) Delete(k []byte) error {
	e := Entry{Key: k, flags: flagDeleted}
	return wb.SetEntry(&e)
}

// DeleteAt deletes a key at a version. It returns an error unless the store is managed.
func (wb *WriteBatch) DeleteAt(k []byte, ts uint64) error {
	if !wb.db.opt.managedTxns {
		return errNeedsManaged
	}
	e := Entry{Key: k, flags: flagDeleted, version: ts}
	return wb.SetEntry(&e)
}

// Write writes the pairs of a buffer, each a message of pb.KV, at their versions: key, value and the
// first byte of UserMeta. It returns an error unless the store is managed, and for a pair without a
// version.
func (wb *WriteBatch) Write(buf *z.Buffer) error {
	wb.Lock()
	defer wb.Unlock()
	return buf.SliceIterate(func(s []byte) error {
		var kv pb.KV
		if err := proto.Unmarshal(s, &kv); err != nil {
			return err
		}
		return wb.addKV(&kv)
	})
}

// WriteList writes the pairs of a list, as Write does.
func (wb *WriteBatch) WriteList(kvList *pb.KVList) error {
	wb.Lock()
	defer wb.Unlock()
	for _, kv := range kvList.GetKv() {
		if err := wb.addKV(kv); err != nil {
			return err
		}
	}
	return nil
}

// addKV writes a pair of a list. The caller holds the lock.
func (wb *WriteBatch) addKV(kv *pb.KV) error {
	switch {
	case !wb.db.opt.managedTxns:
		return errNeedsManaged
	case kv.GetVersion() == 0:
		return errVersionZero
	}
	e := Entry{Key: kv.GetKey(), Value: kv.GetValue(), version: kv.GetVersion()}
	if meta := kv.GetUserMeta(); len(meta) > 0 {
		e.UserMeta = meta[0]
	}
	return wb.add(&e)
}

// add adds an entry to the group, and commits that if it is full. The caller holds the lock.
func (wb *WriteBatch) add(e *Entry) error {
	switch {
	case wb.db.opt.ReadOnly:
		return ErrReadOnlyTxn
	case wb.err != nil:
		return wb.err
	case wb.finished:
		return ErrDiscardedTxn
	}
	if err := wb.db.checkEntry(e); err != nil {
		return err
	}
	if wb.versions != nil && e.version == 0 && wb.commitTs == 0 {
		wb.err = errNoCommitTs // as in Badger, for Flush
		return nil
	}
	if err := wb.addToGroup(e); err != nil {
		wb.err = writeError(err)
		return wb.err
	}
	wb.count++
	wb.size += int64(len(e.Key)+len(e.Value)) + nodeSize
	if wb.size >= max(groupBytes, wb.db.opt.maxBatchSize) {
		return wb.commit()
	}
	return nil
}

func (wb *WriteBatch) addToGroup(e *Entry) error {
	if wb.versions != nil {
		if o := wb.db.oracle; o.detects {
			wb.hashes = append(wb.hashes, o.hash(e.Key))
		}
		return wb.versions.add(e, wb.commitTs)
	}
	if e.flags&flagDeleted != 0 {
		return wb.plain.Delete(e.Key)
	}
	b := e.toBrock()
	return wb.plain.SetEntry(&b)
}

// commit commits the group. The caller holds the lock.
func (wb *WriteBatch) commit() error {
	if wb.count == 0 || wb.err != nil {
		return wb.err
	}
	if wb.db.IsClosed() { // Close may wait for Subscribes yet
		wb.err = ErrBlockedWrites
		return wb.err
	}
	wb.db.queue.settle()
	var err error
	if w := wb.versions; w != nil {
		// It has read nothing, so this only notes what it writes.
		if err = wb.db.oracle.admit(0, nil, wb.hashes, wb.commitTs); err == nil {
			err = w.commit(brock.Buffered)
		}
	} else {
		_, err = wb.plain.Commit(context.Background(), brock.Buffered)
	}
	wb.reset()
	wb.err = writeError(err)
	return wb.err
}

// reset empties the group.
func (wb *WriteBatch) reset() {
	if wb.count, wb.size = 0, 0; wb.versions != nil {
		wb.versions.batch.Reset()
		wb.hashes = wb.hashes[:0]
		return
	}
	wb.plain.Reset()
}

// Flush commits what was written and ends the batch. With Options.SyncWrites all is durable then. It
// returns the first error of a commit, and at a second call y.ErrCommitAfterFinish.
func (wb *WriteBatch) Flush() error {
	wb.Lock()
	defer wb.Unlock()
	switch {
	case wb.err != nil:
		return wb.err
	case wb.finished:
		return y.ErrCommitAfterFinish
	}
	if err := wb.commit(); err != nil {
		return err
	}
	wb.finished = true
	// The groups were committed without: one sync serves them all.
	if wb.db.opt.SyncWrites {
		wb.err = writeError(wb.db.store.Sync(context.Background()))
	}
	return wb.err
}

// Error returns the first error of a commit.
func (wb *WriteBatch) Error() error {
	wb.Lock()
	defer wb.Unlock()
	return wb.err
}
