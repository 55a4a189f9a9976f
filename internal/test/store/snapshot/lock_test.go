package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestLockConflicts: which pairs of transactions conflict over a key that the first has locked.
func TestLockConflicts(t *testing.T) {
	t.Parallel()
	get := func(txn *brock.Txn) error {
		_, err := txn.Has([]byte("k"))
		return errors.Join(err, storetest.Put(txn, "else=1"))
	}
	lock := func(txn *brock.Txn) error { return txn.Lock([]byte("k")) }
	for _, committed := range []string{"absent", "value", "deleted", "expired"} {
		for name, test := range map[string]struct {
			iso       brock.Isolation // of the second
			do        func(*brock.Txn) error
			conflicts bool
		}{
			"locks it":                    {brock.SnapshotIsolation, lock, true},
			"locks it, serializable":      {brock.Serializable, lock, true},
			"writes and locks it":         {brock.Serializable, func(txn *brock.Txn) error { return errors.Join(storetest.Put(txn, "k=2"), lock(txn)) }, true},
			"deletes and locks it":        {brock.Serializable, func(txn *brock.Txn) error { return errors.Join(storetest.Put(txn, "k"), lock(txn)) }, true},
			"locks and writes it":         {brock.SnapshotIsolation, func(txn *brock.Txn) error { return errors.Join(lock(txn), storetest.Put(txn, "k=2")) }, true},
			"writes it":                   {brock.SnapshotIsolation, func(txn *brock.Txn) error { return storetest.Put(txn, "k=2") }, true},
			"writes it, serializable":     {brock.Serializable, func(txn *brock.Txn) error { return storetest.Put(txn, "k=2") }, false},
			"deletes its range":           {brock.SnapshotIsolation, func(txn *brock.Txn) error { return txn.DeleteRange(nil, nil) }, true},
			"reads it":                    {brock.Serializable, get, true},
			"reads it, snapshot":          {brock.SnapshotIsolation, get, false},
			"locks another":               {brock.SnapshotIsolation, func(txn *brock.Txn) error { return txn.Lock([]byte("l")) }, false},
			"writes it, last writer wins": {brock.LastWriterWins, func(txn *brock.Txn) error { return storetest.Put(txn, "k=2") }, false},
		} {
			t.Run(committed+" "+name, func(t *testing.T) {
				now := storetest.NewClock(1e12)
				db := storetest.Open(t, brock.Options{Now: now.Now})
				switch committed {
				case "value":
					storetest.Set(t, db, "k=1")
				case "deleted":
					storetest.Set(t, db, "k=1", "k")
				case "expired":
					assert.OK(t, db.BatchSet([]*brock.Entry{brock.NewEntry([]byte("k"), []byte("1")).WithTTL(time.Second)}))
					now.Add(time.Minute)
				}
				first := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: brock.SnapshotIsolation}))
				second := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: test.iso}))
				assert.OK(t, lock(first))
				assert.OK(t, test.do(second))
				assert.OK(t, first.Commit())
				err := second.Commit()
				if test.conflicts {
					assert.Error(t, "Commit", err, brock.ErrConflict)
				} else {
					assert.OK(t, err)
				}
			})
		}
	}
}

// TestLockPreventsWriteSkew runs the two doctors of the literature, of whom one must stay on call, under
// SnapshotIsolation: both leave without a lock, and one with it.
func TestLockPreventsWriteSkew(t *testing.T) {
	for _, locks := range []bool{false, true} {
		db := storetest.Open(t, brock.Options{})
		storetest.Set(t, db, "alice=on", "bob=on")
		var txns []*brock.Txn
		for range 2 {
			txns = append(txns, assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: brock.SnapshotIsolation})))
		}
		refused := 0
		for i, name := range []string{"alice", "bob"} {
			if locks {
				assert.OK(t, txns[i].Lock([]byte("doctors")))
			}
			assert.Equal(t, "on call", storetest.ShowItems(txns[i].All()), "alice=on bob=on")
			assert.OK(t, storetest.Put(txns[i], name+"=off"))
		}
		for _, txn := range txns {
			if err := txn.Commit(); err != nil {
				assert.Error(t, "Commit", err, brock.ErrConflict)
				refused++
			}
		}
		assert.Equal(t, fmt.Sprint("refused with locks ", locks), refused == 1, locks)
	}
}

// TestLockKeepsEntries locks entries of all kinds: they stay as they were, but for the version.
func TestLockKeepsEntries(t *testing.T) {
	t.Parallel()
	p := storetest.Place{FS: vfs.NewMem(), Dir: "/"}
	for _, encrypted := range []bool{false, true} {
		o := p.RetainingOptions(fmt.Sprint("store ", encrypted), "")
		if encrypted {
			o.Keys = storetest.MasterKey(1)
		}
		db := storetest.Open(t, o)
		r := draw.Rand(t)
		ks := storetest.OpenKeyspace(t, db, "k", brock.KeyspaceOptions{TTL: time.Hour, Compression: brock.S2, ValueThreshold: 100})
		entries := []*brock.Entry{
			{Key: []byte("a"), Value: []byte("small"), Meta: 3},
			{Key: []byte("b"), Value: bytes.Repeat([]byte("large "), 1000), Meta: 4, ExpiresAt: time.Now().Add(time.Hour)},
			{Key: []byte("c"), Value: storetest.RandomBytes(1, 1<<20-1)},
			{Key: []byte("d"), OnlyLatest: true, Value: []byte{}},
			{Key: []byte{}, Value: []byte("of the empty key")},
		}
		for _, e := range entries {
			assert.OK(t, db.BatchSet([]*brock.Entry{e}))
			assert.OK(t, ks.Update(func(txn *brock.Txn) error { return txn.SetEntry(e) }))
		}
		if r.IntN(2) == 0 {
			assert.OK(t, db.Flush(t.Context()))
		}
		for _, in := range []*brock.Keyspace{nil, ks} {
			for _, e := range entries {
				show := func() (out string, version uint64) {
					assert.OK(t, db.View(func(txn *brock.Txn) error {
						it := assert.Must(txn.In(in).Get(e.Key))
						version = it.Version()
						out = fmt.Sprintf("%q %d %v %v %d", it.Key(), it.Meta(), it.ExpiresAt(), it.OnlyLatest(), it.ValueSize())
						if v := assert.Must(it.Value()); !bytes.Equal(v, e.Value) {
							t.Errorf("%s: another value", e.Key)
						}
						return nil
					}))
					return out, version
				}
				before, version := show()
				assert.OK(t, db.Update(func(txn *brock.Txn) error { return txn.In(in).Lock(e.Key) }))
				after, locked := show()
				assert.Equal(t, string(e.Key), after, before)
				assert.Equal(t, "version", locked, db.Version())
				assert.Equal(t, "version rises", locked > version, true)
			}
		}
		assert.OK(t, db.Set([]byte("huge"), make([]byte, 1<<20)))
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			assert.Error(t, "Lock", txn.Lock([]byte("huge")), brock.ErrInvalid)
			assert.OK(t, txn.Lock(nil)) // the empty key
			return nil
		}))
		assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{Isolation: brock.LastWriterWins}, func(txn *brock.Txn) error {
			assert.Error(t, "Lock", txn.Lock([]byte("a")), brock.ErrInvalid)
			return nil
		}))
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			assert.Error(t, "Lock", txn.Lock([]byte("a")), brock.ErrReadOnly)
			return nil
		}))
		assert.OK(t, db.Verify(t.Context(), nil))
	}
}

// TestUntrackedIterator: what it walks is no conflict, and what others walk is.
func TestUntrackedIterator(t *testing.T) {
	filter := func([]byte, byte) bool { return true }
	for _, untracked := range []bool{false, true} {
		for name, o := range map[string]brock.IteratorOptions{"all": {}, "reverse": {Reverse: true}, "filter": {Filter: filter}, "versions": {AllVersions: true}, "limit": {Limit: 2}} {
			db := storetest.Open(t, brock.Options{})
			storetest.Set(t, db, "a=1", "b=1", "c=1")
			txn := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true}))
			o.Untracked = untracked
			assert.OK(t, assert.LastError(txn.Items(o)))
			it := txn.NewIterator(o)
			it.Seek([]byte("b"))
			assert.OK(t, it.Close())
			assert.OK(t, storetest.Put(txn, "d=1"))
			storetest.Set(t, db, "b=2")
			err := txn.Commit()
			if untracked {
				assert.OK(t, err)
			} else {
				assert.Error(t, name, err, brock.ErrConflict)
			}
			// Point reads of the same transaction count all the same.
			txn = assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true}))
			assert.OK(t, assert.LastError(txn.Items(o)))
			assert.Equal(t, "b", storetest.Get(txn, "b"), "2")
			assert.OK(t, storetest.Put(txn, "d=2"))
			storetest.Set(t, db, "b=3")
			assert.Error(t, name, txn.Commit(), brock.ErrConflict)
		}
	}
}
