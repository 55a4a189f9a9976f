package store

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// What a transaction has handed out stays valid if it is never ended: its slices don't
// keep it alive, but they may be in use.
func TestSlicesOfLeakedTransactionsStayValid(t *testing.T) {
	if !inChild(t) {
		return
	}
	var mu sync.Mutex
	var told []brock.LeakInfo
	o := brock.Options{Dir: t.TempDir(), Durability: brock.Buffered, MemoryLimit: 4 << 20, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	o.Events.Leak = func(l brock.LeakInfo) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, l)
	}
	db, err := brock.Open(o)
	must(t, err)
	want := map[string][]byte{
		"separated": incompressible(1, 5<<20),
		"inline":    incompressible(2, 300),
		"memory":    incompressible(3, 300),
	}
	must(t, db.Set(b("separated"), want["separated"]))
	must(t, db.Set(b("inline"), want["inline"]))
	must(t, db.Flush(t.Context()))
	must(t, db.Set(b("memory"), want["memory"]))
	got := make(map[string][]byte)
	for key := range want {
		func() { // the transaction is forgotten
			it := must2(db.NewTransaction(false).Get(b(key)))
			got[key] = must2(it.Value())
		}()
	}
	want["key"] = b("memory")
	func() {
		it := db.NewTransaction(false).NewIterator(brock.IteratorOptions{})
		it.Seek(b("memory"))
		got["key"] = it.Item().Key()
	}()
	want["spilled"] = incompressible(4, 3000)
	func() {
		txn := must2(db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 1 << 10}))
		must(t, txn.Set(b("spilled"), want["spilled"]))
		got["spilled"] = must2(must2(txn.Get(b("spilled"))).Value())
	}()
	// Everything that was read goes away, as far as the store is concerned.
	for round := int64(0); db.Metrics().Leaked < int64(len(want)) || round < 3; round++ {
		must(t, db.DropAll(t.Context()))
		must(t, db.Set(b("other"), incompressible(5, 1<<20)))
		must(t, db.Flush(t.Context()))
		must(t, db.Compact(t.Context()))
		must2(db.Reclaim(t.Context()))
		collect(t, func() bool { return db.Metrics().Leaked > min(round, int64(len(want)-1)) })
	}
	for what := range want {
		if !bytes.Equal(got[what], want[what]) {
			t.Errorf("%s: other bytes", what)
		}
	}
	wantEqual(t, "oldest version that is held", db.Metrics().Tree.PinnedVersion, 0)
	must(t, db.Close())
	mu.Lock()
	defer mu.Unlock()
	wantEqual(t, "leaks told of", len(told), len(want))
	for _, l := range told {
		if !l.Kept || !strings.Contains(l.Begun, "TestSlicesOfLeakedTransactionsStayValid") {
			t.Errorf("told of %+v", l)
		}
	}
	for what := range want {
		if !bytes.Equal(got[what], want[what]) {
			t.Errorf("%s: other bytes after Close", what)
		}
	}
}

// A leaked transaction that has handed nothing out keeps nothing.
func TestLeakedTransactionThatLentNothing(t *testing.T) {
	var told []brock.LeakInfo
	db := openTest(t, brock.Options{Dir: t.TempDir(), Events: brock.Events{Leak: func(l brock.LeakInfo) { told = append(told, l) }}})
	must(t, db.Set(b("k"), incompressible(1, 5<<20)))
	must(t, db.Flush(t.Context()))
	func() {
		txn := db.NewTransaction(false)
		must2(txn.Has(b("k")))
		must2(must2(txn.Get(b("k"))).ValueCopy(nil))
		must(t, must2(txn.Get(b("k"))).ValueFunc(func([]byte) error { return nil }))
	}()
	must(t, db.Delete(b("k")))
	collect(t, func() bool { return db.Metrics().Leaked == 1 })
	must(t, db.Flush(t.Context()))
	must2(db.Reclaim(t.Context()))
	m := db.Metrics().Tree
	wantEqual(t, "bytes kept for readers", m.PinnedBytes+m.PinnedMemory, 0)
	if m.SegmentBytes > 1<<20 {
		t.Errorf("%d bytes of segments are left", m.SegmentBytes)
	}
	must(t, db.Close())
	wantEqual(t, "kept", slices.ContainsFunc(told, func(l brock.LeakInfo) bool { return l.Kept }), false)
	wantEqual(t, "told", len(told), 1)
}
