package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// Workload makes all kinds of writes in random order.
type Workload struct {
	DB       *brock.DB
	Rand     *rand.Rand
	Keyspace *brock.Keyspace
}

// NewWorkload returns a workload of db, and of a keyspace that it makes. The same seed writes
// the same.
func NewWorkload(t testing.TB, db *brock.DB, seed uint64) *Workload {
	ks, err := db.Keyspace("fruit", brock.KeyspaceOptions{ValueThreshold: 300, Versions: brock.Retention{Age: time.Hour}})
	assert.OK(t, err)
	return &Workload{DB: db, Rand: rand.New(rand.NewPCG(seed, 1)), Keyspace: ks}
}

// WriteOnce commits one transaction of a few writes.
func (w *Workload) WriteOnce(ctx context.Context) error {
	return w.DB.UpdateContext(ctx, brock.TxnOptions{Isolation: brock.LastWriterWins}, func(txn *brock.Txn) error {
		for range 1 + w.Rand.IntN(4) {
			to := txn
			if w.Rand.IntN(3) == 0 {
				to = txn.In(w.Keyspace)
			}
			key := fmt.Appendf(nil, "key %03d", w.Rand.IntN(200))
			var err error
			switch w.Rand.IntN(12) {
			case 0:
				err = to.Delete(key)
			case 1:
				err = to.DeleteRange(key, fmt.Appendf(nil, "key %03d", 200+w.Rand.IntN(20)))
				if w.Rand.IntN(4) > 0 {
					err = nil
				}
			case 2:
				err = to.SetEntry(&brock.Entry{Key: key, Value: key, Meta: 7, ExpiresAt: time.Now().Add(time.Hour)})
			default:
				n := w.Rand.IntN(200)
				if w.Rand.IntN(3) == 0 {
					n = 1000 + w.Rand.IntN(4000)
				}
				err = to.Set(key, RandomBytes(w.Rand.IntN(1000), n))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Write commits n transactions.
func (w *Workload) Write(t testing.TB, n int) {
	t.Helper()
	for range n {
		assert.OK(t, w.WriteOnce(t.Context()))
	}
}
