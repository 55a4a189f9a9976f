package txn

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// An iterator that begins while another goroutine ends its read-only transaction is refused, or
// keeps what the transaction holds: nothing is given back twice, or to another reader too early.
func TestIteratorsBeginBesideDiscard(t *testing.T) {
	db := storetest.Open(t, brock.Options{InMemory: true})
	storetest.Set(t, db, "a", "1", "b", "2")
	turns := 100_000
	if testing.Short() {
		turns = 20_000
	}
	txns, done := make(chan *brock.Txn), make(chan struct{})
	var begun atomic.Int64
	go func() {
		defer close(done)
		for txn := range txns {
			it := txn.NewIterator(brock.IteratorOptions{})
			for it.Rewind(); it.Valid(); it.Next() {
				begun.Add(1)
			}
			if err := it.Close(); err != nil && !errors.Is(err, brock.ErrTxnDone) {
				t.Error(err)
			}
		}
	}()
	for turn := range turns {
		txn := db.NewTransaction(false)
		txns <- txn
		for range turn % 1000 {
			begun.Load() // so that it ends at each moment of the iterator's life
		}
		txn.Discard()
	}
	close(txns)
	<-done
	t.Logf("%d items were walked", begun.Load())
	assert.Equal(t, "oldest reader", db.Metrics().Tree.PinnedVersion, 0)
}
