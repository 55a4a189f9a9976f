package store

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
	must(t, err)
	defer db.Close()
	aged := keyspace(t, db, "aged", brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}})
	set(t, db, "a=1")
	must(t, db.Update(func(txn *brock.Txn) error { return errors.Join(put(txn, "k=1"), put(txn.In(aged), "k=1")) }))
	must(t, db.Delete(b("k")))
	must(t, db.DeleteRange(b("a"), b("b")))
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
			if _, err := txn.Get(b(x.key)); errors.Is(err, brock.ErrVersionGone) {
				write = "gone=1" // the other keyspace can be used
			} else if err != nil {
				return err
			}
			if err := put(txn.In(aged), write); err != nil {
				return err
			}
		}
		return nil
	}
	armed.Store(true)
	must(t, db.Flush(t.Context()))
	must(t, failed)
	must(t, key.Commit())
	must(t, gap.Commit())
	must(t, aged.View(func(txn *brock.Txn) error {
		wantEqual(t, "written by who had read what was deleted", get(txn, "read"), "-")
		wantEqual(t, "written by who had not", get(txn, "gone"), "1")
		return nil
	}))
}

// However many range deletes a keyspace retains, a reader of an older version finds all that it
// sees, also if another keyspace, which retains less, has newer ones in the same run.
func TestRangeDeletesOfAKeyspaceThatRetainsMore(t *testing.T) {
	for n := 1; n <= 18; n++ {
		db := openTest(t, brock.Options{})
		kept := keyspace(t, db, "kept", brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}})
		must(t, kept.Set(b("k"), b("v")))
		must(t, db.Set(b("k"), b("v")))
		must(t, db.Flush(t.Context())) // so that there is something below for the next run to hide
		for range n {
			must(t, kept.DeleteRange(b("a"), b("z")))
		}
		at := db.Version()
		must(t, kept.Set(b("k"), b("back")))
		must(t, db.DeleteRange(b("a"), b("z")))
		must(t, db.Flush(t.Context()))
		must(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
			wantEqual(t, fmt.Sprint("after ", n, " range deletes"), get(txn.In(kept), "k"), "-")
			return nil
		}))
	}
}

// While a large transaction is recorded, the version before it is still the newest. How long a
// version is retained counts from the end of that.
func TestReadAtBeforeASlowCommit(t *testing.T) {
	clock := newClock(1_800_000_000_000)
	var armed atomic.Bool
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind&faultfs.Syncs != 0 && strings.Contains(op.Path, "MANIFEST") && armed.Swap(false) {
			clock.add(time.Hour)
		}
	}})
	db, err := brock.Open(brock.Options{Dir: "/s", FS: fs, Now: clock.now, KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Minute}}})
	must(t, err)
	defer db.Close()
	set(t, db, "k=before")
	must(t, db.Flush(t.Context()))
	at := db.Version()
	armed.Store(true)
	must(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 1}, func(txn *brock.Txn) error { return put(txn, "k=after") }))
	wantEqual(t, "the commit was slow", armed.Load(), false)
	must(t, db.Compact(t.Context()))
	must(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
		wantEqual(t, "the version that was the newest just now", get(txn, "k"), "before")
		return nil
	}))
}
