package badger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
)

// DB is an open store. Any number of goroutines may use it. End it by Close.
type DB struct {
	opt   Options
	store *brock.DB
	data  *brock.Keyspace // of the user's pairs

	oracle   *oracle  // managed mode: finds conflicts; nil in other stores
	maximum  maximum  // managed mode: the greatest version
	banned   banned   // namespaces
	watchers watchers // the Subscribes under way
	queue    *commitQueue
	meter    meter // what the expvar metrics show of this store

	closeOnce  sync.Once       // the first Close works
	closed     atomic.Bool     // Close has begun
	collect    sync.Mutex      // held by RunValueLogGC
	rotating   sync.Mutex      // held while the time of a rotation is looked at
	cacheCosts [2]atomic.Int64 // what CacheMaxCost returns
	discardTs  atomic.Uint64   // managed mode: see SetDiscardTs
}

func newDB(store *brock.DB, opt Options) *DB {
	db := &DB{opt: opt, store: store, data: store.Default()}
	if opt.managedTxns {
		db.oracle = newOracle(opt.DetectConflicts)
	}
	db.queue = newCommitQueue(db)
	db.cacheCosts[BlockCache].Store(opt.BlockCacheSize)
	db.cacheCosts[IndexCache].Store(opt.IndexCacheSize)
	return db
}

// begin reads what the store notes of itself.
func (db *DB) begin() error {
	if err := db.findData(); err != nil {
		return err
	}
	if err := db.checkMagic(); err != nil {
		return err
	}
	if err := db.loadBanned(); err != nil {
		return err
	}
	if err := db.rotateIfDue(); err != nil {
		return err
	}
	db.meter.begin(db)
	return nil
}

var errMode = errors.New("badger: the store was made in the other mode, managed or not")

// findData finds the keyspace of the user's pairs, and refuses a store that was used in the other mode.
func (db *DB) findData() (err error) {
	versions := db.findKeyspace(managedKeyspace)
	if !db.opt.managedTxns {
		if versions != nil {
			return fmt.Errorf("%w: it is managed: use OpenManaged", errMode)
		}
		return nil
	}
	if versions == nil {
		if empty, err := db.isEmpty(); err != nil || !empty {
			return errors.Join(err, fmt.Errorf("%w: it is not managed: use Open", errMode))
		}
	}
	if db.opt.ReadOnly {
		if db.data = versions; versions == nil {
			return fmt.Errorf("%w: it is not managed: use Open", errMode)
		}
		return nil
	}
	db.data, err = db.store.Keyspace(managedKeyspace, db.store.Options().KeyspaceDefaults)
	return err
}

// isEmpty reports whether the default keyspace has no pairs.
func (db *DB) isEmpty() (empty bool, err error) {
	err = db.store.View(func(txn *brock.Txn) error {
		_, err := txn.First(nil, nil)
		if empty = err == brock.ErrKeyNotFound; empty {
			err = nil
		}
		return err
	})
	return empty, err
}

// findKeyspace returns the keyspace of this name; nil if there is none.
func (db *DB) findKeyspace(name string) *brock.Keyspace {
	for ks := range db.store.Keyspaces() {
		if ks.Name() == name {
			return ks
		}
	}
	return nil
}

// getState returns what the store notes under name; nil if there is nothing.
func (db *DB) getState(name string) ([]byte, error) {
	ks := db.findKeyspace(stateKeyspace)
	if ks == nil {
		return nil, nil
	}
	value, err := ks.Get([]byte(name))
	if errors.Is(err, brock.ErrKeyNotFound) {
		return nil, nil
	}
	return value, err
}

// setState notes something, durably.
func (db *DB) setState(name string, value []byte) error {
	ks, err := db.store.Keyspace(stateKeyspace, brock.KeyspaceOptions{})
	if err != nil {
		return err
	}
	return ks.UpdateContext(context.Background(), brock.TxnOptions{Durability: brock.Synced}, func(txn *brock.Txn) error {
		return txn.Set([]byte(name), value)
	})
}

// checkMagic compares the application's number with that of the store. A new store gets it.
func (db *DB) checkMagic() error {
	const name = "magic"
	stored, err := db.getState(name)
	if err != nil {
		return err
	}
	var number uint16
	if len(stored) == 2 {
		number = binary.BigEndian.Uint16(stored)
	}
	want := db.opt.ExternalMagicVersion
	if number == want {
		return nil
	}
	isNew := false
	if stored == nil && !db.opt.ReadOnly {
		if isNew, err = db.isNew(); err != nil {
			return err
		}
	}
	if !isNew {
		return fmt.Errorf("badger: the store has external magic number %d, and the options have %d", number, want)
	}
	return db.setState(name, binary.BigEndian.AppendUint16(nil, want))
}

// isNew reports whether nothing was ever written to the store.
func (db *DB) isNew() (bool, error) {
	if db.opt.managedTxns {
		v, err := db.maximum.load(db)
		return v == 0, err
	}
	return db.store.Version() == 0, nil
}

// Opts returns a copy of the options.
func (db *DB) Opts() Options { return db.opt }

// IsClosed reports whether Close was called.
func (db *DB) IsClosed() bool { return db.closed.Load() }

// Close waits for the commits of CommitWith, ends the Subscribes once they have had what was committed
// before, makes everything durable, and closes the store. Later calls do nothing, and return nil. Transactions that are open return ErrDBClosed from
// then on.
func (db *DB) Close() error {
	var err error
	db.closeOnce.Do(func() { err = db.close() })
	return err
}

func (db *DB) close() error {
	db.closed.Store(true)
	db.queue.close()
	db.watchers.drain(db)
	if !db.opt.managedTxns {
		db.maximum.note(db.store.Version()) // for MaxVersion
	}
	db.meter.end(db)
	return db.store.Close()
}

// checkOpen returns ErrDBClosed after Close.
func (db *DB) checkOpen() error {
	if db.closed.Load() {
		return ErrDBClosed
	}
	return nil
}

// Sync returns when everything committed so far survives a power loss. In memory and in a read-only
// store it does nothing.
func (db *DB) Sync() error {
	if err := db.checkOpen(); err != nil {
		return err
	}
	if db.opt.InMemory || db.opt.ReadOnly {
		return nil
	}
	db.queue.settle()
	return readError(db.store.Sync(context.Background()))
}

// VerifyChecksum reads every file and verifies every checksum. It returns the first damage found.
func (db *DB) VerifyChecksum() error {
	return readError(db.store.Verify(context.Background(), nil))
}

// Flatten compacts the store: afterwards reads are as fast as they can be, and what was overwritten or
// deleted is gone. In managed mode it first removes the versions that SetDiscardTs gives up. workers is
// ignored. It panics in a read-only store.
func (db *DB) Flatten(workers int) error {
	if db.opt.ReadOnly {
		panic("Cannot flatten in read-only mode.")
	}
	if err := db.sweep(); err != nil {
		return writeError(err)
	}
	return writeError(db.store.Compact(context.Background()))
}

// RunValueLogGC makes the files smaller now; Brock also does that by itself. It returns nil if they
// became smaller by a twentieth at least, so that a caller who loops until an error comes to an end,
// and else ErrNoRewrite. In managed mode it first removes the versions that SetDiscardTs gives up. If
// the time of Options.EncryptionKeyRotationDuration has come, it rotates the data key.
//
// It also returns ErrGCInMemoryMode, ErrGCInReadOnlyMode, ErrInvalidRequest for a ratio that is not
// between 0 and 1, and ErrRejected while another call is under way and after Close.
func (db *DB) RunValueLogGC(discardRatio float64) error {
	switch {
	case db.opt.InMemory:
		return ErrGCInMemoryMode
	case db.opt.ReadOnly:
		return ErrGCInReadOnlyMode
	case !(discardRatio > 0 && discardRatio < 1):
		return ErrInvalidRequest
	case !db.collect.TryLock():
		return ErrRejected
	}
	defer db.collect.Unlock()
	if db.IsClosed() {
		return ErrRejected
	}
	lsm, vlog := db.Size()
	err := db.rotateIfDue()
	if err == nil {
		err = db.sweep()
	}
	var freed int64
	if err == nil {
		freed, err = db.store.Reclaim(context.Background())
	}
	switch {
	case errors.Is(err, brock.ErrClosed):
		return ErrRejected
	case err != nil:
		return err
	case freed <= 0 || freed < (lsm+vlog)/20:
		return ErrNoRewrite
	}
	return nil
}

// rewriteEvery is after how many rotations one rewrites all files under the new key: Brock has at most
// 64 data keys at once.
const rewriteEvery = 32

// rotateIfDue makes a new data key if the last one is older than the options say.
func (db *DB) rotateIfDue() error {
	const name = "rotated" // its value: the time, Unix seconds, and the number of the rotation
	if len(db.opt.EncryptionKey) == 0 || db.opt.ReadOnly || db.opt.InMemory || db.opt.EncryptionKeyRotationDuration <= 0 {
		return nil
	}
	db.rotating.Lock()
	defer db.rotating.Unlock()
	stored, err := db.getState(name)
	if err != nil || db.store.Version() == 0 { // a new store keeps its versions for Load
		return err
	}
	now, number := time.Now(), uint64(0)
	if len(stored) == 16 {
		at := time.Unix(int64(binary.BigEndian.Uint64(stored)), 0)
		if number = binary.BigEndian.Uint64(stored[8:]); now.Sub(at) < db.opt.EncryptionKeyRotationDuration {
			return nil
		}
		number++
		if err := db.store.RotateKey(context.Background(), brock.RotateOptions{Rewrite: number%rewriteEvery == 0}); err != nil {
			return err
		}
	}
	// A new store has a new key already.
	stored = binary.BigEndian.AppendUint64(nil, uint64(now.Unix()))
	return db.setState(name, binary.BigEndian.AppendUint64(stored, number))
}
