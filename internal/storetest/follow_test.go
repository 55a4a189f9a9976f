package storetest

import (
	"errors"
	"testing"

	"github.com/brockdb/brock"
)

// follow opens a follower of the store that o describes, and closes it at the end.
func follow(t testing.TB, o brock.Options) *brock.DB {
	t.Helper()
	o.Mode, o.MustExist = brock.Follow, true
	db, err := brock.Open(o)
	if errors.Is(err, brock.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// refreshed is the version that a follower has after a Refresh.
func refreshed(t testing.TB, db *brock.DB) uint64 {
	t.Helper()
	v, err := db.Refresh(t.Context())
	must(t, err)
	wantEqual(t, "the follower's version", db.Version(), v)
	return v
}

// TestFollow follows a store through all kinds of writes and of background work, and
// compares both after each step.
func TestFollow(t *testing.T) {
	for _, values := range []string{"", "values"} {
		t.Run("ValueDir="+values, func(t *testing.T) {
			onEach(t, func(t *testing.T, p place) {
				o := p.retaining("store", values)
				db, err := brock.Open(o)
				must(t, err)
				defer db.Close()
				w := newBusy(t, db, 1)
				f := follow(t, o)
				work := []func() error{
					func() error { return nil },
					func() error { return db.Sync(t.Context()) },
					func() error { return db.Flush(t.Context()) },
					func() error { return db.Compact(t.Context()) },
					func() error { _, err := db.Reclaim(t.Context()); return err },
				}
				var old []*brock.Txn
				var then []string
				for i := range 40 {
					w.steps(t, 1+w.rng.IntN(30))
					must(t, work[w.rng.IntN(len(work))]())
					v := refreshed(t, f)
					if last := db.Version(); v != last && v != last-1 { // the last frame of a segment that was never synced
						t.Fatalf("the follower has version %d of %d", v, last)
					}
					same(t, "the follower", retained(t, f, 0), retained(t, db, v))
					if i%20 == 5 {
						txn, err := f.Begin(t.Context(), brock.TxnOptions{})
						must(t, err)
						old, then = append(old, txn), append(then, show(txn.Items(brock.IteratorOptions{})))
					}
					if i%20 == 15 {
						must(t, f.Verify(t.Context(), nil))
					}
				}
				for i, txn := range old {
					same(t, "an old transaction", show(txn.Items(brock.IteratorOptions{})), then[i])
					txn.Discard()
				}
			})
		})
	}
}
