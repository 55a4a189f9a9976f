package badger

import (
	"fmt"
	"sync"
	"testing"

	"github.com/brockdb/brock/compat/badger/y"
)

func TestWriteBatch(t *testing.T) {
	db := openDB(t, quiet(t.TempDir()).WithSyncWrites(true))
	set(t, db, "a=old b=old")
	wb := db.NewWriteBatch()
	defer wb.Cancel()
	wb.SetMaxPendingTxns(4)
	check(t, wb.Set([]byte("a"), []byte("1")))
	check(t, wb.SetEntry(NewEntry([]byte("c"), []byte("2")).WithMeta(3)))
	check(t, wb.Delete([]byte("b")))
	check(t, wb.Set([]byte("a"), []byte("3")))
	check(t, wb.Error())
	wantErr(t, "empty key", wb.Set(nil, nil), ErrEmptyKey)
	wantErr(t, "reserved key", wb.Delete([]byte("!badger!x")), ErrInvalidKey)
	check(t, wb.Error()) // a refused write changes nothing
	check(t, wb.Flush())
	wantText(t, "pairs", dump(t, db), "a=3 c=2")
	wantErr(t, "Set after Flush", wb.Set([]byte("x"), nil), ErrDiscardedTxn)
	wantErr(t, "second Flush", wb.Flush(), y.ErrCommitAfterFinish)
	wb.Cancel()
	wantText(t, "pairs", dump(t, db), "a=3 c=2")

	wb = db.NewWriteBatch()
	check(t, wb.Set([]byte("x"), nil))
	wb.Cancel()
	wantErr(t, "Flush after Cancel", wb.Flush(), y.ErrCommitAfterFinish)
	wantText(t, "after Cancel", dump(t, db), "a=3 c=2")
	check(t, db.NewWriteBatch().Flush())
}

// Groups are committed as they fill; Cancel keeps those.
func TestWriteBatchGroups(t *testing.T) {
	for _, managed := range []bool{false, true} {
		opt := memory().WithMemTableSize(8 << 20)
		opt.managedTxns = managed
		db := openDB(t, opt)
		begin := func() *WriteBatch {
			if managed {
				return db.NewWriteBatchAt(5)
			}
			return db.NewWriteBatch()
		}
		wb, n := begin(), 0
		for ; dump(t, db) == ""; n++ {
			check(t, wb.Set(fmt.Appendf(nil, "%06d", n), make([]byte, 100<<10)))
			if n > 100 {
				t.Fatal("10 MB in one group")
			}
		}
		wb.Cancel()
		found := 0
		check(t, db.View(func(txn *Txn) error {
			it := txn.NewIterator(IteratorOptions{})
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				found++
			}
			return nil
		}))
		if found != n {
			t.Errorf("%d of %d pairs", found, n)
		}
	}
}

func TestWriteBatchOfManyGoroutines(t *testing.T) {
	db := openDB(t, memory().WithMemTableSize(8<<20))
	wb := db.NewWriteBatch()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 500 {
				if err := wb.Set(fmt.Appendf(nil, "%d-%03d", g, i), make([]byte, 1000)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	check(t, wb.Flush())
	n := 0
	check(t, db.View(func(txn *Txn) error {
		it := txn.NewIterator(IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			n++
		}
		return nil
	}))
	if n != 4000 {
		t.Errorf("%d of 4000", n)
	}
}

// The first error of a commit stays.
func TestWriteBatchAfterClose(t *testing.T) {
	db, err := Open(memory())
	check(t, err)
	wb := db.NewWriteBatch()
	check(t, wb.Set([]byte("a"), nil))
	check(t, db.Close())
	wantErr(t, "Flush", wb.Flush(), ErrBlockedWrites)
	wantErr(t, "Flush", wb.Flush(), ErrBlockedWrites)
	wantErr(t, "Error", wb.Error(), ErrBlockedWrites)
	wantErr(t, "Set", wb.Set([]byte("a"), nil), ErrBlockedWrites)
}

// A batch reads nothing, so it never conflicts; but it makes others conflict.
func TestWriteBatchAndConflicts(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		s.set("a=1")
		txn := s.begin(true)
		get(t, txn, "a")
		check(t, setIn(txn, "b=1"))
		var wb *WriteBatch
		if s.db.opt.managedTxns {
			wb = s.db.NewWriteBatchAt(2)
		} else {
			wb = s.db.NewWriteBatch()
		}
		check(t, wb.Set([]byte("a"), []byte("2")))
		check(t, wb.Flush())
		wantErr(t, "Commit", s.commit(txn), ErrConflict)
	})
}
