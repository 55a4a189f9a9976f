package store

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
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
		must(t, db.Set([]byte("one"), nil))
		must(t, db.Flush(context.Background()))
	}
}

var growths = map[string]growth{
	"versions of a key": {5000, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		set(t, db, "a=", "hot=0", "z=")
		old := db.NewTransaction(false)
		for i := range n {
			set(t, db, fmt.Sprint("hot=", i))
		}
		now := db.NewTransaction(false)
		t.Cleanup(func() { old.Discard(); now.Discard() })
		return map[string]func(){
			"an old get": func() { get(old, "hot") }, "a get": func() { get(now, "hot") },
			"an old walk": walkOf(old, false), "an old walk back": walkOf(old, true),
			"a walk": walkOf(now, false), "a walk back": walkOf(now, true),
			"a set": func() { set(t, db, "hot=new") },
			"all versions": func() {
				for range now.Versions([]byte("hot")) {
				}
			},
		}
	}},
	"keyspaces": {800, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		all := make([]*brock.Keyspace, n)
		for i := range n {
			all[i] = must2(db.Keyspace(fmt.Sprint(i)))
			must(t, all[i].Set([]byte("k"), nil))
		}
		return map[string]func(){
			"a batch over all": func() {
				batch := db.NewBatch()
				for range 8 {
					for _, ks := range all {
						must(t, batch.In(ks).Set([]byte("k"), nil))
					}
				}
				must2(batch.Commit(context.Background(), 0))
			},
			"a transaction over all": func() {
				must(t, db.Update(func(txn *brock.Txn) error {
					for _, ks := range all {
						must2(txn.In(ks).Has([]byte("k")))
					}
					return txn.In(all[0]).Set([]byte("k"), nil)
				}))
			},
			"a flush":              flushOne(t, db),
			"one of them":          func() { must2(must2(db.Keyspace("7")).Get([]byte("k"))) },
			"one made and dropped": func() { must(t, must2(db.Keyspace("new")).Drop(context.Background())) },
			"a reader of a version": func() {
				must2(db.Begin(context.Background(), brock.TxnOptions{ReadAt: db.Version()})).Discard()
			},
		}
	}},
	"flushes": {50, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		for i := range n {
			must(t, db.Set(wayKey(i%7), []byte("v")))
			flushOne(t, db)()
		}
		txn := db.NewTransaction(false)
		t.Cleanup(txn.Discard)
		return map[string]func(){
			"one more": flushOne(t, db), "a get": func() { must2(txn.Get(wayKey(3))) },
			"a walk": walkOf(txn, false), "a walk back": walkOf(txn, true),
		}
	}},
	"open transactions": {2000, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		set(t, db, "k=")
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
			must(t, db.Set(wayKey(i), nil))
		}
		read := func(get func(txn *brock.Txn, i int)) func() {
			return func() {
				must(t, db.Update(func(txn *brock.Txn) error {
					for i := range n {
						get(txn, i)
					}
					must(t, db.Set([]byte("other"), nil)) // something to check against
					return txn.Set([]byte("mine"), nil)
				}))
			}
		}
		return map[string]func(){
			"keys": read(func(txn *brock.Txn, i int) { _, _ = txn.Get(wayKey(i)) }),
			"ranges": read(func(txn *brock.Txn, i int) {
				for range txn.Prefix(wayKey(i)) {
				}
			}),
		}
	}},
	"bytes of a key": {5000, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		key := func(i int) []byte { return fmt.Appendf(bytes.Repeat([]byte("x"), n), "%04d", i) }
		for i := range 100 {
			must(t, db.Set(key(i), nil))
		}
		txn := db.NewTransaction(false)
		t.Cleanup(txn.Discard)
		return map[string]func(){
			"a set": func() { must(t, db.Set(key(50), nil)) }, "a get": func() { must2(txn.Get(key(50))) },
			"a walk": walkOf(txn, false), "a walk back": walkOf(txn, true),
		}
	}},
	"range deletes": {1000, func(t *testing.T, db *brock.DB, n int) map[string]func() {
		for i := range n {
			must(t, db.Set(wayKey(2*i), nil))
			must(t, db.DeleteRange(wayKey(2*i), wayKey(2*i+1)))
		}
		set(t, db, "z=")
		txn := db.NewTransaction(false)
		t.Cleanup(txn.Discard)
		return map[string]func(){
			"one more": func() { must(t, db.DeleteRange(wayKey(7), wayKey(8))) },
			"a get":    func() { get(txn, "z") }, "a walk": walkOf(txn, false), "a walk back": walkOf(txn, true),
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
				calls[i] = g.make(t, openTest(t, brock.Options{Maintenance: brock.Maintenance{IdleAfter: time.Hour}}), g.n<<i)
			}
			best := func(call func()) time.Duration {
				least := time.Hour
				for range 5 {
					begin := spent()
					call()
					least = min(least, spent()-begin)
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
