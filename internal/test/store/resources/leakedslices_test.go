package resources

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// What a transaction has handed out stays valid if it is never ended: its slices don't
// keep it alive, but they may be in use.
func TestSlicesOfLeakedTransactionsStayValid(t *testing.T) {
	if !process.RunInChild(t) {
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
	assert.OK(t, err)
	want := map[string][]byte{
		"separated": storetest.RandomBytes(1, 5<<20),
		"inline":    storetest.RandomBytes(2, 300),
		"memory":    storetest.RandomBytes(3, 300),
	}
	assert.OK(t, db.Set([]byte("separated"), want["separated"]))
	assert.OK(t, db.Set([]byte("inline"), want["inline"]))
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, db.Set([]byte("memory"), want["memory"]))
	got := make(map[string][]byte)
	for key := range want {
		func() { // the transaction is forgotten
			it := assert.Must(db.NewTransaction(false).Get([]byte(key)))
			got[key] = assert.Must(it.Value())
		}()
	}
	want["key"] = []byte("memory")
	func() {
		it := db.NewTransaction(false).NewIterator(brock.IteratorOptions{})
		it.Seek([]byte("memory"))
		got["key"] = it.Item().Key()
	}()
	want["spilled"] = storetest.RandomBytes(4, 3000)
	func() {
		txn := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 1 << 10}))
		assert.OK(t, txn.Set([]byte("spilled"), want["spilled"]))
		got["spilled"] = assert.Must(assert.Must(txn.Get([]byte("spilled"))).Value())
	}()
	// Everything that was read goes away, as far as the store is concerned.
	for round := int64(0); db.Metrics().Leaked < int64(len(want)) || round < 3; round++ {
		assert.OK(t, db.DropAll(t.Context()))
		assert.OK(t, db.Set([]byte("other"), storetest.RandomBytes(5, 1<<20)))
		assert.OK(t, db.Flush(t.Context()))
		assert.OK(t, db.Compact(t.Context()))
		assert.Must(db.Reclaim(t.Context()))
		process.CollectGarbage(t, func() bool { return db.Metrics().Leaked > min(round, int64(len(want)-1)) })
	}
	for what := range want {
		if !bytes.Equal(got[what], want[what]) {
			t.Errorf("%s: other bytes", what)
		}
	}
	assert.Equal(t, "oldest version that is held", db.Metrics().Tree.PinnedVersion, 0)
	assert.OK(t, db.Close())
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, "leaks told of", len(told), len(want))
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
	db := storetest.Open(t, brock.Options{Dir: t.TempDir(), Events: brock.Events{Leak: func(l brock.LeakInfo) { told = append(told, l) }}})
	assert.OK(t, db.Set([]byte("k"), storetest.RandomBytes(1, 5<<20)))
	assert.OK(t, db.Flush(t.Context()))
	func() {
		txn := db.NewTransaction(false)
		assert.Must(txn.Has([]byte("k")))
		assert.Must(assert.Must(txn.Get([]byte("k"))).ValueCopy(nil))
		assert.OK(t, assert.Must(txn.Get([]byte("k"))).ValueFunc(func([]byte) error { return nil }))
	}()
	assert.OK(t, db.Delete([]byte("k")))
	process.CollectGarbage(t, func() bool { return db.Metrics().Leaked == 1 })
	assert.OK(t, db.Flush(t.Context()))
	assert.Must(db.Reclaim(t.Context()))
	m := db.Metrics().Tree
	assert.Equal(t, "bytes kept for readers", m.PinnedBytes+m.PinnedMemory, 0)
	if m.SegmentBytes > 1<<20 {
		t.Errorf("%d bytes of segments are left", m.SegmentBytes)
	}
	assert.OK(t, db.Close())
	assert.Equal(t, "kept", slices.ContainsFunc(told, func(l brock.LeakInfo) bool { return l.Kept }), false)
	assert.Equal(t, "told", len(told), 1)
}
