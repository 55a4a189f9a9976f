package space

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// growth makes a store of n of something and returns calls whose cost must not grow by
// more than n log n.
type growth struct {
	n    int // the least; twice and four times as many are measured too
	make func(t *testing.T, db *brock.DB, n int) map[string]func()
}

// walkOf walks the whole store one way.
func walkOf(txn *brock.Txn, reverse bool) func() {
	return func() {
		for range txn.Items(brock.IteratorOptions{Reverse: reverse}) {
		}
	}
}

func flushOne(t *testing.T, db *brock.DB) func() {
	return func() {
		assert.OK(t, db.Set([]byte("one"), nil))
		assert.OK(t, db.Flush(context.Background()))
	}
}

var growths = map[string]growth{
	"versions of a key": {5000, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		storetest.Set(t, db, "a=", "hot=0", "z=")
		old := db.NewTransaction(false)
		for i := range n {
			storetest.Set(t, db, fmt.Sprint("hot=", i))
		}
		now := db.NewTransaction(false)
		t.Cleanup(func() { old.Discard(); now.Discard() })
		return map[string]func(){
			"an old get": func() { storetest.Get(old, "hot") }, "a get": func() { storetest.Get(now, "hot") },
			"an old walk": walkOf(old, false), "an old walk back": walkOf(old, true),
			"a walk": walkOf(now, false), "a walk back": walkOf(now, true),
			"a set": func() { storetest.Set(t, db, "hot=new") },
			"all versions": func() {
				for range now.Versions([]byte("hot")) {
				}
			},
		}
	}},
	"keyspaces": {800, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		all := make([]*brock.Keyspace, n)
		for i := range n {
			all[i] = assert.Must(db.Keyspace(fmt.Sprint(i)))
			assert.OK(t, all[i].Set([]byte("k"), nil))
		}
		return map[string]func(){
			"a batch over all": func() {
				batch := db.NewBatch()
				for range 8 {
					for _, ks := range all {
						assert.OK(t, batch.In(ks).Set([]byte("k"), nil))
					}
				}
				assert.Must(batch.Commit(context.Background(), 0))
			},
			"a transaction over all": func() {
				assert.OK(t, db.Update(func(txn *brock.Txn) error {
					for _, ks := range all {
						assert.Must(txn.In(ks).Has([]byte("k")))
					}
					return txn.In(all[0]).Set([]byte("k"), nil)
				}))
			},
			"a flush":              flushOne(t, db),
			"one of them":          func() { assert.Must(assert.Must(db.Keyspace("7")).Get([]byte("k"))) },
			"one made and dropped": func() { assert.OK(t, assert.Must(db.Keyspace("new")).Drop(context.Background())) },
			"a reader of a version": func() {
				assert.Must(db.Begin(context.Background(), brock.TxnOptions{ReadAt: db.Version()})).Discard()
			},
		}
	}},
	"flushes": {50, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		for i := range n {
			assert.OK(t, db.Set(boundedKey(i%7), []byte("v")))
			flushOne(t, db)()
		}
		txn := db.NewTransaction(false)
		t.Cleanup(txn.Discard)
		return map[string]func(){
			"one more": flushOne(t, db), "a get": func() { assert.Must(txn.Get(boundedKey(3))) },
			"a walk": walkOf(txn, false), "a walk back": walkOf(txn, true),
		}
	}},
	"open transactions": {2000, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		storetest.Set(t, db, "k=")
		for range n {
			txn := db.NewTransaction(false)
			t.Cleanup(txn.Discard)
		}
		return map[string]func(){
			"one more": func() { db.NewTransaction(false).Discard() },
			"a flush":  flushOne(t, db),
			"metrics":  func() { db.Metrics() },
		}
	}},
	"keys and ranges read": {1000, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		for i := range n {
			assert.OK(t, db.Set(boundedKey(i), nil))
		}
		read := func(get func(txn *brock.Txn, i int)) func() {
			return func() {
				assert.OK(t, db.Update(func(txn *brock.Txn) error {
					for i := range n {
						get(txn, i)
					}
					assert.OK(t, db.Set([]byte("other"), nil)) // something to check against
					return txn.Set([]byte("mine"), nil)
				}))
			}
		}
		return map[string]func(){
			"keys": read(func(txn *brock.Txn, i int) { _, _ = txn.Get(boundedKey(i)) }),
			"ranges": read(func(txn *brock.Txn, i int) {
				for range txn.Prefix(boundedKey(i)) {
				}
			}),
		}
	}},
	"bytes of a key": {5000, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		key := func(i int) []byte { return fmt.Appendf(bytes.Repeat([]byte("x"), n), "%04d", i) }
		for i := range 100 {
			assert.OK(t, db.Set(key(i), nil))
		}
		txn := db.NewTransaction(false)
		t.Cleanup(txn.Discard)
		return map[string]func(){
			"a set": func() { assert.OK(t, db.Set(key(50), nil)) }, "a get": func() { assert.Must(txn.Get(key(50))) },
			"a walk": walkOf(txn, false), "a walk back": walkOf(txn, true),
		}
	}},
	"range deletes": {1000, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		for i := range n {
			assert.OK(t, db.Set(boundedKey(2*i), nil))
			assert.OK(t, db.DeleteRange(boundedKey(2*i), boundedKey(2*i+1)))
		}
		storetest.Set(t, db, "z=")
		txn := db.NewTransaction(false)
		t.Cleanup(txn.Discard)
		return map[string]func(){
			"one more": func() { assert.OK(t, db.DeleteRange(boundedKey(7), boundedKey(8))) },
			"a get":    func() { storetest.Get(txn, "z") }, "a walk": walkOf(txn, false), "a walk back": walkOf(txn, true),
		}
	}},
}

// Cost grows by no more than n log n: for four times as much, by less than ten times.
// What is quadratic grows sixteen times.
func TestGrowth(t *testing.T) {
	for name, g := range growths {
		t.Run(name, func(t *testing.T) {
			var calls [3]map[string]func()
			for i := range calls {
				calls[i] = g.make(t, storetest.Open(t, brock.Options{Maintenance: brock.Maintenance{IdleAfter: time.Hour}}), g.n<<i)
			}
			best := func(call func()) time.Duration {
				least := time.Hour
				for range 5 {
					begin := process.ReadProcessorTime()
					call()
					least = min(least, process.ReadProcessorTime()-begin)
				}
				return least
			}
			for call := range calls[0] {
				// A machine that is busy with something else is asked again.
				var took [3]time.Duration
				for range 4 {
					for i := range took {
						took[i] = best(calls[i][call])
					}
					if took[2] < 10*took[0]+200*time.Microsecond {
						break
					}
				}
				if took[2] >= 10*took[0]+200*time.Microsecond {
					t.Errorf("%s, with %d, twice and four times as many: %v", call, g.n, took)
				}
			}
		})
	}
}
