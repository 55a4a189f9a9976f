package storetest

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock"
)

// A filter may end its iterator or transaction, and the walk ends with it: without
// readahead, with Prefetch, and with readahead that the iterator has begun itself.
func TestFilterEndsTheWalk(t *testing.T) {
	db := openTest(t, brock.Options{})
	must(t, db.Update(func(txn *brock.Txn) error {
		for i := range 300 { // values lie far from each other, so that readahead begins
			must(t, txn.Set(fmt.Appendf(nil, "k%03d", i), fmt.Appendf(nil, "%20000d", i)))
		}
		return nil
	}))
	must(t, db.Flush(t.Context()))
	for name, end := range map[string]func(*brock.Txn, *brock.Iterator){
		"close":   func(_ *brock.Txn, it *brock.Iterator) { it.Close() },
		"discard": func(txn *brock.Txn, _ *brock.Iterator) { txn.Discard() },
		"commit": func(txn *brock.Txn, _ *brock.Iterator) {
			must(t, txn.Set(b("z"), b("v")))
			must(t, txn.Commit())
		},
	} {
		for _, prefetch := range []int{0, 4} {
			for _, reverse := range []bool{false, true} {
				for _, last := range []int{1, 2, 20, 60, 100} {
					txn := db.NewTransaction(true)
					n := 0
					var it *brock.Iterator
					it = txn.NewIterator(brock.IteratorOptions{Prefetch: prefetch, Reverse: reverse, Upper: b("l"), Filter: func([]byte, byte) bool {
						if n++; n == last {
							end(txn, it)
						}
						return true
					}})
					shown := 0
					for it.Rewind(); it.Valid(); it.Next() {
						if shown++; shown < 10 { // without reads of values readahead ends
							it.Item().Value()
						}
					}
					if n < last || n > last+4 || shown > last+1 {
						t.Errorf("%s, prefetch %d, reverse %v: %d were filtered and %d shown, ended at %d", name, prefetch, reverse, n, shown, last)
					}
					it.Close()
					txn.Discard()
				}
			}
		}
	}
}
