package keyspace

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// An update with ReadAt begins while a flush drops history, deletes included. It
// gets ErrVersionGone or finds its conflicts, also where another keyspace still
// has the version.
func TestUpdateOfAVersionBeingDropped(t *testing.T) {
	var armed atomic.Bool
	var begin func() error
	var failed error
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind == faultfs.Create && filepath.Ext(op.Path) == ".run" && armed.Swap(false) {
			failed = begin()
		}
	}})
	db, err := brock.Open(brock.Options{Dir: "/s", FS: fs})
	assert.OK(t, err)
	defer db.Close()
	aged := storetest.OpenKeyspace(t, db, "aged", brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}})
	storetest.Set(t, db, "a=1")
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		return errors.Join(storetest.Put(txn, "k=1"), storetest.Put(txn.In(aged), "k=1"))
	}))
	assert.OK(t, db.Delete([]byte("k")))
	assert.OK(t, db.DeleteRange([]byte("a"), []byte("b")))
	var key, gap *brock.Txn
	begin = func() error {
		for _, x := range []struct {
			txn **brock.Txn
			key string
		}{{&key, "k"}, {&gap, "a"}} {
			txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, ReadAt: 2})
			if err != nil {
				return err
			}
			*x.txn = txn
			write := "read=1"
			if _, err := txn.Get([]byte(x.key)); errors.Is(err, brock.ErrVersionGone) {
				write = "gone=1" // the other keyspace can be used
			} else if err != nil {
				return err
			}
			if err := storetest.Put(txn.In(aged), write); err != nil {
				return err
			}
		}
		return nil
	}
	armed.Store(true)
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, failed)
	assert.OK(t, key.Commit())
	assert.OK(t, gap.Commit())
	assert.OK(t, aged.View(func(txn *brock.Txn) error {
		assert.Equal(t, "written by who had read what was deleted", storetest.Get(txn, "read"), "-")
		assert.Equal(t, "written by who had not", storetest.Get(txn, "gone"), "1")
		return nil
	}))
}

// However many range deletes a keyspace retains, a reader of an older version finds all that it
// sees, also if another keyspace, which retains less, has newer ones in the same run.
func TestRangeDeletesOfAKeyspaceThatRetainsMore(t *testing.T) {
	for n := 1; n <= 18; n++ {
		db := storetest.Open(t, brock.Options{})
		kept := storetest.OpenKeyspace(t, db, "kept", brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}})
		assert.OK(t, kept.Set([]byte("k"), []byte("v")))
		assert.OK(t, db.Set([]byte("k"), []byte("v")))
		assert.OK(t, db.Flush(t.Context())) // so that there is something below for the next run to hide
		for range n {
			assert.OK(t, kept.DeleteRange([]byte("a"), []byte("z")))
		}
		at := db.Version()
		assert.OK(t, kept.Set([]byte("k"), []byte("back")))
		assert.OK(t, db.DeleteRange([]byte("a"), []byte("z")))
		assert.OK(t, db.Flush(t.Context()))
		assert.OK(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
			assert.Equal(t, fmt.Sprint("after ", n, " range deletes"), storetest.Get(txn.In(kept), "k"), "-")
			return nil
		}))
	}
}

// While a large transaction is recorded, the version before it is still the newest. How long a
// version is retained counts from the end of that.
func TestReadAtBeforeASlowCommit(t *testing.T) {
	clock := storetest.NewClock(1_800_000_000_000)
	var armed atomic.Bool
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind&faultfs.Syncs != 0 && strings.Contains(op.Path, "MANIFEST") && armed.Swap(false) {
			clock.Add(time.Hour)
		}
	}})
	db, err := brock.Open(brock.Options{Dir: "/s", FS: fs, Now: clock.Now, KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Minute}}})
	assert.OK(t, err)
	defer db.Close()
	storetest.Set(t, db, "k=before")
	assert.OK(t, db.Flush(t.Context()))
	at := db.Version()
	armed.Store(true)
	assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 1}, func(txn *brock.Txn) error { return storetest.Put(txn, "k=after") }))
	assert.Equal(t, "the commit was slow", armed.Load(), false)
	assert.OK(t, db.Compact(t.Context()))
	assert.OK(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
		assert.Equal(t, "the version that was the newest just now", storetest.Get(txn, "k"), "before")
		return nil
	}))
}
