package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
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
	rounds := 40
	if testing.Short() {
		rounds = 20
	}
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
				for i := range rounds {
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

// TestFollowBesideReaders refreshes a follower while others read it: each transaction
// sees one round of a writer that sets all keys in each, and no later one an earlier round.
func TestFollowBesideReaders(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		o := p.tiny("store", "")
		db := openTest(t, o)
		const keys = 40
		round := func(n int) {
			must(t, db.Update(func(txn *brock.Txn) error {
				for i := range keys {
					if err := txn.Set(fmt.Appendf(nil, "key %02d", i), fmt.Appendf(nil, "%0*d", 10+(i%3)*400, n)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		round(0)
		must(t, db.Sync(t.Context()))
		f := follow(t, o)
		done := make(chan struct{})
		var all sync.WaitGroup
		until := func(fn func() error) {
			all.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					if err := fn(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range 2 {
			until(func() error { _, err := f.Refresh(t.Context()); return err })
		}
		for range 3 {
			last := 0
			until(func() error {
				return f.View(func(txn *brock.Txn) error {
					seen := 0
					for it, err := range txn.Items(brock.IteratorOptions{}) {
						if err != nil {
							return err
						}
						v, err := it.Value()
						if err != nil {
							return err
						}
						n, err := strconv.Atoi(string(v))
						if seen++; err != nil || n < last || seen > 1 && n != last {
							return fmt.Errorf("%q has %q in round %d", it.Key(), v, last)
						}
						last = n
					}
					if seen != keys {
						return fmt.Errorf("%d keys", seen)
					}
					return nil
				})
			})
		}
		for n := range 150 {
			round(n + 1)
		}
		must(t, db.Sync(t.Context()))
		refreshed(t, f)
		close(done)
		all.Wait()
		wantEqual(t, "version", f.Version(), db.Version())
	})
}

// TestFollowRefuses opens what can't be followed, and does what a follower can't do.
func TestFollowRefuses(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		o := p.tiny("store", "")
		missing := o
		missing.Mode = brock.Follow
		_, err := brock.Open(missing)
		wantErr(t, "no store", err, brock.ErrNotExist)
		db := openTest(t, o)
		set(t, db, "k=v")
		ks := must2(db.Keyspace("fruit"))
		must(t, db.Sync(t.Context()))
		f := follow(t, o)
		wantErr(t, "set", f.Set(b("k"), b("w")), brock.ErrReadOnly)
		wantErr(t, "update", f.Update(func(*brock.Txn) error { return nil }), brock.ErrReadOnly)
		wantErr(t, "flush", f.Flush(t.Context()), brock.ErrReadOnly)
		wantErr(t, "sync", f.Sync(t.Context()), brock.ErrReadOnly)
		_, err = f.Keyspace("none")
		wantErr(t, "a keyspace that is not there", err, brock.ErrKeyspaceNotFound)
		theirs := must2(f.Keyspace("fruit"))
		wantErr(t, "drop", theirs.Drop(t.Context()), brock.ErrReadOnly)
		if f.Metrics().Tree.OpenFiles == 0 {
			t.Error("no file is open")
		}
		// A keyspace that is dropped and made again is another one.
		old, err := f.Begin(t.Context(), brock.TxnOptions{})
		must(t, err)
		defer old.Discard()
		must(t, ks.Drop(t.Context()))
		must2(db.Keyspace("fruit"))
		refreshed(t, f)
		_, err = theirs.Get(b("k"))
		wantErr(t, "a dropped keyspace", err, brock.ErrKeyspaceNotFound)
		_, err = old.In(theirs).Get(b("k"))
		wantErr(t, "a transaction that has it still", err, brock.ErrKeyNotFound)
		_, err = must2(f.Keyspace("fruit")).Get(b("k"))
		wantErr(t, "the new keyspace", err, brock.ErrKeyNotFound)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = f.Refresh(ctx)
		wantErr(t, "a context that has ended", err, context.Canceled)
		must(t, f.Close())
		_, err = f.Refresh(t.Context())
		wantErr(t, "closed", err, brock.ErrClosed)
		wantEqual(t, "a writer's version", must2(db.Refresh(t.Context())), db.Version())
	})
}

// TestFollowBeyondMemory follows with less memory than the writer has in its own. That is
// refused until the writer has flushed.
func TestFollowBeyondMemory(t *testing.T) {
	p := place{fs: vfs.NewMem(), dir: "/"}
	o := brock.Options{Dir: p.in("store"), FS: p.fs, Durability: brock.Buffered, MemoryLimit: 128 << 20, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	db := openTest(t, o)
	for i := range 5 {
		must(t, db.Update(func(txn *brock.Txn) error {
			for k := range 4000 {
				if err := txn.Set(fmt.Appendf(nil, "key %d %d", i, k), incompressible(k, 300)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	must(t, db.Sync(t.Context()))
	small := o
	small.Mode, small.MemoryLimit = brock.Follow, 4<<20
	_, err := brock.Open(small)
	wantErr(t, "little memory", err, brock.ErrInvalid)
	must(t, db.Flush(t.Context()))
	f := follow(t, small)
	wantEqual(t, "version", f.Version(), db.Version())
}

// TestFollowerOfABufferedWriter: a follower shows all Buffered commits that a Sync of the writer
// has followed, and of others all but the newest one.
func TestFollowerOfABufferedWriter(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		o := brock.Options{Dir: p.in("store"), FS: p.fs, Durability: brock.Buffered, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
		db, err := brock.Open(o)
		must(t, err)
		defer db.Close()
		f := follow(t, o)
		for i := range 20 {
			must(t, db.Set([]byte(strconv.Itoa(i)), []byte("value")))
			if v := refreshed(t, f); v+1 < db.Version() {
				t.Errorf("the follower shows version %d of %d", v, db.Version())
			}
			if i%3 == 0 {
				must(t, db.Sync(t.Context()))
				wantEqual(t, "the follower's version after a Sync", refreshed(t, f), db.Version())
			}
		}
	})
}
