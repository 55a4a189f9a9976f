package storetest

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

// Counters that many goroutines increment lose nothing.
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
	must(t, db.Update(func(txn *brock.Txn) error { must(t, put(txn, "b=1")); return txn.Commit() }))
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

func TestVersions(t *testing.T) {
	db := openTest(t, brock.Options{})
	wantEqual(t, "empty store", db.Version(), 0)
	set(t, db, "k=1", "other=1")
	set(t, db, "k=2")
	set(t, db, "k")
	wantEqual(t, "after three", db.Version(), 3)
	txn := db.NewTransaction(true)
	defer txn.Discard()
	wantEqual(t, "ReadVersion", txn.ReadVersion(), 3)
	wantEqual(t, "Versions", show(txn.Versions(b("k"))), "k! k=2 k=1")
	must(t, put(txn, "k=4"))
	wantEqual(t, "with a write of its own", show(txn.Versions(b("k"))), "k=4 k! k=2 k=1")
	for it := range txn.Versions(b("k")) {
		wantEqual(t, "pending version", it.Version(), 0)
		break
	}
	must(t, txn.Commit())
	wantEqual(t, "CommitVersion", txn.CommitVersion(), 4)
	for at, want := range map[uint64]string{1: "k=1 other=1", 2: "k=2 other=1", 3: "other=1", 4: "k=4 other=1"} {
		must(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
			wantEqual(t, fmt.Sprint("at ", at), show(txn.All()), want)
			return nil
		}))
	}
	_, err := db.Begin(t.Context(), brock.TxnOptions{ReadAt: 5})
	wantErr(t, "a version to come", err, brock.ErrInvalid)
	must(t, db.View(func(txn *brock.Txn) error {
		wantEqual(t, "since 1", show(txn.Items(brock.IteratorOptions{Since: 1})), "k=4")
		wantEqual(t, "all since 1", show(txn.Items(brock.IteratorOptions{Since: 1, AllVersions: true})), "k=4 k! k=2")
		wantEqual(t, "all, reverse", show(txn.Items(brock.IteratorOptions{AllVersions: true, Reverse: true})), "other=1 k=1 k=2 k! k=4")
		return nil
	}))
}

// An update that reads an old version is checked against all that came after it,
// deletes too, whatever was flushed and merged meanwhile.
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

// Retention by count keeps versions of keys, not states; who holds one has it
// for himself.
func TestVersionsAreNoStates(t *testing.T) {
	db := openTest(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Versions: 3}}})
	set(t, db, "a=1")
	set(t, db, "a=2")
	set(t, db, "a=3")
	set(t, db, "a=4")
	holder := db.NewTransaction(false)
	set(t, db, "a=5")
	must(t, db.Compact(t.Context()))
	must(t, db.View(func(txn *brock.Txn) error {
		wantEqual(t, "versions", show(txn.Versions(b("a"))), "a=5 a=4 a=3")
		return nil
	}))
	for _, at := range []uint64{3, holder.ReadVersion()} {
		_, err := db.Begin(t.Context(), brock.TxnOptions{ReadAt: at})
		wantErr(t, "a state of the past", err, brock.ErrVersionGone)
	}
	wantEqual(t, "the state that is held", get(holder, "a"), "4")
	wantEqual(t, "its versions", show(holder.Versions(b("a"))), "a=4 a=3 a=2 a=1")
	holder.Discard()
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

// What was read of a pending write stays, whatever is written after it.
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

func TestExpiry(t *testing.T) {
	now := newClock(1_700_000_000_000)
	db := openTest(t, brock.Options{
		Now:              now.now,
		KeyspaceDefaults: brock.KeyspaceOptions{TTL: time.Hour},
	})
	must(t, db.Update(func(txn *brock.Txn) error {
		must(t, txn.SetEntry(brock.NewEntry(b("ttl"), b("1")).WithTTL(1500*time.Microsecond)))
		must(t, txn.SetEntry(brock.NewEntry(b("at"), b("1")).WithExpiry(now.now().Add(time.Second))))
		must(t, txn.SetEntry(brock.NewEntry(b("past"), b("1")).WithExpiry(time.Unix(-5, 0))))
		must(t, txn.SetEntry(brock.NewEntry(b("default"), b("1")).WithMeta(7)))
		wantEqual(t, "pending and expired", get(txn, "past"), "-")
		return nil
	}))
	at := func(d time.Duration, want string) {
		t.Helper()
		now.ms.Store(1_700_000_000_000 + d.Milliseconds())
		must(t, db.View(func(txn *brock.Txn) error {
			wantEqual(t, "scan", show(txn.All()), want)
			return nil
		}))
	}
	at(time.Millisecond, "at=1 default=1 ttl=1")
	at(2*time.Millisecond, "at=1 default=1")
	at(999*time.Millisecond, "at=1 default=1")
	at(time.Second, "default=1")
	must(t, db.View(func(txn *brock.Txn) error {
		it, err := txn.Get(b("default"))
		must(t, err)
		wantEqual(t, "meta", it.Meta(), 7)
		wantEqual(t, "expires", it.ExpiresAt().UnixMilli(), 1_700_000_000_000+3_600_000)
		wantEqual(t, "value is copied to", string(must2(it.ValueCopy(b("xxxx")))), "1")
		now.add(2 * time.Hour) // the clock is read once a transaction
		_, err = txn.Get(b("default"))
		return err
	}))
	at(time.Hour, "")
	ok, err := db.Has(b("default"))
	must(t, err)
	wantEqual(t, "Has", ok, false)
	must(t, db.CompareAndSet(b("default"), b("2"), 0))
	_, err = db.Get(b("default"))
	must(t, err)
}

func TestCompareAnd(t *testing.T) {
	db := openTest(t, brock.Options{})
	k := b("k")
	must(t, db.CompareAndSet(k, b("1"), 0))
	wantErr(t, "not absent", db.CompareAndSet(k, b("2"), 0), brock.ErrVersionMismatch)
	wantErr(t, "is a conflict", db.CompareAndSet(k, b("2"), 9), brock.ErrConflict)
	must(t, db.CompareAndSet(k, b("2"), 1))
	wantErr(t, "old version", db.CompareAndDelete(k, 1), brock.ErrVersionMismatch)
	must(t, db.CompareAndDelete(k, 2))
	wantErr(t, "deleted", db.CompareAndDelete(k, 2), brock.ErrVersionMismatch)
	must(t, db.CompareAndSet(k, b("3"), 0))
	wantErr(t, "empty key", db.CompareAndSet(nil, nil, 0), brock.ErrEmptyKey)

	var work sync.WaitGroup
	var wins sync.Map
	for i := range 8 {
		work.Go(func() {
			err := db.CompareAndSet(k, b(fmt.Sprint(i)), 4)
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

func TestGetMany(t *testing.T) {
	db := openTest(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 1}})
	set(t, db, "a=1", "c=3")
	must(t, db.View(func(txn *brock.Txn) error {
		var items []*brock.Item
		for it, err := range txn.GetMany([][]byte{b("c"), b("b"), b("a"), b("c")}) {
			must(t, err)
			items = append(items, it)
		}
		got := ""
		for _, it := range items {
			if it == nil {
				got += "- "
			} else {
				got += string(it.Key()) + string(must2(it.Value())) + " "
			}
		}
		wantEqual(t, "items", got, "c3 - a1 c3 ")
		wantErr(t, "bad key", last(txn.GetMany([][]byte{nil, b("a")})), brock.ErrEmptyKey)
		return nil
	}))
}

// Items stay what they were, however many come after them.
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
