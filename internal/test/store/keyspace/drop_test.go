package keyspace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// Every call of a transaction in a dropped keyspace returns ErrKeyspaceNotFound. A
// cancelled Drop drops nothing.
func TestDropKeyspace(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	ks, other := storetest.OpenKeyspace(t, db, "ks"), storetest.OpenKeyspace(t, db, "other")
	assert.OK(t, errors.Join(ks.Set([]byte("a"), []byte("1")), other.Set([]byte("a"), []byte("1"))))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Error(t, "cancelled", ks.Drop(cancelled), context.Canceled)
	assert.Equal(t, "names", storetest.ListKeyspaces(db), "ks other")
	assert.OK(t, ks.Drop(t.Context()))
	assert.Equal(t, "names", storetest.ListKeyspaces(db), "other")
	assert.Error(t, "View", ks.View(func(*brock.Txn) error { return nil }), brock.ErrKeyspaceNotFound)
	assert.Error(t, "Update", ks.Update(func(*brock.Txn) error { return nil }), brock.ErrKeyspaceNotFound)
	for call, fn := range storetest.TxnCalls {
		if call != "Commit" {
			assert.OK(t, db.Update(func(txn *brock.Txn) error {
				assert.Error(t, call, fn(txn.In(ks)), brock.ErrKeyspaceNotFound)
				return nil
			}))
		}
	}
}

// A transaction that writes to a keyspace while others drop it and make it anew is
// in it as a whole or refused, and never in its successor.
func TestDropBesideWriters(t *testing.T) {
	db := storetest.Open(t, brock.Options{Tuning: brock.Tuning{MemtableSize: 64 << 10}})
	const writers = 4
	done := make(chan error, writers)
	stop := make(chan struct{})
	for w := range writers {
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				ks, err := db.Keyspace("ks")
				if err != nil {
					done <- err
					return
				}
				key := fmt.Appendf(nil, "%d/%d", w, i)
				err = db.Update(func(txn *brock.Txn) error {
					return errors.Join(txn.Set(key, nil), txn.In(ks).Set(key, []byte(strings.Repeat("x", 500))))
				})
				if err != nil && !errors.Is(err, brock.ErrKeyspaceNotFound) {
					done <- err
					return
				}
				has, herr := db.Has(key)
				if herr != nil || has != (err == nil) {
					done <- fmt.Errorf("%s: commit %v, half of it there: %v %v", key, err, has, herr)
					return
				}
			}
		}()
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		ks := storetest.OpenKeyspace(t, db, "ks")
		for range rng.IntN(30) {
			assert.OK(t, ks.View(func(txn *brock.Txn) error { return assert.LastError(txn.All()) }))
		}
		assert.OK(t, ks.Drop(t.Context()))
		if _, err := ks.Get([]byte("0/0")); !errors.Is(err, brock.ErrKeyspaceNotFound) {
			t.Fatal(err)
		}
	}
	close(stop)
	for range writers {
		assert.OK(t, <-done)
	}
	ks := storetest.OpenKeyspace(t, db, "ks")
	assert.OK(t, ks.Drop(t.Context()))
	assert.Equal(t, "successor", storetest.ShowItems(func(yield func(*brock.Item, error) bool) {
		assert.OK(t, storetest.OpenKeyspace(t, db, "ks").View(func(txn *brock.Txn) error { txn.All()(yield); return nil }))
	}), "")
}

// TestDropOfAKeyspaceWithRangeDeletes drops a keyspace whose range deletes are in a run as ones that
// all readers see, while another keyspace keeps all history. Its range deletes go with it.
func TestDropOfAKeyspaceWithRangeDeletes(t *testing.T) {
	db, err := brock.Open(brock.Options{
		Dir: storetest.Dir, FS: vfs.NewMem(), Maintenance: brock.Maintenance{IdleAfter: time.Hour},
		KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}},
	})
	assert.OK(t, err)
	defer func() { assert.OK(t, db.Close()) }()
	ks := storetest.OpenKeyspace(t, db, "k", brock.KeyspaceOptions{Versions: brock.Retention{Age: -1}})
	for n := range 10 {
		assert.OK(t, ks.Set(fmt.Appendf(nil, "key %d", n), []byte("old")))
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", n), []byte("old")))
	}
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, ks.DeleteRange([]byte("key 2"), []byte("key 8")))
	assert.OK(t, db.DeleteRange([]byte("key 2"), []byte("key 8")))
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, ks.Drop(t.Context()))
	for range 2 {
		assert.OK(t, db.Set([]byte("key 3"), []byte("new")))
		assert.OK(t, db.Compact(t.Context()))
	}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "keys", storetest.ListKeys(txn), "key 0 key 1 key 3 key 8 key 9")
		return nil
	}))
}

// After a Drop that ended in ErrStopped nobody knows whether the keyspace is there. A lookup says
// so, and returns no keyspace that can't be used. The next Open knows.
func TestKeyspaceWhoseDropStopped(t *testing.T) {
	mem := vfs.NewMem()
	fs := faultfs.New(mem, faultfs.Options{})
	db := assert.Must(brock.Open(brock.Options{Dir: storetest.Dir, FS: fs}))
	ks := storetest.OpenKeyspace(t, db, "k")
	assert.OK(t, ks.Set([]byte("a"), []byte("1")))
	fs.Inject(faultfs.Fault{Kinds: faultfs.Syncs, Path: "MANIFEST"})
	assert.Error(t, "Drop", ks.Drop(t.Context()), brock.ErrStopped)
	fs.Heal()
	for range 2 {
		assert.Error(t, "Keyspace", assert.ErrorOf(db.Keyspace("k")), brock.ErrStopped)
		assert.Error(t, "Keyspace with options", assert.ErrorOf(db.Keyspace("k", brock.KeyspaceOptions{TTL: time.Hour})), brock.ErrStopped)
		assert.Error(t, "Get", assert.ErrorOf(ks.Get([]byte("a"))), brock.ErrKeyspaceNotFound)
	}
	assert.Error(t, "Close", db.Close(), brock.ErrStopped)
	db = assert.Must(brock.Open(brock.Options{Dir: storetest.Dir, FS: mem.CrashClone(vfs.CrashOptions{})}))
	assert.OK(t, storetest.OpenKeyspace(t, db, "k").Set([]byte("a"), []byte("2")))
	assert.OK(t, db.Close())
}
