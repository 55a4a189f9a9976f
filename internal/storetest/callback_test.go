package storetest

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// inCallback are the things that Filter and OnDamage may do, though they should not.
var inCallback = []struct {
	name string
	do   func(db *brock.DB, txn *brock.Txn, it *brock.Iterator)
}{
	{"Next", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) { it.Next() }},
	{"Prev", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) { it.Prev() }},
	{"Rewind", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) { it.Rewind() }},
	{"Seek", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) { it.Seek(damagedKey(50)) }},
	{"Seek behind", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) { it.Seek(damagedKey(damagedKeys - 50)) }},
	{"Iterator.Close", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) { _ = it.Close() }},
	{"Item", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) {
		_, _ = it.Item().Value()
		_, _ = it.Item().ValueCopy(nil)
		_, _, _ = it.Item().Key(), it.Valid(), it.ValidForPrefix(b("key"))
	}},
	{"Discard", func(_ *brock.DB, txn *brock.Txn, _ *brock.Iterator) { txn.Discard() }},
	{"Commit", func(_ *brock.DB, txn *brock.Txn, _ *brock.Iterator) { _ = txn.Commit() }},
	{"Set", func(_ *brock.DB, txn *brock.Txn, _ *brock.Iterator) { _ = txn.Set(damagedKey(60), b("new")) }},
	{"DeleteRange", func(_ *brock.DB, txn *brock.Txn, _ *brock.Iterator) {
		_ = txn.DeleteRange(damagedKey(60), damagedKey(70))
	}},
	{"Get", func(_ *brock.DB, txn *brock.Txn, _ *brock.Iterator) { _, _ = txn.Get(damagedKey(60)) }},
	{"All", func(_ *brock.DB, txn *brock.Txn, _ *brock.Iterator) {
		for range txn.All() {
		}
	}},
	{"Flush and Compact", func(db *brock.DB, txn *brock.Txn, _ *brock.Iterator) {
		_, _ = db.Flush(txn.Context()), db.Compact(txn.Context())
	}},
	{"DB.Close", func(db *brock.DB, _ *brock.Txn, _ *brock.Iterator) { _ = db.Close() }},
	{"panic", func(*brock.DB, *brock.Txn, *brock.Iterator) { panic("of the callback") }},
	{"Goexit", func(*brock.DB, *brock.Txn, *brock.Iterator) { runtime.Goexit() }},
}

// TestCallsFromCallbacks: whatever Filter and OnDamage call, or if they panic or end their
// goroutine, nothing else panics or hangs, and the store goes on.
func TestCallsFromCallbacks(t *testing.T) {
	fsys, o := damagedStore(t)
	o.Maintenance.IdleAfter = time.Hour // so that no work meets the damage
	for _, name := range filesOf(t, fsys, ".run") {
		flipAt(t, fsys, name, 5000)
	}
	for _, callback := range []string{"Filter", "OnDamage"} {
		for _, update := range []bool{false, true} {
			for _, c := range inCallback {
				t.Run(fmt.Sprintf("%s/%v/%s", callback, update, c.name), func(t *testing.T) {
					db := must2(brock.Open(o))
					walked := make(chan struct{})
					go func() {
						defer close(walked)
						defer func() {
							if r := recover(); r != nil && r != "of the callback" {
								t.Errorf("panic: %v", r)
							}
						}()
						walk := func(txn *brock.Txn) error {
							walkWith(db, txn, callback, c.do)
							return nil
						}
						if update {
							_ = db.Update(walk)
						} else {
							_ = db.View(walk)
						}
					}()
					within(t, "the walk ends", walked)
					if c.name != "DB.Close" {
						must(t, db.View(func(txn *brock.Txn) error { _, err := txn.Has(b("zz")); return err }))
					}
					wantEqual(t, "readers", db.Metrics().Tree.PinnedVersion, 0)
					must(t, db.Close())
				})
			}
		}
	}
}

// walkWith walks with an iterator whose callback calls do, now and then.
func walkWith(db *brock.DB, txn *brock.Txn, callback string, do func(*brock.DB, *brock.Txn, *brock.Iterator)) {
	var it *brock.Iterator
	calls, within := 0, false
	call := func() bool {
		if calls++; calls%7 == 1 && calls < 50 && !within {
			within = true
			defer func() { within = false }()
			do(db, txn, it)
		}
		return true
	}
	o := brock.IteratorOptions{Filter: func([]byte, byte) bool { return true }, OnDamage: func(*brock.CorruptionError) bool { return true }}
	if callback == "Filter" {
		o.Filter = func([]byte, byte) bool { return call() }
	} else {
		o.OnDamage = func(*brock.CorruptionError) bool { return call() }
	}
	it = txn.NewIterator(o)
	defer it.Close()
	it.Rewind()
	for range 3 * damagedKeys {
		if !it.Valid() {
			break
		}
		_, _ = it.Item().Value()
		it.Next()
	}
}
