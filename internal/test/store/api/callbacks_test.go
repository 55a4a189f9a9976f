package api

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// inCallback are the things that a Filter may do, though it should not.
var inCallback = []struct {
	name string
	do   func(db *brock.DB, txn *brock.Txn, it *brock.Iterator)
}{
	{"Next", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) { it.Next() }},
	{"Prev", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) { it.Prev() }},
	{"Rewind", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) { it.Rewind() }},
	{"Seek", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) { it.Seek(storetest.LayeredKey(50)) }},
	{"Seek behind", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) {
		it.Seek(storetest.LayeredKey(storetest.LayeredKeys - 50))
	}},
	{"Iterator.Close", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) { _ = it.Close() }},
	{"Item", func(_ *brock.DB, _ *brock.Txn, it *brock.Iterator) {
		_, _ = it.Item().Value()
		_, _ = it.Item().ValueCopy(nil)
		_, _, _ = it.Item().Key(), it.Valid(), it.ValidForPrefix([]byte("key"))
	}},
	{"Discard", func(_ *brock.DB, txn *brock.Txn, _ *brock.Iterator) { txn.Discard() }},
	{"Commit", func(_ *brock.DB, txn *brock.Txn, _ *brock.Iterator) { _ = txn.Commit() }},
	{"Set", func(_ *brock.DB, txn *brock.Txn, _ *brock.Iterator) {
		_ = txn.Set(storetest.LayeredKey(60), []byte("new"))
	}},
	{"DeleteRange", func(_ *brock.DB, txn *brock.Txn, _ *brock.Iterator) {
		_ = txn.DeleteRange(storetest.LayeredKey(60), storetest.LayeredKey(70))
	}},
	{"Get", func(_ *brock.DB, txn *brock.Txn, _ *brock.Iterator) { _, _ = txn.Get(storetest.LayeredKey(60)) }},
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

// TestCallsFromCallbacks: whatever a Filter calls, or if it panics or ends its goroutine, nothing
// else panics or hangs, and the store goes on.
func TestCallsFromCallbacks(t *testing.T) {
	_, o := storetest.MakeLayeredStore(t)
	for _, update := range []bool{false, true} {
		for _, c := range inCallback {
			t.Run(fmt.Sprintf("%v/%s", update, c.name), func(t *testing.T) {
				db := assert.Must(brock.Open(o))
				walked := make(chan struct{})
				go func() {
					defer close(walked)
					defer func() {
						if r := recover(); r != nil && r != "of the callback" {
							t.Errorf("panic: %v", r)
						}
					}()
					walk := func(txn *brock.Txn) error {
						walkWith(db, txn, c.do)
						return nil
					}
					if update {
						_ = db.Update(walk)
					} else {
						_ = db.View(walk)
					}
				}()
				deadline.Receive(t, "the walk ends", walked)
				if c.name != "DB.Close" {
					assert.OK(t, db.View(func(txn *brock.Txn) error { _, err := txn.Has([]byte("zz")); return err }))
				}
				assert.Equal(t, "readers", db.Metrics().Tree.PinnedVersion, 0)
				assert.OK(t, db.Close())
			})
		}
	}
}

// walkWith walks with an iterator whose filter calls do, now and then.
func walkWith(db *brock.DB, txn *brock.Txn, do func(*brock.DB, *brock.Txn, *brock.Iterator)) {
	var it *brock.Iterator
	calls, within := 0, false
	it = txn.NewIterator(brock.IteratorOptions{Filter: func([]byte, byte) bool {
		if calls++; calls%7 == 1 && calls < 50 && !within {
			within = true
			defer func() { within = false }()
			do(db, txn, it)
		}
		return true
	}})
	defer it.Close()
	it.Rewind()
	for range 3 * storetest.LayeredKeys {
		if !it.Valid() {
			break
		}
		_, _ = it.Item().Value()
		it.Next()
	}
}

// TestFilterThatMovesItsIterator: the move that has called the filter ends with ErrInvalid, at no
// item, in whatever way the filter asks for another move, and however far readahead has come. The
// next seek begins anew, and finds all items.
func TestFilterThatMovesItsIterator(t *testing.T) {
	_, o := storetest.MakeLayeredStore(t)
	db := assert.Must(brock.Open(o))
	defer db.Close()
	moves := []func(*brock.Iterator){
		func(it *brock.Iterator) { it.Next() },
		func(it *brock.Iterator) { it.Prev() },
		func(it *brock.Iterator) { it.Rewind() },
		func(it *brock.Iterator) { it.Seek(storetest.LayeredKey(50)) },
		func(it *brock.Iterator) { it.Seek(nil) },
		func(it *brock.Iterator) {
			for it.Next(); it.Valid(); it.Next() {
			}
		},
	}
	for i, move := range moves {
		for _, prefetch := range []int{-1, 0, 8} {
			for _, at := range []int{1, 2, 3, 40} {
				for _, accept := range []bool{false, true} {
					for _, reverse := range []bool{false, true} {
						what := fmt.Sprintf("move %d, prefetch %d, at call %d, accept %v, reverse %v", i, prefetch, at, accept, reverse)
						assert.OK(t, db.Update(func(txn *brock.Txn) error {
							assert.OK(t, txn.Set([]byte("zz"), []byte("own")))
							var it *brock.Iterator
							calls := 0
							it = txn.NewIterator(brock.IteratorOptions{Prefetch: prefetch, Reverse: reverse, Filter: func([]byte, byte) bool {
								if calls++; calls == at {
									move(it)
									return accept
								}
								return true
							}})
							defer it.Close()
							for it.Rewind(); it.Valid(); it.Next() {
								assert.Must(it.Item().Value())
							}
							assert.Error(t, what, it.Err(), brock.ErrInvalid)
							assert.Equal(t, what+": calls", calls, at)
							assert.Equal(t, what+": key", string(it.Item().Key()), "")
							n := 0
							for it.Rewind(); it.Valid(); it.Next() {
								n++
							}
							assert.OK(t, it.Err())
							assert.Equal(t, what+": items", n, storetest.LayeredKeys-storetest.LayeredKeys/10+1)
							return nil
						}))
					}
				}
			}
		}
	}
}
