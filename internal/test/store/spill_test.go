package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

// A transaction whose writes are in files reads its own writes as any other does. Its
// commit is one version of the store.
func TestSpilledTransaction(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "a=0", "k0001=old", "z=0")
	old := db.NewTransaction(false)
	defer old.Discard()
	txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 2000})
	must(t, err)
	defer txn.Discard()
	long := string(make([]byte, 1000))
	for i := range 200 {
		must(t, put(txn, fmt.Sprintf("k%04d=%d", i, i), fmt.Sprintf("v%04d=%d%s", i, i, long)))
	}
	must(t, put(txn, "k0007", "v0007=7", "k0008=eight", "a"))
	wantEqual(t, "a", get(txn, "a"), "-")
	wantEqual(t, "k0007", get(txn, "k0007"), "-")
	wantEqual(t, "k0008", get(txn, "k0008"), "eight")
	wantEqual(t, "v0007", get(txn, "v0007"), "7")
	wantEqual(t, "v0009", get(txn, "v0009"), "9"+long)
	wantEqual(t, "z", get(txn, "z"), "0")
	wantEqual(t, "own writes", show(txn.Range(b("k0006"), b("k0010"))), "k0006=6 k0008=eight k0009=9")
	must(t, txn.Commit())
	m := db.Metrics().Tree
	wantEqual(t, "spills", m.Spills, 1)
	wantEqual(t, "version", db.Version(), txn.CommitVersion())
	must(t, db.View(func(txn *brock.Txn) error {
		wantEqual(t, "k0007", get(txn, "k0007"), "-")
		wantEqual(t, "v0007", get(txn, "v0007"), "7")
		wantEqual(t, "v0009", get(txn, "v0009"), "9"+long)
		wantEqual(t, "range", show(txn.Range(b("k0006"), b("k0010"))), "k0006=6 k0008=eight k0009=9")
		it, err := txn.Get(b("v0100"))
		must(t, err)
		wantEqual(t, "version", it.Version(), db.Version())
		return nil
	}))
	wantEqual(t, "old k0001", get(old, "k0001"), "old")
	wantEqual(t, "old k0002", get(old, "k0002"), "-")
	must(t, db.Verify(t.Context(), nil))
	set(t, db, "k0009=later")
	must(t, db.Compact(t.Context()))
	must(t, db.Verify(t.Context(), nil))
	must(t, db.View(func(txn *brock.Txn) error {
		wantEqual(t, "range", show(txn.Range(b("k0006"), b("k0010"))), "k0006=6 k0008=eight k0009=later")
		wantEqual(t, "v0009", get(txn, "v0009"), "9"+long)
		return nil
	}))
}

// files is how many files of runs and segments a store has.
func storeFiles(t *testing.T, fs vfs.FS, dir string) (n int) {
	names, err := fs.List(dir)
	must(t, err)
	for _, name := range names {
		if ext := filepath.Ext(name); ext == ".run" || ext == ".val" {
			n++
		}
	}
	return n
}

// fillSpilled writes n pairs, half of them with large values.
func fillSpilled(txn *brock.Txn, n int) error {
	long := make([]byte, 2000)
	for i := range n {
		if err := txn.Set(fmt.Appendf(nil, "k%06d", i*7919%n), long[:i%2*2000]); err != nil {
			return err
		}
	}
	return nil
}

// The files of a spilled transaction are removed when it ends without a commit. Those
// of a transaction that never ended are removed by the next Open.
func TestSpillLeavesNothing(t *testing.T) {
	fs := vfs.NewMem()
	o := brock.Options{Dir: "/s", FS: fs, Tuning: brock.Tuning{SegmentSize: 64 << 10}}
	db, err := brock.Open(o)
	must(t, err)
	begin := func(i brock.Isolation) *brock.Txn {
		txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 4000, Isolation: i})
		must(t, err)
		_, err = txn.Get(b("k000001"))
		wantErr(t, "get", err, brock.ErrKeyNotFound)
		must(t, fillSpilled(txn, 300))
		if storeFiles(t, fs, "/s") == 0 {
			t.Error("nothing was spilled")
		}
		return txn
	}
	begin(brock.Serializable).Discard()
	wantEqual(t, "files after Discard", storeFiles(t, fs, "/s"), 0)
	for _, i := range []brock.Isolation{brock.Serializable, brock.SnapshotIsolation} {
		txn := begin(i)
		set(t, db, "k000001=other")
		wantErr(t, "commit", txn.Commit(), brock.ErrConflict)
		must(t, db.Update(func(txn *brock.Txn) error { return put(txn, "k000001") }))
		must(t, db.Compact(t.Context()))
		wantEqual(t, "files after a conflict", storeFiles(t, fs, "/s"), 0)
	}
	batch := db.NewBatch()
	for i := range 10 {
		must(t, batch.Set(fmt.Appendf(nil, "b%d", i), make([]byte, 5<<20)))
	}
	if storeFiles(t, fs, "/s") == 0 {
		t.Error("no batch was spilled")
	}
	batch.Reset()
	wantEqual(t, "files after Reset", storeFiles(t, fs, "/s"), 0)
	txn := begin(brock.LastWriterWins)
	must(t, db.Close())
	wantErr(t, "set", txn.Set(b("a"), nil), brock.ErrClosed)
	txn.Discard()
	if storeFiles(t, fs, "/s") == 0 {
		t.Error("a closed store's files were removed")
	}
	db, err = brock.Open(o)
	must(t, err)
	wantEqual(t, "files after Open", storeFiles(t, fs, "/s"), 0)
	must(t, db.Close())
}

// If the disk is too full for a transaction's files, only that transaction fails.
func TestSpillOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	fs := faultfs.New(mem, faultfs.Options{})
	db, err := brock.Open(brock.Options{Dir: "/s", FS: fs, Tuning: brock.Tuning{SegmentSize: 64 << 10}})
	must(t, err)
	defer db.Close()
	set(t, db, "a=1")
	txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 4000})
	must(t, err)
	defer txn.Discard()
	must(t, fillSpilled(txn, 100))
	fs.Inject(faultfs.Fault{Kinds: faultfs.Create | faultfs.Write, Path: ".run", Times: faultfs.Always, Err: faultfs.ErrNoSpace, Short: true})
	wantErr(t, "set", fillSpilled(txn, 100), brock.ErrNoSpace)
	wantErr(t, "set again", txn.Set(b("k"), nil), brock.ErrNoSpace)
	wantErr(t, "commit", txn.Commit(), brock.ErrNoSpace)
	set(t, db, "a=2")
	fs.Heal()
	must(t, db.Update(func(txn *brock.Txn) error { return fillSpilled(txn, 10) }))
	must(t, db.View(func(txn *brock.Txn) error {
		wantEqual(t, "a", get(txn, "a"), "2")
		wantEqual(t, "k000099", get(txn, "k000099"), "-")
		return nil
	}))
	wantEqual(t, "files", storeFiles(t, mem, "/s"), 0)
	must(t, db.Verify(t.Context(), nil))
}

// If the disk is full at any moment of a spilled commit, the commit is refused as a
// whole and the store goes on.
func TestSpilledCommitOnAFullDisk(t *testing.T) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{})
	db, err := brock.Open(brock.Options{Dir: "/s", FS: fs, Tuning: brock.Tuning{SegmentSize: 64 << 10}})
	must(t, err)
	defer db.Close()
	for nth := 1; ; nth++ {
		set(t, db, fmt.Sprintf("a=%d", nth))
		txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 4000})
		must(t, err)
		must(t, fillSpilled(txn, 100))
		must(t, put(txn, fmt.Sprintf("b=%d", nth)))
		fs.Inject(faultfs.Fault{Kinds: faultfs.Create | faultfs.Write, Nth: nth, Err: faultfs.ErrNoSpace, Short: true})
		err = txn.Commit()
		fs.Heal()
		if err == nil {
			if nth < 5 {
				t.Errorf("only %d operations could fail", nth-1)
			}
			break
		}
		if !errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped) {
			t.Fatalf("operation %d: %v", nth, err)
		}
		must(t, db.View(func(txn *brock.Txn) error {
			wantEqual(t, "a", get(txn, "a"), fmt.Sprint(nth))
			wantEqual(t, "b", get(txn, "b"), "-")
			return nil
		}))
	}
	must(t, db.Verify(t.Context(), nil))
}
