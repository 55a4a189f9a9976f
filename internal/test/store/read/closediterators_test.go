package read

import (
	"fmt"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// Iterators that were closed give their memory to others. They show nothing of those, also if they
// were closed by their own filter, and the others see nothing of them.
func TestClosedIteratorsShareNothing(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	const keys = 500
	fill := func(from int) {
		for i := from; i < keys; i += 3 {
			assert.OK(t, db.Set(fmt.Appendf(nil, "%04d", i), fmt.Appendf(nil, "value %d", i)))
		}
	}
	fill(0)
	assert.OK(t, db.Flush(t.Context()))
	fill(1)
	assert.OK(t, db.Flush(t.Context()))
	fill(2)
	closed := func(txn *brock.Txn, o brock.IteratorOptions, at int) *brock.Iterator {
		it := txn.NewIterator(o)
		it.Seek(fmt.Appendf(nil, "%04d", at))
		_ = it.Close()
		return it
	}
	var readers sync.WaitGroup
	for r := range 4 {
		readers.Go(func() {
			err := db.View(func(txn *brock.Txn) error {
				for round := range 40 {
					var own *brock.Iterator
					o := brock.IteratorOptions{Reverse: round%2 == 1}
					filtered := o
					filtered.Filter = func([]byte, byte) bool { _ = own.Close(); return round%3 == 0 }
					own = txn.NewIterator(filtered)
					own.Rewind()
					gone := []*brock.Iterator{own, closed(txn, o, r*100), closed(txn, filtered, keys)}
					it := txn.NewIterator(o)
					n := 0
					for it.Rewind(); it.Valid(); it.Next() {
						i := n
						if o.Reverse {
							i = keys - 1 - n
						}
						value, err := it.Item().Value()
						if err != nil {
							return err
						}
						if got, want := string(value), fmt.Sprint("value ", i); got != want {
							return fmt.Errorf("%q instead of %q", got, want)
						}
						for _, g := range gone {
							switch n % 4 {
							case 0:
								g.Next()
							case 1:
								g.Prev()
							case 2:
								g.Rewind()
							case 3:
								g.Seek([]byte("0100"))
							}
							if g.Valid() || g.Item().Key() != nil || g.Err() == nil {
								return fmt.Errorf("a closed iterator is at %q, %v", g.Item().Key(), g.Err())
							}
						}
						n++
					}
					if err := it.Close(); err != nil || n != keys {
						return fmt.Errorf("%d items, %w", n, err)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
}
