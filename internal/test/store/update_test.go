package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// No increment of a counter by many goroutines is lost.
func TestUpdateRetriesConflicts(t *testing.T) {
	db := openTest(t, brock.Options{})
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 50 {
				err := db.UpdateContext(t.Context(), brock.TxnOptions{Retries: 1000}, func(txn *brock.Txn) error {
					n, _ := strconv.Atoi(get(txn, "n"))
					return put(txn, fmt.Sprintf("n=%d", n+1))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	must(t, db.View(func(txn *brock.Txn) error { wantEqual(t, "n", get(txn, "n"), "200"); return nil }))
	m := db.Metrics()
	wantEqual(t, "each conflict is retried", m.Retries, m.Conflicts)
}

func TestUpdateBoundsItsRetries(t *testing.T) {
	for retries, want := range map[int]int{0: brock.DefaultRetries + 1, -1: 1, 3: 4} {
		db := openTest(t, brock.Options{})
		runs := 0
		err := db.UpdateContext(t.Context(), brock.TxnOptions{Retries: retries}, func(txn *brock.Txn) error {
			runs++
			get(txn, "k")
			set(t, db, "k=other")
			return put(txn, "k=mine")
		})
		wantErr(t, "UpdateContext", err, brock.ErrConflict)
		wantEqual(t, "runs", runs, want)
	}
}

func TestUpdateEndsOnce(t *testing.T) {
	db := openTest(t, brock.Options{})
	mine := errors.New("mine")
	runs := 0
	err := db.Update(func(txn *brock.Txn) error {
		runs++
		put(txn, "a=1")
		return fmt.Errorf("%w, %w", mine, brock.ErrConflict)
	})
	wantErr(t, "error of the function", err, mine)
	wantEqual(t, "runs", runs, 1)
	must(t, db.Update(func(txn *brock.Txn) error {
		must(t, put(txn, "b=0"))
		wantErr(t, "commit inside", txn.Commit(), brock.ErrInvalid)
		return put(txn, "b=1") // it goes on
	}))
	wantErr(t, "commit inside View", db.View((*brock.Txn).Commit), brock.ErrInvalid)
	wantErr(t, "discarded inside", db.Update(func(txn *brock.Txn) error { txn.Discard(); return nil }), brock.ErrTxnDone)
	must(t, db.View(func(txn *brock.Txn) error { wantEqual(t, "store", show(txn.All()), "b=1"); return nil }))

	ctx, cancel := context.WithCancel(t.Context())
	err = db.UpdateContext(ctx, brock.TxnOptions{Retries: 1 << 30}, func(txn *brock.Txn) error {
		get(txn, "k")
		set(t, db, "k=other")
		if runs++; runs == 10 {
			cancel()
		}
		return put(txn, "k=mine")
	})
	wantErr(t, "cancelled between runs", err, context.Canceled)
}

// An update with ReadAt conflicts with every later write of what it has read, deletes
// included, wherever flushes and compactions have moved them.
func TestUpdateOfAnOldVersion(t *testing.T) {
	db := openTest(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}}})
	set(t, db, "a=1", "b=1", "c=1")
	at := db.Version()
	set(t, db, "a=2")
	set(t, db, "b")
	runs := 0
	update := func(o brock.TxnOptions, read string) error {
		o.ReadAt = at
		return db.UpdateContext(t.Context(), o, func(txn *brock.Txn) error {
			runs++
			wantEqual(t, "read", get(txn, read), "1")
			return txn.Set(b("d"), b("by "+read))
		})
	}
	for _, step := range []func(context.Context) error{nil, db.Flush, db.Compact, db.Compact} {
		if step != nil {
			must(t, step(t.Context()))
		}
		runs = 0
		wantErr(t, "overwritten", update(brock.TxnOptions{}, "a"), brock.ErrConflict)
		wantErr(t, "deleted", update(brock.TxnOptions{}, "b"), brock.ErrConflict)
		wantEqual(t, "runs", runs, 2)
	}
	must(t, update(brock.TxnOptions{}, "c"))
	wantErr(t, "written since", update(brock.TxnOptions{Isolation: brock.SnapshotIsolation}, "c"), brock.ErrConflict)
	must(t, db.View(func(txn *brock.Txn) error { wantEqual(t, "d", get(txn, "d"), "by c"); return nil }))
}

func TestLastWriteOfATransactionWins(t *testing.T) {
	db := openTest(t, brock.Options{})
	txn := db.NewTransaction(true)
	for i := range 100 {
		must(t, put(txn, fmt.Sprintf("k%d=%d", i%7, i)))
	}
	must(t, put(txn, "k3", "k3=last", "k4=x", "k4"))
	must(t, txn.Commit())
	m := db.Metrics()
	wantEqual(t, "records written", m.Entries, 7)
	must(t, db.View(func(txn *brock.Txn) error {
		wantEqual(t, "store", show(txn.All()), "k0=98 k1=99 k2=93 k3=last k5=96 k6=97")
		wantEqual(t, "versions", show(txn.Versions(b("k3"))), "k3=last")
		return nil
	}))
}

// A key and value read from a pending write stay valid after further writes.
func TestReadPendingWritesStay(t *testing.T) {
	db := openTest(t, brock.Options{})
	txn := db.NewTransaction(true)
	defer txn.Discard()
	must(t, put(txn, "k=first"))
	it, err := txn.Get(b("k"))
	must(t, err)
	v, err := it.Value()
	must(t, err)
	for i := range 1000 {
		must(t, put(txn, "k=other", fmt.Sprintf("k%d=other", i)))
	}
	wantEqual(t, "value", string(v), "first")
	wantEqual(t, "key", string(it.Key()), "k")
	wantEqual(t, "now", get(txn, "k"), "other")
}

// Of several CompareAndSets of the same version one succeeds.
func TestOneCompareAndSetWins(t *testing.T) {
	db := openTest(t, brock.Options{})
	k := b("k")
	must(t, db.Set(k, b("1")))
	var work sync.WaitGroup
	var wins sync.Map
	for i := range 8 {
		work.Go(func() {
			err := db.CompareAndSet(k, b(fmt.Sprint(i)), 1)
			if err == nil {
				wins.Store(i, true)
			} else {
				wantErr(t, "loser", err, brock.ErrVersionMismatch)
			}
		})
	}
	work.Wait()
	n := 0
	wins.Range(func(any, any) bool { n++; return true })
	wantEqual(t, "winners", n, 1)
}

// Items of a transaction stay valid, however many follow them.
func TestManyItemsStay(t *testing.T) {
	db := openTest(t, brock.Options{})
	for i := range 300 {
		set(t, db, fmt.Sprintf("key %d=value %d", i, i))
	}
	must(t, db.View(func(txn *brock.Txn) error {
		var items []*brock.Item
		for i := range 300 {
			it, err := txn.Get(b(fmt.Sprintf("key %d", i)))
			must(t, err)
			items = append(items, it)
		}
		for i, it := range items {
			wantEqual(t, "key", string(it.Key()), fmt.Sprintf("key %d", i))
			wantEqual(t, "value", string(must2(it.Value())), fmt.Sprintf("value %d", i))
		}
		return nil
	}))
}
