package read

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// A filter that closes its iterator, or ends the update that this belongs to, changes nothing: the
// move that has called it ends with ErrInvalid, at no item, and all goes on with the next seek.
// Without readahead, with Prefetch, and with readahead that the iterator has begun itself.
func TestFilterEndsNothing(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	const keys = 300
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		for i := range keys { // values lie far from each other, so that readahead begins
			assert.OK(t, txn.Set(fmt.Appendf(nil, "k%03d", i), fmt.Appendf(nil, "%20000d", i)))
		}
		return nil
	}))
	assert.OK(t, db.Flush(t.Context()))
	for name, end := range map[string]func(*brock.Txn, *brock.Iterator){
		"close":   func(_ *brock.Txn, it *brock.Iterator) { assert.Error(t, "Close", it.Close(), brock.ErrInvalid) },
		"discard": func(txn *brock.Txn, _ *brock.Iterator) { txn.Discard() },
		"commit": func(txn *brock.Txn, _ *brock.Iterator) {
			assert.OK(t, txn.Set([]byte("z"), []byte("v")))
			assert.Error(t, "Commit", txn.Commit(), brock.ErrInvalid)
		},
	} {
		for _, prefetch := range []int{-1, 0, 4} {
			for _, reverse := range []bool{false, true} {
				for _, last := range []int{1, 2, 20, 60, 100} {
					what := fmt.Sprintf("%s, prefetch %d, reverse %v, at %d", name, prefetch, reverse, last)
					txn := db.NewTransaction(true)
					n := 0
					var it *brock.Iterator
					it = txn.NewIterator(brock.IteratorOptions{Prefetch: prefetch, Reverse: reverse, Upper: []byte("l"), Filter: func([]byte, byte) bool {
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
					assert.Error(t, what, it.Err(), brock.ErrInvalid)
					assert.Equal(t, what+": filtered", n, last)
					shown = 0
					for it.Rewind(); it.Valid(); it.Next() {
						shown++
					}
					assert.OK(t, it.Close())
					assert.Equal(t, what+": shown by the next walk", shown, keys)
					assert.OK(t, txn.Set([]byte("zz"), []byte("v")))
					assert.OK(t, txn.Commit())
				}
			}
		}
	}
}

// What a filter is shown counts as read by a Serializable transaction, also what was
// read ahead of the item: each such key, and the gaps between. If there was no more to
// show, that counts too.
func TestFilterHasReadWhatItWasShown(t *testing.T) {
	type walk struct {
		prefetch, moves, back int
		reverse               bool
	}
	var walks []walk
	for _, prefetch := range []int{-1, 0, 2, 5, 64} {
		for _, reverse := range []bool{false, true} {
			for moves := range 4 {
				walks = append(walks, walk{prefetch, moves, 0, reverse}, walk{prefetch, moves, 2, reverse})
			}
		}
	}
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 1}})
	reset := func() {
		assert.OK(t, db.DropAll(t.Context()))
		storetest.Set(t, db, "d=1", "f=1", "h=1", "j=1", "l=1", "n=1", "p=1")
	}
	const others = "abcdefghijklmnopqrst" // keys that others write, bounds included
	for _, w := range walks {
		for _, other := range others {
			reset()
			txn := db.NewTransaction(true)
			var least, greatest byte = 0xff, 0
			calls := 0
			it := txn.NewIterator(brock.IteratorOptions{Prefetch: w.prefetch, Reverse: w.reverse, Lower: []byte("b"), Upper: []byte("s"), Filter: func(key []byte, _ byte) bool {
				calls++
				least, greatest = min(least, key[0]), max(greatest, key[0])
				return key[0] != 'h'
			}})
			it.Seek([]byte("j"))
			for range w.moves {
				it.Next()
			}
			for range w.back {
				it.Prev()
			}
			// Where more was asked for than there is, the bound counts as read.
			if greatest == 'p' && w.prefetch == 64 && !w.reverse {
				greatest = 'r'
			}
			if least == 'd' && w.prefetch == 64 && w.reverse {
				least = 'b'
			}
			it.Close()
			assert.OK(t, txn.Set([]byte("x"), nil))
			storetest.Set(t, db, string(other)+"=2")
			err := txn.Commit()
			if covered := least <= byte(other) && byte(other) <= greatest; covered && err == nil {
				t.Errorf("%+v: the filter was shown %d keys from %c to %c, and nobody minds %c", w, calls, least, greatest, other)
			}
			if outside := byte(other) < 'b' || byte(other) >= 's'; outside && err != nil {
				t.Errorf("%+v: %c is out of bounds: %v", w, other, err)
			}
			txn.Discard()
		}
	}
}
