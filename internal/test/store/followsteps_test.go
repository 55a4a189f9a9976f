package store

import (
	"math"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// churn has a writer retire, use again, collect and remove files.
func churn(t testing.TB, w *busy) {
	t.Helper()
	for range 3 {
		w.steps(t, 25)
		must(t, w.db.Flush(t.Context()))
	}
	_, err := w.db.Reclaim(t.Context())
	must(t, err)
	w.steps(t, 5)
	must(t, w.db.Sync(t.Context()))
}

// atEachStep calls test with each step-th number, of which the first is drawn, until it returns
// false: in short tests with a third of these, with -every with all numbers from 1 on.
func atEachStep(t *testing.T, step int, test func(t *testing.T, at int) bool) {
	switch {
	case *every:
		step = 1
	case testing.Short():
		step *= 3
	}
	at := 1 + draw.Rand(t).IntN(step)
	namesWhenFailed(t, "step", &at)
	for ; test(t, at); at += step {
	}
}

// TestFollowAtEveryStep has the writer do all kinds of work before each operation of the
// file system that a follower's Open, and then a Refresh, makes.
func TestFollowAtEveryStep(t *testing.T) {
	atEachStep(t, 9, func(t *testing.T, at int) (worked bool) {
		p := place{fs: vfs.NewMem(), dir: "/"}
		o := p.retaining("store", "")
		db := openTest(t, o)
		w := newBusy(t, db, 1)
		churn(t, w)
		n := 0
		o.FS = faultfs.New(p.fs, faultfs.Options{Before: func(faultfs.Op) {
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
			same(t, what, retained(t, f, 0), retained(t, db, f.Version()))
		}
		before := db.Version()
		f := follow(t, o)
		check("a new follower", f, before)
		old, err := f.Begin(t.Context(), brock.TxnOptions{})
		must(t, err)
		defer old.Discard()
		then := show(old.Items(brock.IteratorOptions{}))
		churn(t, w)
		before = db.Version()
		refreshed(t, f)
		check("a follower that went on", f, before)
		churn(t, w)
		same(t, "what was open", show(old.Items(brock.IteratorOptions{})), then)
		n = math.MinInt // Close does nothing to attack
		return worked
	})
}

// TestFollowedAtEveryStep opens a follower before each operation of the file system that
// a writer makes while it retires, uses again and removes files. Whatever follows, the
// follower goes on to see what it has seen.
func TestFollowedAtEveryStep(t *testing.T) {
	atEachStep(t, 61, func(t *testing.T, at int) bool {
		p := place{fs: vfs.NewMem(), dir: "/"}
		o := p.retaining("store", "")
		var f *brock.DB
		var then string
		var n atomic.Int64
		hooked := o
		hooked.FS = faultfs.New(p.fs, faultfs.Options{Before: func(faultfs.Op) {
			if n.Add(1) == int64(at) {
				f = follow(t, o)
				then = retained(t, f, 0)
			}
		}})
		n.Store(int64(at)) // not yet
		db := openTest(t, hooked)
		w := newBusy(t, db, 1)
		churn(t, w)
		n.Store(0)
		churn(t, w)
		if n.Swap(int64(at)) < int64(at) { // whatever follows is not attacked
			return false
		}
		churn(t, w)
		same(t, "a follower that did nothing", retained(t, f, 0), then)
		must(t, f.Verify(t.Context(), nil))
		wantEqual(t, "version", refreshed(t, f), db.Version())
		same(t, "a follower that went on", retained(t, f, 0), retained(t, db, 0))
		return true
	})
}
