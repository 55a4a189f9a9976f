package badger

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

func TestReadAndWrite(t *testing.T) {
	db := openDB(t, memory())
	set(t, db, "a=1 b=2 c=3")
	check(t, db.Update(func(txn *Txn) error {
		if err := txn.Delete([]byte("b")); err != nil {
			return err
		}
		wantText(t, "own delete", get(t, txn, "b"), "-")
		if err := txn.Set([]byte("d"), []byte("4")); err != nil {
			return err
		}
		item, err := txn.Get([]byte("d"))
		check(t, err)
		if item.Version() != txn.ReadTs() {
			t.Errorf("version of an own write: %d, and the transaction reads %d", item.Version(), txn.ReadTs())
		}
		return nil
	}))
	wantText(t, "pairs", dump(t, db), "a=1 c=3 d=4")
}

func TestItem(t *testing.T) {
	db := openDB(t, memory())
	at := uint64(time.Now().Add(time.Hour).Unix())
	check(t, db.Update(func(txn *Txn) error {
		e := NewEntry([]byte("key"), []byte("value")).WithMeta(7)
		e.ExpiresAt = at
		return txn.SetEntry(e)
	}))
	check(t, db.View(func(txn *Txn) error {
		item, err := txn.Get([]byte("key"))
		check(t, err)
		if item.UserMeta() != 7 || item.ExpiresAt() != at || item.Version() != 1 || item.KeySize() != 3 || item.ValueSize() != 5 ||
			item.EstimatedSize() != 8 || item.IsDeletedOrExpired() || item.DiscardEarlierVersions() {
			t.Errorf("item %v: meta %d, expires %d, sizes %d %d", item, item.UserMeta(), item.ExpiresAt(), item.KeySize(), item.ValueSize())
		}
		wantText(t, "String", item.String(), `key="key", version=1, meta=0`)
		var kept []byte
		check(t, item.Value(func(v []byte) error {
			kept = v
			return nil
		}))
		check(t, item.Value(nil))
		room := make([]byte, 0, 16)
		copied, err := item.ValueCopy(room)
		check(t, err)
		if &copied[0] != &room[:1][0] || string(kept) != "value" || string(copied) != "value" {
			t.Errorf("value %q, copy %q, in the room given: %v", kept, copied, &copied[0] == &room[:1][0])
		}
		failure := errors.New("of the caller")
		wantErr(t, "Value", item.Value(func([]byte) error { return failure }), failure)
		return nil
	}))
}

// Items of earlier Gets stay as they are, however many there are.
func TestItemsOfOneTransaction(t *testing.T) {
	db := openDB(t, memory())
	wb := db.NewWriteBatch()
	for i := range 100 {
		check(t, wb.Set(fmt.Appendf(nil, "%03d", i), fmt.Appendf(nil, "v%d", i)))
	}
	check(t, wb.Flush())
	check(t, db.View(func(txn *Txn) error {
		var items []*Item
		for i := range 100 {
			item, err := txn.Get(fmt.Appendf(nil, "%03d", i))
			check(t, err)
			items = append(items, item)
		}
		for i, item := range items {
			wantText(t, "item", string(item.Key())+value(t, item), fmt.Sprintf("%03dv%d", i, i))
		}
		return nil
	}))
}

func TestExpiry(t *testing.T) {
	db := openDB(t, memory())
	entry := func(key string, expiresAt uint64) *Entry {
		return &Entry{Key: []byte(key), Value: []byte("v"), ExpiresAt: expiresAt}
	}
	now := uint64(time.Now().Unix())
	check(t, db.Update(func(txn *Txn) error {
		for _, e := range []*Entry{
			entry("gone", 1), entry("just", now), entry("later", now+3600), entry("never", 0), entry("far", math.MaxUint64),
			NewEntry([]byte("ttl"), []byte("v")).WithTTL(time.Hour), NewEntry([]byte("zero"), []byte("v")).WithTTL(0),
		} {
			check(t, txn.SetEntry(e))
		}
		wantText(t, "own", get(t, txn, "gone")+get(t, txn, "later"), "-v")
		return nil
	}))
	wantText(t, "pairs", dump(t, db), "far=v later=v never=v ttl=v")
	check(t, db.View(func(txn *Txn) error {
		item, err := txn.Get([]byte("ttl"))
		check(t, err)
		if left := int64(item.ExpiresAt()) - time.Now().Unix(); left < 3590 || left > 3600 {
			t.Errorf("%d s left of an hour", left)
		}
		return nil
	}))
}

// Badger keeps the caller's slices until the commit. Here they are copied, so the caller may use them
// again.
func TestWritesAreCopied(t *testing.T) {
	for _, db := range []*DB{openDB(t, memory()), openManaged(t, memory())} {
		var txn *Txn
		if db.opt.managedTxns {
			txn = db.NewTransactionAt(1, true)
		} else {
			txn = db.NewTransaction(true)
		}
		key, val := []byte("key"), []byte("value")
		check(t, txn.Set(key, val))
		copy(key, "xxx")
		copy(val, "xxxxx")
		if db.opt.managedTxns {
			check(t, txn.CommitAt(1, nil))
		} else {
			check(t, txn.Commit())
		}
		wantText(t, "pairs", dump(t, db), "key=value")
	}
}

func TestEmptyValue(t *testing.T) {
	for _, db := range []*DB{openDB(t, memory()), openManaged(t, memory())} {
		if db.opt.managedTxns {
			setAt(t, db, 1, "a= b=")
		} else {
			set(t, db, "a= b=")
		}
		check(t, db.View(func(txn *Txn) error {
			wantText(t, "scan", scan(t, txn, DefaultIteratorOptions), "a= b=")
			item, err := txn.Get([]byte("a"))
			check(t, err)
			// Badger's copies are never nil.
			if v, err := item.ValueCopy(nil); v == nil || len(v) != 0 || err != nil || item.ValueSize() != 0 {
				t.Errorf("value %v, error %v, size %d", v, err, item.ValueSize())
			}
			return item.Value(func(v []byte) error {
				if len(v) != 0 {
					t.Errorf("value %q", v)
				}
				return nil
			})
		}))
	}
}

func TestErrorsOfWrites(t *testing.T) {
	db := openDB(t, memory().WithValueLogFileSize(1<<20))
	check(t, db.View(func(txn *Txn) error {
		wantErr(t, "read-only", txn.Set([]byte("a"), nil), ErrReadOnlyTxn)
		wantErr(t, "read-only", txn.Delete([]byte("a")), ErrReadOnlyTxn)
		_, err := txn.Get(nil)
		wantErr(t, "empty", err, ErrEmptyKey)
		return nil
	}))
	txn := db.NewTransaction(true)
	wantErr(t, "empty", txn.Set(nil, nil), ErrEmptyKey)
	wantErr(t, "reserved", txn.Set([]byte("!badger!x"), nil), ErrInvalidKey)
	for _, err := range []error{
		txn.Set(bytes.Repeat([]byte("k"), maxKeySize+1), nil), txn.Set([]byte("k"), make([]byte, 1<<20+1)),
	} {
		if err == nil || !strings.Contains(err.Error(), "exceeded") {
			t.Errorf("too long: %v", err)
		}
	}
	check(t, txn.Set(bytes.Repeat([]byte("k"), maxKeySize), make([]byte, 1<<20)))
	txn.Discard()
	txn.Discard()
	wantErr(t, "discarded", txn.Set([]byte("a"), nil), ErrDiscardedTxn)
	_, err := txn.Get([]byte("a"))
	wantErr(t, "discarded", err, ErrDiscardedTxn)
	wantErr(t, "discarded", txn.Commit(), errDiscardedCommit)
	wantPanic(t, "discarded", ErrDiscardedTxn, func() { txn.NewIterator(DefaultIteratorOptions) })
	empty := db.NewTransaction(true)
	check(t, empty.Commit())
	check(t, empty.Commit())
	wantText(t, "pairs", dump(t, db), "")
}

func TestConflict(t *testing.T) {
	db := openDB(t, memory())
	set(t, db, "a=1 b=1")
	one, two := db.NewTransaction(true), db.NewTransaction(true)
	for _, txn := range []*Txn{one, two} {
		get(t, txn, "a")
		check(t, txn.Set([]byte("a"), []byte("2")))
	}
	check(t, one.Commit())
	wantErr(t, "second", two.Commit(), ErrConflict)

	// What is only written does not conflict.
	one, two = db.NewTransaction(true), db.NewTransaction(true)
	check(t, one.Set([]byte("b"), []byte("2")))
	check(t, two.Set([]byte("b"), []byte("3")))
	check(t, two.Commit())
	check(t, one.Commit())
	wantText(t, "pairs", dump(t, db), "a=2 b=2")
}

func TestUpdateRunsOnce(t *testing.T) {
	db := openDB(t, memory())
	set(t, db, "a=1")
	runs := 0
	err := db.Update(func(txn *Txn) error {
		runs++
		get(t, txn, "a")
		set(t, db, "a=2")
		return txn.Set([]byte("b"), nil)
	})
	if wantErr(t, "Update", err, ErrConflict); runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestNoConflictDetection(t *testing.T) {
	db := openDB(t, memory().WithDetectConflicts(false))
	set(t, db, "a=1")
	one, two := db.NewTransaction(true), db.NewTransaction(true)
	for i, txn := range []*Txn{one, two} {
		get(t, txn, "a")
		check(t, txn.Set([]byte("a"), fmt.Append(nil, i)))
	}
	check(t, one.Commit())
	check(t, two.Commit())
	wantText(t, "pairs", dump(t, db), "a=1")
}

// A range that was iterated conflicts with an insert into it. Badger lets such phantoms pass.
func TestPhantomsConflict(t *testing.T) {
	db := openDB(t, memory())
	set(t, db, "a=1 c=1")
	txn := db.NewTransaction(true)
	scan(t, txn, DefaultIteratorOptions)
	check(t, txn.Set([]byte("sum"), []byte("2")))
	set(t, db, "b=1")
	wantErr(t, "Commit", txn.Commit(), ErrConflict)
}

func TestErrorOfFunction(t *testing.T) {
	db := openDB(t, memory())
	failure := errors.New("of the caller")
	wantErr(t, "View", db.View(func(*Txn) error { return failure }), failure)
	wantErr(t, "Update", db.Update(func(txn *Txn) error {
		check(t, txn.Set([]byte("a"), nil))
		return failure
	}), failure)
	check(t, db.Update(func(txn *Txn) error {
		txn.Discard()
		return nil
	}))
	wantErr(t, "Discard within", db.Update(func(txn *Txn) error {
		check(t, txn.Set([]byte("a"), nil))
		txn.Discard()
		return nil
	}), errDiscardedCommit)
	wantErr(t, "Commit within", db.Update(func(txn *Txn) error {
		check(t, txn.Set([]byte("a"), nil))
		return txn.Commit()
	}), errNestedCommit)
	wantText(t, "pairs", dump(t, db), "")
}

// The callback of CommitWith runs on another goroutine, and what begins after CommitWith sees the writes.
func TestCommitWith(t *testing.T) {
	db := openDB(t, memory())
	var order sync.Mutex
	order.Lock() // the callback must not run on this goroutine
	done := make(chan error, 1)
	txn := db.NewTransaction(true)
	check(t, setIn(txn, "a=1"))
	txn.CommitWith(func(err error) {
		order.Lock()
		defer order.Unlock()
		done <- err
	})
	txn.Discard()
	wantText(t, "pairs", dump(t, db), "a=1")
	order.Unlock()
	check(t, <-done)

	db.NewTransaction(true).CommitWith(func(err error) { done <- err })
	check(t, <-done)
	txn.CommitWith(func(err error) { done <- err })
	wantErr(t, "discarded", <-done, errDiscardedCommit)
	wantPanic(t, "nil", "Nil callback provided to CommitWith", func() { txn.CommitWith(nil) })

	one, two := db.NewTransaction(true), db.NewTransaction(true)
	for _, txn := range []*Txn{one, two} {
		get(t, txn, "a")
		check(t, setIn(txn, "a=2"))
		txn.CommitWith(func(err error) { done <- err })
	}
	if a, b := <-done, <-done; a == b || a != nil && b != nil || a != nil && a != ErrConflict || b != nil && b != ErrConflict {
		t.Errorf("two commits that conflict: %v and %v", a, b)
	}
}

func TestLimitTxnSize(t *testing.T) {
	for _, managed := range []bool{false, true} {
		opt := memory().WithMemTableSize(1 << 20).WithValueThreshold(1 << 10).WithLimitTxnSize(true)
		opt.managedTxns = managed
		db := openDB(t, opt)
		begin := func() *Txn {
			if managed {
				return db.NewTransactionAt(1, true)
			}
			return db.NewTransaction(true)
		}
		fill := func(txn *Txn, size int) (n int64) {
			for ; ; n++ {
				if err := txn.Set(fmt.Appendf(nil, "%06d", n), make([]byte, size)); err != nil {
					wantErr(t, "Set", err, ErrTxnTooBig)
					return n
				}
			}
		}
		txn := begin()
		if n := fill(txn, 1); n != db.MaxBatchCount()-2 {
			t.Errorf("%d writes; the limit is %d", n, db.MaxBatchCount())
		}
		if managed {
			check(t, txn.CommitAt(1, nil)) // what was taken can be committed
		} else {
			check(t, txn.Commit())
		}
		txn = begin()
		if n := fill(txn, 1000); n != (db.MaxBatchSize()-21-1)/(6+1000+2+10) {
			t.Errorf("%d writes of 1000 bytes; the limit is %d bytes", n, db.MaxBatchSize())
		}
		txn.Discard()
	}
}

// Without LimitTxnSize a transaction may be larger than Badger's limits, and than memory.
func TestLargeTransaction(t *testing.T) {
	db := openDB(t, quiet(t.TempDir()).WithMemTableSize(1<<20).WithValueThreshold(1<<10))
	n := int(20 * db.MaxBatchCount())
	txn := db.NewTransaction(true)
	for i := range n {
		check(t, txn.Set(fmt.Appendf(nil, "%06d", i), make([]byte, 500)))
	}
	check(t, txn.Commit())
	check(t, db.View(func(txn *Txn) error {
		it, found := txn.NewIterator(DefaultIteratorOptions), 0
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			found++
		}
		if found != n {
			t.Errorf("%d of %d pairs", found, n)
		}
		return nil
	}))
}

func TestClosedStore(t *testing.T) {
	for _, managed := range []bool{false, true} {
		opt := quiet(t.TempDir())
		opt.managedTxns = managed
		db, err := Open(opt)
		check(t, err)
		begin := func(update bool) *Txn {
			if managed {
				return db.NewTransactionAt(9, update)
			}
			return db.NewTransaction(update)
		}
		commit := func(txn *Txn) error {
			if managed {
				return txn.CommitAt(9, nil)
			}
			return txn.Commit()
		}
		first := begin(true)
		check(t, setIn(first, "a=1"))
		check(t, commit(first))
		reader, writer := begin(false), begin(true)
		item, err := reader.Get([]byte("a"))
		check(t, err)
		check(t, setIn(writer, "b=1"))
		it := reader.NewIterator(DefaultIteratorOptions)
		it.Rewind()
		if db.IsClosed() {
			t.Error("closed")
		}
		check(t, db.Close())
		check(t, db.Close())
		if !db.IsClosed() {
			t.Error("not closed")
		}
		_, err = reader.Get([]byte("a"))
		wantErr(t, "Get", err, ErrDBClosed)
		// Badger would still have the value if it was prefetched.
		_, err = item.ValueCopy(nil)
		wantErr(t, "ValueCopy", err, ErrDBClosed)
		wantErr(t, "Value", item.Value(nil), ErrDBClosed)
		if it.Next(); it.Valid() {
			t.Error("the iterator goes on")
		}
		it.Rewind()
		wantErr(t, "Iterator", it.Err(), ErrDBClosed)
		it.Close()
		reader.Discard()
		wantErr(t, "Commit", commit(writer), ErrBlockedWrites)
		wantErr(t, "View", db.View(func(*Txn) error { return nil }), ErrDBClosed)
		if !managed {
			wantErr(t, "Update", db.Update(func(*Txn) error { return nil }), ErrDBClosed)
		}
		late := begin(true)
		_, err = late.Get([]byte("a"))
		wantErr(t, "late Get", err, ErrDBClosed)
		late.Discard()
		wantPanic(t, "late iterator", ErrDBClosed, func() { begin(false).NewIterator(DefaultIteratorOptions) })
		wantErr(t, "Sync", db.Sync(), ErrDBClosed)
		wantErr(t, "DropAll", db.DropAll(), ErrBlockedWrites)
		wantErr(t, "GC", db.RunValueLogGC(0.5), ErrRejected)
		wantErr(t, "Flatten", db.Flatten(1), ErrBlockedWrites)
		wantErr(t, "VerifyChecksum", db.VerifyChecksum(), ErrDBClosed)
		if lsm, vlog := db.Size(); lsm != 0 || vlog != 0 || db.Tables() != nil {
			t.Error("a closed store has a size")
		}
	}
}

// An iterator that meets damage tells it by View, as Badger's API has no other way.
func TestErrorOfIteratorReachesView(t *testing.T) {
	db := openDB(t, memory())
	set(t, db, "a=1")
	failure := &brock.CorruptionError{}
	err := db.View(func(txn *Txn) error {
		it := txn.NewIterator(DefaultIteratorOptions)
		defer it.Close()
		it.src = &failingSource{failure}
		if it.Rewind(); it.Valid() {
			t.Error("valid")
		}
		return nil
	})
	wantErr(t, "View", err, failure)
	txn := db.NewTransaction(true)
	it := txn.NewIterator(DefaultIteratorOptions)
	it.src = &failingSource{failure}
	it.Rewind()
	it.Close()
	check(t, setIn(txn, "b=1"))
	wantErr(t, "Commit", txn.Commit(), failure)
	wantText(t, "pairs", dump(t, db), "a=1")
}

type failingSource struct{ err error }

func (f *failingSource) seek([]byte)    {}
func (f *failingSource) advance()       {}
func (f *failingSource) current() *Item { return nil }
func (f *failingSource) failure() error { return f.err }

// As many versions of a key are kept as the options say. Badger shows more until it compacts.
func TestNumVersionsToKeep(t *testing.T) {
	for keep, want := range map[int]string{0: "a@6=6", 1: "a@6=6", 3: "a@6=6 a@5=5 a@4=4", math.MaxInt: "a@6=6 a@5=5 a@4=4 a@3=3"} {
		db := openDB(t, quiet(t.TempDir()).WithNumVersionsToKeep(keep))
		for i := range 6 {
			check(t, db.Update(func(txn *Txn) error {
				e := NewEntry([]byte("a"), fmt.Append(nil, i+1))
				if i == 2 {
					e.WithDiscard()
				}
				return txn.SetEntry(e)
			}))
		}
		check(t, db.Flatten(1))
		check(t, db.View(func(txn *Txn) error {
			wantText(t, fmt.Sprintf("keep %d", keep), scan(t, txn, IteratorOptions{AllVersions: true}), want)
			return nil
		}))
	}
}

// Goroutines share a read-only transaction, as programs do with Badger.
func TestGetOfManyGoroutines(t *testing.T) {
	for _, managed := range []bool{false, true} {
		opt := quiet(t.TempDir()).WithEncryptionKey(bytes.Repeat([]byte{1}, 32))
		opt.managedTxns = managed
		db := openDB(t, opt)
		s := session{t: t, db: db}
		txn := s.begin(true)
		long := bytes.Repeat([]byte("value "), 2000)
		for i := range 50 {
			e := NewEntry(fmt.Appendf(nil, "%02d", i), long[:1+i*200]).WithMeta(byte(i))
			if i%2 == 0 {
				e.ExpiresAt = uint64(time.Now().Unix()) + 3600
			}
			check(t, txn.SetEntry(e))
		}
		check(t, s.commit(txn))
		check(t, db.Flatten(1))
		txn = s.begin(false)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range 50 {
					item, err := txn.Get(fmt.Appendf(nil, "%02d", i))
					if err != nil {
						t.Error(err)
						return
					}
					v, err := item.ValueCopy(nil)
					if err != nil || !bytes.Equal(v, long[:1+i*200]) || item.UserMeta() != byte(i) {
						t.Errorf("%d: %d bytes, meta %d, error %v", i, len(v), item.UserMeta(), err)
					}
					if err := item.Value(func(v []byte) error {
						if !bytes.Equal(v, long[:1+i*200]) {
							t.Errorf("%d: %d bytes", i, len(v))
						}
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		txn.Discard()
	}
}
