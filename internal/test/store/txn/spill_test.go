package txn

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// A transaction whose writes are in files reads its own writes as any other does. Its
// commit is one version of the store.
func TestSpilledTransaction(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=0", "k0001=old", "z=0")
	old := db.NewTransaction(false)
	defer old.Discard()
	txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 2000})
	assert.OK(t, err)
	defer txn.Discard()
	long := string(make([]byte, 1000))
	for i := range 200 {
		assert.OK(t, storetest.Put(txn, fmt.Sprintf("k%04d=%d", i, i), fmt.Sprintf("v%04d=%d%s", i, i, long)))
	}
	assert.OK(t, storetest.Put(txn, "k0007", "v0007=7", "k0008=eight", "a"))
	assert.Equal(t, "a", storetest.Get(txn, "a"), "-")
	assert.Equal(t, "k0007", storetest.Get(txn, "k0007"), "-")
	assert.Equal(t, "k0008", storetest.Get(txn, "k0008"), "eight")
	assert.Equal(t, "v0007", storetest.Get(txn, "v0007"), "7")
	assert.Equal(t, "v0009", storetest.Get(txn, "v0009"), "9"+long)
	assert.Equal(t, "z", storetest.Get(txn, "z"), "0")
	assert.Equal(t, "own writes", storetest.ShowItems(txn.Range([]byte("k0006"), []byte("k0010"))), "k0006=6 k0008=eight k0009=9")
	assert.OK(t, txn.Commit())
	m := db.Metrics().Tree
	assert.Equal(t, "spills", m.Spills, 1)
	assert.Equal(t, "version", db.Version(), txn.CommitVersion())
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "k0007", storetest.Get(txn, "k0007"), "-")
		assert.Equal(t, "v0007", storetest.Get(txn, "v0007"), "7")
		assert.Equal(t, "v0009", storetest.Get(txn, "v0009"), "9"+long)
		assert.Equal(t, "range", storetest.ShowItems(txn.Range([]byte("k0006"), []byte("k0010"))), "k0006=6 k0008=eight k0009=9")
		it, err := txn.Get([]byte("v0100"))
		assert.OK(t, err)
		assert.Equal(t, "version", it.Version(), db.Version())
		return nil
	}))
	assert.Equal(t, "old k0001", storetest.Get(old, "k0001"), "old")
	assert.Equal(t, "old k0002", storetest.Get(old, "k0002"), "-")
	assert.OK(t, db.Verify(t.Context(), nil))
	storetest.Set(t, db, "k0009=later")
	assert.OK(t, db.Compact(t.Context()))
	assert.OK(t, db.Verify(t.Context(), nil))
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "range", storetest.ShowItems(txn.Range([]byte("k0006"), []byte("k0010"))), "k0006=6 k0008=eight k0009=later")
		assert.Equal(t, "v0009", storetest.Get(txn, "v0009"), "9"+long)
		return nil
	}))
}

// files is how many files of runs and segments a store has.
func storeFiles(t *testing.T, fs vfs.FS, dir string) (n int) {
	names, err := fs.List(dir)
	assert.OK(t, err)
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
	assert.OK(t, err)
	begin := func(i brock.Isolation) *brock.Txn {
		txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 4000, Isolation: i})
		assert.OK(t, err)
		_, err = txn.Get([]byte("k000001"))
		assert.Error(t, "get", err, brock.ErrKeyNotFound)
		assert.OK(t, fillSpilled(txn, 300))
		if storeFiles(t, fs, "/s") == 0 {
			t.Error("nothing was spilled")
		}
		return txn
	}
	begin(brock.Serializable).Discard()
	assert.Equal(t, "files after Discard", storeFiles(t, fs, "/s"), 0)
	for _, i := range []brock.Isolation{brock.Serializable, brock.SnapshotIsolation} {
		txn := begin(i)
		storetest.Set(t, db, "k000001=other")
		assert.Error(t, "commit", txn.Commit(), brock.ErrConflict)
		assert.OK(t, db.Update(func(txn *brock.Txn) error { return storetest.Put(txn, "k000001") }))
		assert.OK(t, db.Compact(t.Context()))
		assert.Equal(t, "files after a conflict", storeFiles(t, fs, "/s"), 0)
	}
	batch := db.NewBatch()
	for i := range 10 {
		assert.OK(t, batch.Set(fmt.Appendf(nil, "b%d", i), make([]byte, 5<<20)))
	}
	if storeFiles(t, fs, "/s") == 0 {
		t.Error("no batch was spilled")
	}
	batch.Reset()
	assert.Equal(t, "files after Reset", storeFiles(t, fs, "/s"), 0)
	var entries []*brock.Entry
	for i := range 10 {
		entries = append(entries, brock.NewEntry(fmt.Appendf(nil, "b%d", i), make([]byte, 5<<20)))
	}
	assert.Error(t, "BatchSet", db.BatchSet(append(entries, brock.NewEntry(make([]byte, brock.MaxKeySize+1), nil))), brock.ErrKeyTooLarge)
	assert.Equal(t, "files after a refused BatchSet", storeFiles(t, fs, "/s"), 0)
	txn := begin(brock.LastWriterWins)
	assert.OK(t, db.Close())
	assert.Error(t, "set", txn.Set([]byte("a"), nil), brock.ErrClosed)
	txn.Discard()
	if storeFiles(t, fs, "/s") == 0 {
		t.Error("a closed store's files were removed")
	}
	db, err = brock.Open(o)
	assert.OK(t, err)
	assert.Equal(t, "files after Open", storeFiles(t, fs, "/s"), 0)
	assert.OK(t, db.Close())
}

// If the disk is too full for a transaction's files, only that transaction fails.
func TestSpillOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	fs := faultfs.New(mem, faultfs.Options{})
	db, err := brock.Open(brock.Options{Dir: "/s", FS: fs, Tuning: brock.Tuning{SegmentSize: 64 << 10}})
	assert.OK(t, err)
	defer db.Close()
	storetest.Set(t, db, "a=1")
	txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 4000})
	assert.OK(t, err)
	defer txn.Discard()
	assert.OK(t, fillSpilled(txn, 100))
	fs.Inject(faultfs.Fault{Kinds: faultfs.Create | faultfs.Write, Path: ".run", Times: faultfs.Always, Err: faultfs.ErrNoSpace, Short: true})
	assert.Error(t, "set", fillSpilled(txn, 100), brock.ErrNoSpace)
	assert.Error(t, "set again", txn.Set([]byte("k"), nil), brock.ErrNoSpace)
	assert.Error(t, "commit", txn.Commit(), brock.ErrNoSpace)
	storetest.Set(t, db, "a=2")
	fs.Heal()
	assert.OK(t, db.Update(func(txn *brock.Txn) error { return fillSpilled(txn, 10) }))
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "a", storetest.Get(txn, "a"), "2")
		assert.Equal(t, "k000099", storetest.Get(txn, "k000099"), "-")
		return nil
	}))
	assert.Equal(t, "files", storeFiles(t, mem, "/s"), 0)
	assert.OK(t, db.Verify(t.Context(), nil))
}

// If the disk is full at any moment of a spilled commit, the commit is refused as a
// whole and the store goes on.
func TestSpilledCommitOnAFullDisk(t *testing.T) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{})
	db, err := brock.Open(brock.Options{Dir: "/s", FS: fs, Tuning: brock.Tuning{SegmentSize: 64 << 10}})
	assert.OK(t, err)
	defer db.Close()
	for nth := 1; ; nth++ {
		storetest.Set(t, db, fmt.Sprintf("a=%d", nth))
		txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 4000})
		assert.OK(t, err)
		assert.OK(t, fillSpilled(txn, 100))
		assert.OK(t, storetest.Put(txn, fmt.Sprintf("b=%d", nth)))
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
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			assert.Equal(t, "a", storetest.Get(txn, "a"), fmt.Sprint(nth))
			assert.Equal(t, "b", storetest.Get(txn, "b"), "-")
			return nil
		}))
	}
	assert.OK(t, db.Verify(t.Context(), nil))
}
