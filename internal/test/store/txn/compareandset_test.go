package txn

import (
	"fmt"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// Of several CompareAndSets of the same version one succeeds.
func TestOneCompareAndSetWins(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	k := []byte("k")
	assert.OK(t, db.Set(k, []byte("1")))
	var work sync.WaitGroup
	var wins sync.Map
	for i := range 8 {
		work.Go(func() {
			err := db.CompareAndSet(k, []byte(fmt.Sprint(i)), 1)
			if err == nil {
				wins.Store(i, true)
			} else {
				assert.Error(t, "loser", err, brock.ErrVersionMismatch)
			}
		})
	}
	work.Wait()
	n := 0
	wins.Range(func(any, any) bool { n++; return true })
	assert.Equal(t, "winners", n, 1)
}
