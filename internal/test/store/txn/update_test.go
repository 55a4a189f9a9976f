// Package txn tests transactions, batches and writers: isolation, conflicts, turns and commit.
package txn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// No increment of a counter by many goroutines is lost.
func TestUpdateRetriesConflicts(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 50 {
				err := db.UpdateContext(t.Context(), brock.TxnOptions{Retries: 1000}, func(txn *brock.Txn) error {
					n, _ := strconv.Atoi(storetest.Get(txn, "n"))
					return storetest.Put(txn, fmt.Sprintf("n=%d", n+1))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	assert.OK(t, db.View(func(txn *brock.Txn) error { assert.Equal(t, "n", storetest.Get(txn, "n"), "200"); return nil }))
	m := db.Metrics()
	assert.Equal(t, "each conflict is retried", m.Retries, m.Conflicts)
}

func TestUpdateBoundsItsRetries(t *testing.T) {
	for retries, want := range map[int]int{0: brock.DefaultRetries + 1, -1: 1, 3: 4} {
		db := storetest.Open(t, brock.Options{})
		runs := 0
		err := db.UpdateContext(t.Context(), brock.TxnOptions{Retries: retries}, func(txn *brock.Txn) error {
			runs++
			storetest.Get(txn, "k")
			storetest.Set(t, db, "k=other")
			return storetest.Put(txn, "k=mine")
		})
		assert.Error(t, "UpdateContext", err, brock.ErrConflict)
		assert.Equal(t, "runs", runs, want)
	}
}

func TestUpdateEndsOnce(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	mine := errors.New("mine")
	runs := 0
	err := db.Update(func(txn *brock.Txn) error {
		runs++
		storetest.Put(txn, "a=1")
		return fmt.Errorf("%w, %w", mine, brock.ErrConflict)
	})
	assert.Error(t, "error of the function", err, mine)
	assert.Equal(t, "runs", runs, 1)
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		assert.OK(t, storetest.Put(txn, "b=0"))
		assert.Error(t, "commit inside", txn.Commit(), brock.ErrInvalid)
		return storetest.Put(txn, "b=1") // it goes on
	}))
	assert.Error(t, "commit inside View", db.View((*brock.Txn).Commit), brock.ErrInvalid)
	assert.Error(t, "discarded inside", db.Update(func(txn *brock.Txn) error { txn.Discard(); return nil }), brock.ErrTxnDone)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "store", storetest.ShowItems(txn.All()), "b=1")
		return nil
	}))

	ctx, cancel := context.WithCancel(t.Context())
	err = db.UpdateContext(ctx, brock.TxnOptions{Retries: 1 << 30}, func(txn *brock.Txn) error {
		storetest.Get(txn, "k")
		storetest.Set(t, db, "k=other")
		if runs++; runs == 10 {
			cancel()
		}
		return storetest.Put(txn, "k=mine")
	})
	assert.Error(t, "cancelled between runs", err, context.Canceled)
}

// An update with ReadAt conflicts with every later write of what it has read, deletes
// included, wherever flushes and compactions have moved them.
func TestUpdateOfAnOldVersion(t *testing.T) {
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}}})
	storetest.Set(t, db, "a=1", "b=1", "c=1")
	at := db.Version()
	storetest.Set(t, db, "a=2")
	storetest.Set(t, db, "b")
	runs := 0
	update := func(o brock.TxnOptions, read string) error {
		o.ReadAt = at
		return db.UpdateContext(t.Context(), o, func(txn *brock.Txn) error {
			runs++
			assert.Equal(t, "read", storetest.Get(txn, read), "1")
			return txn.Set([]byte("d"), []byte("by "+read))
		})
	}
	for _, step := range []func(context.Context) error{nil, db.Flush, db.Compact, db.Compact} {
		if step != nil {
			assert.OK(t, step(t.Context()))
		}
		runs = 0
		assert.Error(t, "overwritten", update(brock.TxnOptions{}, "a"), brock.ErrConflict)
		assert.Error(t, "deleted", update(brock.TxnOptions{}, "b"), brock.ErrConflict)
		assert.Equal(t, "runs", runs, 2)
	}
	assert.OK(t, update(brock.TxnOptions{}, "c"))
	assert.Error(t, "written since", update(brock.TxnOptions{Isolation: brock.SnapshotIsolation}, "c"), brock.ErrConflict)
	assert.OK(t, db.View(func(txn *brock.Txn) error { assert.Equal(t, "d", storetest.Get(txn, "d"), "by c"); return nil }))
}
