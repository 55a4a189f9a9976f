package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// What a range delete hides is gone for all kinds of reads, of those who began
// after it, wherever the entries and it lie.
func TestDeleteRange(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "a=1", "b=1", "c=1", "d=1")
	before := db.NewTransaction(false)
	defer before.Discard()
	check := func(where string) {
		t.Helper()
		must(t, db.View(func(txn *brock.Txn) error {
			wantEqual(t, where, show(txn.All()), "a=1 c=2 d=1")
			wantEqual(t, where, show(txn.Items(brock.IteratorOptions{Reverse: true})), "d=1 c=2 a=1")
			wantEqual(t, where, get(txn, "b")+get(txn, "c"), "-2")
			var many []string
			for it, err := range txn.GetMany([][]byte{b("a"), b("b"), b("c")}) {
				must(t, err)
				many = append(many, fmt.Sprint(it != nil))
			}
			wantEqual(t, where, fmt.Sprint(many), "[true false true]")
			return nil
		}))
		wantEqual(t, where+", a reader from before", show(before.All()), "a=1 b=1 c=1 d=1")
		has, err := db.Has(b("b"))
		must(t, err)
		wantEqual(t, where, has, false)
	}
	must(t, db.DeleteRange(b("b"), b("d")))
	set(t, db, "c=2")
	check("in memory")
	must(t, db.Flush(t.Context()))
	check("flushed")
	must(t, db.Compact(t.Context()))
	check("merged")
	before.Discard()
	must(t, db.DropPrefix(t.Context(), b("a"), b("zz"), b("d")))
	wantEqual(t, "prefixes", contents(t, db), "c=2")
	must(t, db.DropAll(t.Context()))
	wantEqual(t, "all", contents(t, db), "")
	set(t, db, "e=1")
	wantEqual(t, "later", contents(t, db), "e=1")
}

// Within a transaction or batch, order decides.
func TestDeleteRangeAmongOwnWrites(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "a=1", "b=1", "c=1")
	must(t, db.Update(func(txn *brock.Txn) error {
		must(t, put(txn, "b=2", "x=2"))
		must(t, txn.DeleteRange(b("b"), nil))
		wantEqual(t, "own delete", show(txn.All()), "a=1")
		wantEqual(t, "own delete", get(txn, "b")+get(txn, "c")+get(txn, "x"), "---")
		must(t, put(txn, "c=3"))
		wantEqual(t, "a write after it", show(txn.All()), "a=1 c=3")
		wantEqual(t, "in reverse", show(txn.Items(brock.IteratorOptions{Reverse: true})), "c=3 a=1")
		wantEqual(t, "versions", show(txn.Versions(b("b")))+", "+show(txn.Versions(b("c"))), "b! b=1, c=3 c=1")
		return nil
	}))
	wantEqual(t, "committed", contents(t, db), "a=1 c=3")
	batch := db.NewBatch()
	must(t, batch.Set(b("a"), b("4")))
	must(t, batch.DeleteRange(nil, b("c")))
	must(t, batch.Set(b("b"), b("4")))
	must(t, batch.DeleteRange(b("b"), b("b")))
	wantEqual(t, "writes", batch.Len(), 3)
	must(t, batch.Commit(t.Context()))
	wantEqual(t, "batch", contents(t, db), "b=4 c=3")
}

func TestDeleteRangeRefusals(t *testing.T) {
	db := openTest(t, brock.Options{})
	version := db.Version()
	must(t, db.DeleteRange(b("b"), b("a")))
	must(t, db.DeleteRange(nil, []byte{}))
	must(t, db.DropPrefix(t.Context()))
	wantEqual(t, "the delete of nothing is no commit", db.Version(), version)
	long := bytes.Repeat([]byte("x"), brock.MaxKeySize+1)
	wantErr(t, "long bound", db.DeleteRange(nil, long), brock.ErrKeyTooLarge)
	wantErr(t, "long prefix", db.DropPrefix(t.Context(), long), brock.ErrKeyTooLarge)
	must(t, db.DropPrefix(t.Context(), long[1:]))
	must(t, db.View(func(txn *brock.Txn) error {
		wantErr(t, "view", txn.DeleteRange(nil, nil), brock.ErrReadOnly)
		return nil
	}))
	txn := db.NewTransaction(true)
	wantErr(t, "long bound", txn.DeleteRange(long, nil), brock.ErrKeyTooLarge)
	must(t, txn.DeleteRange(nil, nil))
	must(t, txn.Commit())
	wantErr(t, "done", txn.DeleteRange(nil, nil), brock.ErrTxnDone)
	batch := db.NewBatch()
	must(t, db.Close())
	wantErr(t, "closed", db.DeleteRange(nil, nil), brock.ErrClosed)
	wantErr(t, "closed", batch.DeleteRange(nil, nil), brock.ErrClosed)
	wantErr(t, "closed", db.DropAll(t.Context()), brock.ErrClosed)
	wantErr(t, "zero batch", new(brock.Batch).DeleteRange(nil, nil), brock.ErrClosed)
}

// Whoever has read a key or range that was deleted since conflicts; who deletes
// one blindly does not, but at SnapshotIsolation it writes all of it.
func TestDeleteRangeConflicts(t *testing.T) {
	for _, c := range []struct {
		name      string
		isolation brock.Isolation
		first     func(txn *brock.Txn) error
		other     func(db *brock.DB) error
		conflict  bool
	}{
		{"got a key", brock.Serializable, func(txn *brock.Txn) error { get(txn, "b"); return put(txn, "z=1") }, deletes("a", "c"), true},
		{"got an absent key", brock.Serializable, func(txn *brock.Txn) error { get(txn, "bb"); return put(txn, "z=1") }, deletes("a", "c"), true},
		{"got another key", brock.Serializable, func(txn *brock.Txn) error { get(txn, "c"); return put(txn, "z=1") }, deletes("a", "c"), false},
		{"scanned", brock.Serializable, func(txn *brock.Txn) error { show(txn.Range(b("bb"), b("d"))); return put(txn, "z=1") }, deletes("a", "c"), true},
		{"scanned beside it", brock.Serializable, func(txn *brock.Txn) error { show(txn.Range(b("c"), b("d"))); return put(txn, "z=1") }, deletes("a", "c"), false},
		{"blind", brock.Serializable, func(txn *brock.Txn) error { return txn.DeleteRange(b("a"), b("c")) }, sets("b=2"), false},
		{"own delete read", brock.Serializable, func(txn *brock.Txn) error { must(t, txn.DeleteRange(b("a"), b("c"))); get(txn, "b"); return nil }, sets("b=2"), false},
		{"blind, snapshot", brock.SnapshotIsolation, func(txn *brock.Txn) error { return txn.DeleteRange(b("a"), b("c")) }, sets("b=2"), true},
		{"ranges that meet, snapshot", brock.SnapshotIsolation, func(txn *brock.Txn) error { return txn.DeleteRange(b("a"), b("c")) }, deletes("b", "d"), true},
		{"ranges apart, snapshot", brock.SnapshotIsolation, func(txn *brock.Txn) error { return txn.DeleteRange(b("a"), b("c")) }, deletes("c", "d"), false},
		{"a key of the range, snapshot", brock.SnapshotIsolation, func(txn *brock.Txn) error { return put(txn, "b=3") }, deletes("a", "c"), true},
		{"last writer", brock.LastWriterWins, func(txn *brock.Txn) error { get(txn, "b"); return txn.DeleteRange(b("a"), b("c")) }, sets("b=2"), false},
	} {
		for _, flushed := range []bool{false, true} {
			db := openTest(t, brock.Options{})
			set(t, db, "a=1", "b=1", "c=1")
			txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: c.isolation})
			must(t, err)
			must(t, c.first(txn))
			must(t, c.other(db))
			if flushed {
				must(t, db.Flush(t.Context()))
			}
			if err := txn.Commit(); errors.Is(err, brock.ErrConflict) != c.conflict {
				t.Errorf("%s, flushed %v: %v", c.name, flushed, err)
			}
		}
	}
}

func deletes(lo, hi string) func(*brock.DB) error {
	return func(db *brock.DB) error { return db.DeleteRange(b(lo), b(hi)) }
}

func sets(pair string) func(*brock.DB) error {
	return func(db *brock.DB) error { return db.Update(func(txn *brock.Txn) error { return put(txn, pair) }) }
}

// A key that a range delete hides has no version to compare with.
func TestCompareAfterDeleteRange(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "a=1")
	must(t, db.DeleteRange(nil, nil))
	wantErr(t, "the old version", db.CompareAndSet(b("a"), b("2"), 1), brock.ErrVersionMismatch)
	wantErr(t, "the delete's", db.CompareAndSet(b("a"), b("2"), 2), brock.ErrVersionMismatch)
	must(t, db.CompareAndSet(b("a"), b("2"), 0))
	wantEqual(t, "contents", contents(t, db), "a=2")
}

// History shows a range delete as one of the keys that it hid, also to those who
// read an older version, and says since when.
func TestHistoryShowsRangeDeletes(t *testing.T) {
	db := openTest(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}}})
	set(t, db, "a=1", "b=1") // version 1
	must(t, db.DeleteRange(b("a"), b("c")))
	must(t, db.DeleteRange(b("b"), b("z"))) // 3
	set(t, db, "b=4")
	check := func() {
		for _, c := range []struct {
			at    uint64
			since uint64
			want  string
		}{
			{1, 0, "a=1 b=1"}, {2, 0, "a! a=1 b! b=1"}, {3, 0, "a! a=1 b! b=1"}, {4, 0, "a! a=1 b=4 b! b=1"}, {4, 2, "b=4 b!"}, {4, 3, "b=4"},
		} {
			must(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: c.at}, func(txn *brock.Txn) error {
				o := brock.IteratorOptions{AllVersions: true, Since: c.since}
				wantEqual(t, fmt.Sprintf("at %d since %d", c.at, c.since), show(txn.Items(o)), c.want)
				return nil
			}))
		}
	}
	check()
	must(t, db.Flush(t.Context()))
	check()
	must(t, db.Compact(t.Context()))
	check()
}
