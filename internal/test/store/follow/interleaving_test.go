package follow

import (
	"math"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// churn has a writer retire, use again, collect and remove files.
func churn(t testing.TB, w *storetest.Workload) {
	t.Helper()
	for range 3 {
		w.Write(t, 25)
		assert.OK(t, w.DB.Flush(t.Context()))
	}
	_, err := w.DB.Reclaim(t.Context())
	assert.OK(t, err)
	w.Write(t, 5)
	assert.OK(t, w.DB.Sync(t.Context()))
}

// TestFollowAtEveryStep has the writer do all kinds of work before each operation of the
// file system that a follower's Open, and then a Refresh, makes.
func TestFollowAtEveryStep(t *testing.T) {
	t.Parallel()
	storetest.AtEachStep(t, 9, func(t *testing.T, at int) (worked bool) {
		p := storetest.Place{FS: vfs.NewMem(), Dir: "/"}
		o := p.RetainingOptions("store", "")
		db := storetest.Open(t, o)
		w := storetest.NewWorkload(t, db, 1)
		churn(t, w)
		n := 0
		o.FS = faultfs.New(p.FS, faultfs.Options{Before: func(faultfs.Op) {
			if n++; n == at {
				worked = true
				churn(t, w)
			}
		}})
		check := func(what string, f *brock.DB, least uint64) {
			t.Helper()
			if v := f.Version(); v < least || v > db.Version() {
				t.Fatalf("step %d: %s has version %d, the writer had %d and has %d", at, what, v, least, db.Version())
			}
			assert.SameText(t, what, storetest.ShowRetained(t, f, 0), storetest.ShowRetained(t, db, f.Version()))
		}
		before := db.Version()
		f := storetest.OpenFollower(t, o)
		check("a new follower", f, before)
		old, err := f.Begin(t.Context(), brock.TxnOptions{})
		assert.OK(t, err)
		defer old.Discard()
		then := storetest.ShowItems(old.Items(brock.IteratorOptions{}))
		churn(t, w)
		before = db.Version()
		refreshed(t, f)
		check("a follower that went on", f, before)
		churn(t, w)
		assert.SameText(t, "what was open", storetest.ShowItems(old.Items(brock.IteratorOptions{})), then)
		n = math.MinInt // Close does nothing to attack
		return worked
	})
}

// TestFollowedAtEveryStep opens a follower before each operation of the file system that
// a writer makes while it retires, uses again and removes files. Whatever follows, the
// follower goes on to see what it has seen.
func TestFollowedAtEveryStep(t *testing.T) {
	t.Parallel()
	storetest.AtEachStep(t, 61, func(t *testing.T, at int) bool {
		p := storetest.Place{FS: vfs.NewMem(), Dir: "/"}
		o := p.RetainingOptions("store", "")
		var f *brock.DB
		var then string
		var n atomic.Int64
		hooked := o
		hooked.FS = faultfs.New(p.FS, faultfs.Options{Before: func(faultfs.Op) {
			if n.Add(1) == int64(at) {
				f = storetest.OpenFollower(t, o)
				then = storetest.ShowRetained(t, f, 0)
			}
		}})
		n.Store(int64(at)) // not yet
		db := storetest.Open(t, hooked)
		w := storetest.NewWorkload(t, db, 1)
		churn(t, w)
		n.Store(0)
		churn(t, w)
		if n.Swap(int64(at)) < int64(at) { // whatever follows is not attacked
			return false
		}
		churn(t, w)
		assert.SameText(t, "a follower that did nothing", storetest.ShowRetained(t, f, 0), then)
		assert.OK(t, f.Verify(t.Context(), nil))
		assert.Equal(t, "version", refreshed(t, f), db.Version())
		assert.SameText(t, "a follower that went on", storetest.ShowRetained(t, f, 0), storetest.ShowRetained(t, db, 0))
		return true
	})
}
