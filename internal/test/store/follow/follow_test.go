// Package follow tests followers: stores that another process is writing, and copies of them.
package follow

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// refreshed is the version that a follower has after a Refresh.
func refreshed(t testing.TB, db *brock.DB) uint64 {
	t.Helper()
	v, err := db.Refresh(t.Context())
	assert.OK(t, err)
	assert.Equal(t, "the follower's version", db.Version(), v)
	return v
}

// TestFollow follows a store through all kinds of writes and of background work, and
// compares both after each step.
func TestFollow(t *testing.T) {
	t.Parallel()
	rounds := 40
	if testing.Short() {
		rounds = 20
	}
	for _, values := range []string{"", "values"} {
		t.Run("ValueDir="+values, func(t *testing.T) {
			storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
				o := p.RetainingOptions("store", values)
				db, err := brock.Open(o)
				assert.OK(t, err)
				defer db.Close()
				w := storetest.NewWorkload(t, db, 1)
				f := storetest.OpenFollower(t, o)
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
					w.Write(t, 1+w.Rand.IntN(30))
					assert.OK(t, work[w.Rand.IntN(len(work))]())
					v := refreshed(t, f)
					if last := db.Version(); v != last && v != last-1 { // the last frame of a segment that was never synced
						t.Fatalf("the follower has version %d of %d", v, last)
					}
					assert.SameText(t, "the follower", storetest.ShowRetained(t, f, 0), storetest.ShowRetained(t, db, v))
					if i%20 == 5 {
						txn, err := f.Begin(t.Context(), brock.TxnOptions{})
						assert.OK(t, err)
						old, then = append(old, txn), append(then, storetest.ShowItems(txn.Items(brock.IteratorOptions{})))
					}
					if i%20 == 15 {
						assert.OK(t, f.Verify(t.Context(), nil))
					}
				}
				for i, txn := range old {
					assert.SameText(t, "an old transaction", storetest.ShowItems(txn.Items(brock.IteratorOptions{})), then[i])
					txn.Discard()
				}
			})
		})
	}
}

// TestFollowBesideReaders refreshes a follower while others read it: each transaction
// sees one round of a writer that sets all keys in each, and no later one an earlier round.
func TestFollowBesideReaders(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		o := p.TinyOptions("store", "")
		db := storetest.Open(t, o)
		const keys = 40
		round := func(n int) {
			assert.OK(t, db.Update(func(txn *brock.Txn) error {
				for i := range keys {
					if err := txn.Set(fmt.Appendf(nil, "key %02d", i), fmt.Appendf(nil, "%0*d", 10+(i%3)*400, n)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		round(0)
		assert.OK(t, db.Sync(t.Context()))
		f := storetest.OpenFollower(t, o)
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
		assert.OK(t, db.Sync(t.Context()))
		refreshed(t, f)
		close(done)
		all.Wait()
		assert.Equal(t, "version", f.Version(), db.Version())
	})
}

// TestFollowRefuses opens what can't be followed, and does what a follower can't do.
func TestFollowRefuses(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		o := p.TinyOptions("store", "")
		missing := o
		missing.Mode = brock.Follow
		_, err := brock.Open(missing)
		assert.Error(t, "no store", err, brock.ErrNotExist)
		db := storetest.Open(t, o)
		storetest.Set(t, db, "k=v")
		ks := assert.Must(db.Keyspace("fruit"))
		assert.OK(t, db.Sync(t.Context()))
		f := storetest.OpenFollower(t, o)
		assert.Error(t, "set", f.Set([]byte("k"), []byte("w")), brock.ErrReadOnly)
		assert.Error(t, "update", f.Update(func(*brock.Txn) error { return nil }), brock.ErrReadOnly)
		assert.Error(t, "flush", f.Flush(t.Context()), brock.ErrReadOnly)
		assert.Error(t, "sync", f.Sync(t.Context()), brock.ErrReadOnly)
		_, err = f.Keyspace("none")
		assert.Error(t, "a keyspace that is not there", err, brock.ErrKeyspaceNotFound)
		theirs := assert.Must(f.Keyspace("fruit"))
		assert.Error(t, "drop", theirs.Drop(t.Context()), brock.ErrReadOnly)
		if f.Metrics().Tree.OpenFiles == 0 {
			t.Error("no file is open")
		}
		// A keyspace that is dropped and made again is another one.
		old, err := f.Begin(t.Context(), brock.TxnOptions{})
		assert.OK(t, err)
		defer old.Discard()
		assert.OK(t, ks.Drop(t.Context()))
		assert.Must(db.Keyspace("fruit"))
		refreshed(t, f)
		_, err = theirs.Get([]byte("k"))
		assert.Error(t, "a dropped keyspace", err, brock.ErrKeyspaceNotFound)
		_, err = old.In(theirs).Get([]byte("k"))
		assert.Error(t, "a transaction that has it still", err, brock.ErrKeyNotFound)
		_, err = assert.Must(f.Keyspace("fruit")).Get([]byte("k"))
		assert.Error(t, "the new keyspace", err, brock.ErrKeyNotFound)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = f.Refresh(ctx)
		assert.Error(t, "a context that has ended", err, context.Canceled)
		assert.OK(t, f.Close())
		_, err = f.Refresh(t.Context())
		assert.Error(t, "closed", err, brock.ErrClosed)
		assert.Equal(t, "a writer's version", assert.Must(db.Refresh(t.Context())), db.Version())
	})
}

// TestFollowBeyondMemory follows with less memory than the writer has in its own. That is
// refused until the writer has flushed.
func TestFollowBeyondMemory(t *testing.T) {
	t.Parallel()
	p := storetest.Place{FS: vfs.NewMem(), Dir: "/"}
	o := brock.Options{Dir: p.Join("store"), FS: p.FS, Durability: brock.Buffered, MemoryLimit: 128 << 20, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	db := storetest.Open(t, o)
	for i := range 5 {
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			for k := range 4000 {
				if err := txn.Set(fmt.Appendf(nil, "key %d %d", i, k), storetest.RandomBytes(k, 300)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	assert.OK(t, db.Sync(t.Context()))
	small := o
	small.Mode, small.MemoryLimit = brock.Follow, 4<<20
	_, err := brock.Open(small)
	assert.Error(t, "little memory", err, brock.ErrInvalid)
	assert.OK(t, db.Flush(t.Context()))
	f := storetest.OpenFollower(t, small)
	assert.Equal(t, "version", f.Version(), db.Version())
}

// TestFollowerOfABufferedWriter: a follower shows all Buffered commits that a Sync of the writer
// has followed, and of others all but the newest one.
func TestFollowerOfABufferedWriter(t *testing.T) {
	t.Parallel()
	storetest.OnEach(t, func(t *testing.T, p storetest.Place) {
		o := brock.Options{Dir: p.Join("store"), FS: p.FS, Durability: brock.Buffered, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
		db, err := brock.Open(o)
		assert.OK(t, err)
		defer db.Close()
		f := storetest.OpenFollower(t, o)
		for i := range 20 {
			assert.OK(t, db.Set([]byte(strconv.Itoa(i)), []byte("value")))
			if v := refreshed(t, f); v+1 < db.Version() {
				t.Errorf("the follower shows version %d of %d", v, db.Version())
			}
			if i%3 == 0 {
				assert.OK(t, db.Sync(t.Context()))
				assert.Equal(t, "the follower's version after a Sync", refreshed(t, f), db.Version())
			}
		}
	})
}
