package txn

import (
	"context"
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

func TestBatch(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "gone=1")
	batch := db.NewBatch()
	assert.OK(t, batch.Set([]byte("a"), []byte("1")))
	assert.OK(t, batch.Set([]byte("a"), []byte("2")))
	assert.OK(t, batch.Delete([]byte("gone")))
	assert.OK(t, batch.SetEntry(brock.NewEntry([]byte("m"), nil).WithMeta(3)))
	assert.Error(t, "long key", batch.Set(make([]byte, brock.MaxKeySize+1), nil), brock.ErrKeyTooLarge)
	assert.Error(t, "nil entry", batch.SetEntry(nil), brock.ErrInvalid)
	assert.Equal(t, "Len", batch.Len(), 4)
	assert.Equal(t, "Size", batch.Size(), 26)
	assert.Equal(t, "before Commit", db.Version(), 1)
	assert.Must(batch.Commit(t.Context(), 0))
	assert.Equal(t, "after Commit", db.Version(), 2)
	assert.Error(t, "Commit again", assert.ErrorOf(batch.Commit(t.Context(), 0)), brock.ErrInvalid)
	assert.Error(t, "Set after Commit", batch.Set([]byte("x"), nil), brock.ErrInvalid)
	batch.Reset()
	assert.Equal(t, "Len after Reset", batch.Len(), 0)
	assert.Must(batch.Commit(t.Context(), 0))
	batch.Reset()
	assert.OK(t, batch.Set([]byte("again"), []byte("1")))
	assert.Must(batch.Commit(t.Context(), 0))
	assert.OK(t, db.BatchSet([]*brock.Entry{brock.NewEntry([]byte("s1"), []byte("1")), brock.NewEntry([]byte("s2"), []byte("2"))}))
	assert.Error(t, "BatchSet", db.BatchSet([]*brock.Entry{brock.NewEntry([]byte("never"), nil), brock.NewEntry(make([]byte, brock.MaxKeySize+1), nil)}), brock.ErrKeyTooLarge)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "store", storetest.ShowItems(txn.All()), "a=2 again=1 m= s1=1 s2=2")
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	batch.Reset()
	assert.OK(t, batch.Set([]byte("late"), nil))
	assert.Error(t, "cancelled", assert.ErrorOf(batch.Commit(ctx, 0)), context.Canceled)
	assert.Error(t, "and spent", batch.Set([]byte("late"), nil), brock.ErrInvalid)
}

// TestBatchCommit: a batch commits with the durability that Commit is given, whatever Options say,
// and Commit returns the version that readers see.
func TestBatchCommit(t *testing.T) {
	for _, def := range []brock.Durability{brock.DefaultDurability, brock.Synced, brock.Buffered} {
		for _, d := range []brock.Durability{brock.DefaultDurability, brock.Synced, brock.Buffered} {
			for _, spills := range []bool{false, true} {
				mem := vfs.NewMem()
				o := brock.Options{Dir: "db", FS: mem, Durability: def, MemoryLimit: 4 << 20}
				db := assert.Must(brock.Open(o))
				assert.OK(t, db.Sync(t.Context()))
				batch := db.NewBatch()
				n := 10
				if spills {
					n = 6000
				}
				for i := range n {
					assert.OK(t, batch.Set(fmt.Appendf(nil, "%06d", i), make([]byte, 300)))
				}
				version := assert.Must(batch.Commit(t.Context(), d))
				assert.Equal(t, "version", version, db.Version())
				assert.OK(t, db.View(func(txn *brock.Txn) error {
					assert.Equal(t, "version of an item", assert.Must(txn.Get([]byte("000003"))).Version(), version)
					return nil
				}))
				o.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
				assert.OK(t, db.Close())
				db = assert.Must(brock.Open(o))
				synced := spills || d == brock.Synced || d == brock.DefaultDurability && def != brock.Buffered
				assert.Equal(t, fmt.Sprintf("durable: default %v, %v, spills %v", def, d, spills), assert.Must(db.Has([]byte("000003"))), synced)
				assert.OK(t, db.Close())
			}
		}
	}
	db := storetest.Open(t, brock.Options{})
	batch := db.NewBatch()
	assert.OK(t, batch.Set([]byte("a"), nil))
	assert.Error(t, "a durability that is unknown", assert.ErrorOf(batch.Commit(t.Context(), 77)), brock.ErrInvalid)
	assert.Equal(t, "after ErrInvalid", assert.Must(batch.Commit(t.Context(), 0)), 1)
	batch.Reset()
	assert.Equal(t, "version of nothing", assert.Must(batch.Commit(t.Context(), 0)), 0)
}

// TestCommitContext: the context of a commit counts instead of that of the transaction.
func TestCommitContext(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	ended, end := context.WithCancel(t.Context())
	end()
	txn := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true}))
	assert.OK(t, txn.Set([]byte("a"), []byte("1")))
	assert.Error(t, "an ended context", txn.CommitContext(ended), context.Canceled)
	assert.Error(t, "the transaction", txn.Commit(), brock.ErrTxnDone)
	assert.Equal(t, "written", assert.Must(db.Has([]byte("a"))), false)

	txn = assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true}))
	assert.OK(t, txn.Set([]byte("a"), []byte("1")))
	var nothing context.Context
	assert.Error(t, "no context", txn.CommitContext(nothing), brock.ErrInvalid)
	assert.OK(t, txn.CommitContext(t.Context()))
	assert.Equal(t, "written", assert.Must(db.Has([]byte("a"))), true)

	own, endOwn := context.WithCancel(t.Context())
	txn = assert.Must(db.Begin(own, brock.TxnOptions{Update: true}))
	assert.OK(t, txn.Set([]byte("b"), []byte("1")))
	endOwn()
	assert.Error(t, "the transaction's context has ended", txn.CommitContext(t.Context()), context.Canceled)
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		assert.Error(t, "within Update", txn.CommitContext(t.Context()), brock.ErrInvalid)
		return nil
	}))
}
