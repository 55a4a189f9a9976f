package badger

import (
	"sync"
	"time"

	"github.com/brockdb/brock"
)

// MergeFunc returns what a value becomes by a new one. It is called in the order of the Adds. It must
// not keep its arguments, nor change existingVal.
type MergeFunc func(existingVal, newVal []byte) []byte

// MergeOperator merges values into that of a key. Add does it at once, in a transaction; Badger does it
// in the background and whenever it reads. Any number of goroutines may use it.
type MergeOperator struct {
	sync.RWMutex // of Badger's API; it guards nothing here

	db  *DB
	f   MergeFunc
	key []byte
}

// GetMergeOperator returns the operator of a key. dur, which is how often Badger merges, has no meaning.
func (db *DB) GetMergeOperator(key []byte, f MergeFunc, dur time.Duration) *MergeOperator {
	return &MergeOperator{db: db, f: f, key: append([]byte(nil), key...)}
}

// Add merges val into the value of the key, which becomes val if there is none. It returns the errors of
// Update; Adds at the same time don't conflict. It panics in managed mode, as Update does.
func (op *MergeOperator) Add(val []byte) error {
	db := op.db
	if db.IsClosed() {
		return ErrDBClosed
	}
	if db.opt.managedTxns {
		panic("Update can only be used with managedDB=false.")
	}
	if db.opt.ReadOnly {
		return ErrReadOnlyTxn
	}
	if err := db.checkEntry(&Entry{Key: op.key, Value: val}); err != nil {
		return err
	}
	db.queue.settle()
	err := db.data.Update(func(txn *brock.Txn) error {
		value, found, err := getValue(txn, op.key)
		if err != nil {
			return err
		}
		merged := val
		if found {
			merged = op.f(value, val)
		}
		return txn.SetEntry(&brock.Entry{Key: op.key, Value: merged, OnlyLatest: true})
	})
	return db.updateError(err)
}

// Get returns a copy of the merged value, or ErrKeyNotFound if there was no Add.
func (op *MergeOperator) Get() (value []byte, err error) {
	err = op.db.View(func(txn *Txn) error {
		item, err := txn.Get(op.key)
		if err != nil {
			return err
		}
		value, err = item.ValueCopy(nil)
		return err
	})
	return value, err
}

// Stop does nothing: no merge is ever pending.
func (op *MergeOperator) Stop() {}
