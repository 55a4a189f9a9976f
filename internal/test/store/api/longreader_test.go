package api

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// The event LongReader and the metrics name a transaction that stays open, and the
// line of code where it began, by any call.
func TestLongReader(t *testing.T) {
	var clock atomic.Int64
	told := make(chan brock.ReaderInfo, 10)
	db := storetest.Open(t, brock.Options{
		Now:    func() time.Time { return time.UnixMilli(1000 + clock.Load()) },
		Events: brock.Events{LongReader: func(r brock.ReaderInfo) { told <- r }},
	})
	overwrite := func() {
		storetest.Set(t, db, "a="+strings.Repeat("x", 1000))
		assert.OK(t, db.Compact(t.Context()))
		clock.Add(time.Minute.Milliseconds())
		storetest.Set(t, db, "b=1")
		assert.OK(t, db.Compact(t.Context()))
	}
	begun := func(how string, version uint64) {
		t.Helper()
		r := <-told
		m := db.Metrics().Tree
		if !strings.Contains(r.Begun, "TestLongReader") || !strings.Contains(r.Begun, "reader_test.go:") || m.PinnedBy != r.Begun {
			t.Errorf("%s: began in %q, says the event; in %q, say the metrics", how, r.Begun, m.PinnedBy)
		}
		if r.Version != version || r.For < time.Minute || r.FileBytes+r.MemoryBytes == 0 || m.PinnedFor < r.For {
			t.Errorf("%s: %+v, metrics %v %v", how, r, m.PinnedFor, m.PinnedBytes)
		}
	}
	overwrite()
	txn := db.NewTransaction(false)
	overwrite()
	begun("by hand", txn.ReadVersion())
	txn.Discard()
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		overwrite()
		begun("View", txn.ReadVersion())
		return nil
	}))
	ks, err := db.Keyspace("k")
	assert.OK(t, err)
	assert.OK(t, ks.View(func(txn *brock.Txn) error {
		overwrite()
		begun("View of a keyspace", txn.ReadVersion())
		return nil
	}))
	assert.OK(t, db.Compact(t.Context()))
	if m := db.Metrics().Tree; m.PinnedVersion != 0 || m.PinnedFor != 0 {
		t.Errorf("pinned when nobody reads: %+v", m)
	}
	if len(told) != 0 {
		t.Errorf("told too often: %+v", <-told)
	}
}
