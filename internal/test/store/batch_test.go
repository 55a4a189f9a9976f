package store

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

func TestBatch(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "gone=1")
	batch := db.NewBatch()
	must(t, batch.Set(b("a"), b("1")))
	must(t, batch.Set(b("a"), b("2")))
	must(t, batch.Delete(b("gone")))
	must(t, batch.SetEntry(brock.NewEntry(b("m"), nil).WithMeta(3)))
	wantErr(t, "empty key", batch.Set(nil, nil), brock.ErrEmptyKey)
	wantErr(t, "nil entry", batch.SetEntry(nil), brock.ErrInvalid)
	wantEqual(t, "Len", batch.Len(), 4)
	wantEqual(t, "Size", batch.Size(), 26)
	wantEqual(t, "before Commit", db.Version(), 1)
	must2(batch.Commit(t.Context(), 0))
	wantEqual(t, "after Commit", db.Version(), 2)
	wantErr(t, "Commit again", second(batch.Commit(t.Context(), 0)), brock.ErrInvalid)
	wantErr(t, "Set after Commit", batch.Set(b("x"), nil), brock.ErrInvalid)
	batch.Reset()
	wantEqual(t, "Len after Reset", batch.Len(), 0)
	must2(batch.Commit(t.Context(), 0))
	batch.Reset()
	must(t, batch.Set(b("again"), b("1")))
	must2(batch.Commit(t.Context(), 0))
	must(t, db.BatchSet([]*brock.Entry{brock.NewEntry(b("s1"), b("1")), brock.NewEntry(b("s2"), b("2"))}))
	wantErr(t, "BatchSet", db.BatchSet([]*brock.Entry{brock.NewEntry(b("never"), nil), brock.NewEntry(nil, nil)}), brock.ErrEmptyKey)
	must(t, db.View(func(txn *brock.Txn) error {
		wantEqual(t, "store", show(txn.All()), "a=2 again=1 m= s1=1 s2=2")
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	batch.Reset()
	must(t, batch.Set(b("late"), nil))
	wantErr(t, "cancelled", second(batch.Commit(ctx, 0)), context.Canceled)
	wantErr(t, "and spent", batch.Set(b("late"), nil), brock.ErrInvalid)
}

// TestBatchCommit: a batch commits with the durability that Commit is given, whatever Options say,
// and Commit returns the version that readers see.
func TestBatchCommit(t *testing.T) {
	for _, def := range []brock.Durability{brock.DefaultDurability, brock.Synced, brock.Buffered} {
		for _, d := range []brock.Durability{brock.DefaultDurability, brock.Synced, brock.Buffered} {
			for _, spills := range []bool{false, true} {
				mem := vfs.NewMem()
				o := brock.Options{Dir: "db", FS: mem, Durability: def, MemoryLimit: 4 << 20}
				db := must2(brock.Open(o))
				must(t, db.Sync(t.Context()))
				batch := db.NewBatch()
				n := 10
				if spills {
					n = 6000
				}
				for i := range n {
					must(t, batch.Set(fmt.Appendf(nil, "%06d", i), make([]byte, 300)))
				}
				version := must2(batch.Commit(t.Context(), d))
				wantEqual(t, "version", version, db.Version())
				must(t, db.View(func(txn *brock.Txn) error {
					wantEqual(t, "version of an item", must2(txn.Get(b("000003"))).Version(), version)
					return nil
				}))
				o.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
				must(t, db.Close())
				db = must2(brock.Open(o))
				synced := spills || d == brock.Synced || d == brock.DefaultDurability && def != brock.Buffered
				wantEqual(t, fmt.Sprintf("durable: default %v, %v, spills %v", def, d, spills), must2(db.Has(b("000003"))), synced)
				must(t, db.Close())
			}
		}
	}
	db := openTest(t, brock.Options{})
	batch := db.NewBatch()
	must(t, batch.Set(b("a"), nil))
	wantErr(t, "a durability that is unknown", second(batch.Commit(t.Context(), 77)), brock.ErrInvalid)
	wantEqual(t, "after ErrInvalid", must2(batch.Commit(t.Context(), 0)), 1)
	batch.Reset()
	wantEqual(t, "version of nothing", must2(batch.Commit(t.Context(), 0)), 0)
}

// TestCommitContext: the context of a commit counts instead of that of the transaction.
func TestCommitContext(t *testing.T) {
	db := openTest(t, brock.Options{})
	ended, end := context.WithCancel(t.Context())
	end()
	txn := must2(db.Begin(t.Context(), brock.TxnOptions{Update: true}))
	must(t, txn.Set(b("a"), b("1")))
	wantErr(t, "an ended context", txn.CommitContext(ended), context.Canceled)
	wantErr(t, "the transaction", txn.Commit(), brock.ErrTxnDone)
	wantEqual(t, "written", must2(db.Has(b("a"))), false)

	txn = must2(db.Begin(t.Context(), brock.TxnOptions{Update: true}))
	must(t, txn.Set(b("a"), b("1")))
	var nothing context.Context
	wantErr(t, "no context", txn.CommitContext(nothing), brock.ErrInvalid)
	must(t, txn.CommitContext(t.Context()))
	wantEqual(t, "written", must2(db.Has(b("a"))), true)

	own, endOwn := context.WithCancel(t.Context())
	txn = must2(db.Begin(own, brock.TxnOptions{Update: true}))
	must(t, txn.Set(b("b"), b("1")))
	endOwn()
	wantErr(t, "the transaction's context has ended", txn.CommitContext(t.Context()), context.Canceled)
	must(t, db.Update(func(txn *brock.Txn) error {
		wantErr(t, "within Update", txn.CommitContext(t.Context()), brock.ErrInvalid)
		return nil
	}))
}

// TestAppendValue: values of all kinds are appended, and go to the caller's memory if it has room.
func TestAppendValue(t *testing.T) {
	for _, keys := range []brock.KeyProvider{nil, brock.StaticKey(make([]byte, 32))} {
		for _, compression := range []brock.Compression{brock.NoCompression, brock.S2} {
			db := openTest(t, brock.Options{Keys: keys, KeyspaceDefaults: brock.KeyspaceOptions{Compression: compression, ValueThreshold: 512}})
			sizes := []int{0, 1, 100, 600, 5000, 70_000, 300_000}
			for flushed := range 2 {
				for _, n := range sizes {
					key, value := fmt.Appendf(nil, "%d", n), bytes.Repeat([]byte("value "), n/6+1)[:n]
					must(t, db.Set(key, value))
					if flushed == 1 {
						must(t, db.Flush(t.Context()))
					}
					for _, front := range []string{"", "front"} {
						for _, room := range []int{0, n - 1, n, n + 100_000} {
							dst := append(make([]byte, 0, len(front)+max(0, room)), front...)
							got := must2(db.AppendValue(dst, key))
							if string(got) != front+string(value) {
								t.Fatalf("value of %d bytes behind %q: %d bytes", n, front, len(got))
							}
							if room >= n && n > 0 && &got[0] != &dst[:1][0] {
								t.Errorf("value of %d bytes: not in the memory of %d", n, cap(dst))
							}
						}
					}
				}
			}
			got, err := db.AppendValue(b("front"), b("absent"))
			wantErr(t, "absent", err, brock.ErrKeyNotFound)
			wantEqual(t, "absent", string(got), "front")
		}
	}
}

func TestWriter(t *testing.T) {
	db := openTest(t, brock.Options{})
	w := db.NewWriter(t.Context())
	value := strings.Repeat("v", 10_000)
	for i := range 1000 { // ten groups
		must(t, w.Set(b(fmt.Sprintf("k%04d", i%500)), b(fmt.Sprint(i, value))))
	}
	must(t, w.Delete(b("k0000")))
	must(t, w.SetEntry(brock.NewEntry(b("e"), nil).WithMeta(1)))
	wantErr(t, "empty key", w.Set(nil, nil), brock.ErrEmptyKey)
	must(t, w.Flush())
	n := 0
	must(t, db.View(func(txn *brock.Txn) error {
		for it, err := range txn.Prefix(b("k")) {
			must(t, err)
			n++
			i, _ := strconv.Atoi(string(it.Key()[1:]))
			wantEqual(t, "the later write", string(must2(it.Value())), fmt.Sprint(i+500, value))
		}
		return nil
	}))
	wantEqual(t, "keys", n, 499)
	if groups := db.Metrics().Commits; groups < 5 || groups > 20 {
		t.Errorf("%d groups", groups)
	}
	must(t, w.Close())
	must(t, w.Close())
	wantErr(t, "Set after Close", w.Set(b("a"), nil), brock.ErrInvalid)
	wantErr(t, "Flush after Close", w.Flush(), brock.ErrInvalid)
}

func TestWriterOnManyGoroutines(t *testing.T) {
	db := openTest(t, brock.Options{})
	w := db.NewWriter(t.Context())
	value := make([]byte, 100_000)
	var work sync.WaitGroup
	for g := range 4 {
		work.Go(func() {
			for i := range 50 {
				if err := w.Set(b(fmt.Sprintf("%d/%d", g, i)), value); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	must(t, w.Close())
	wantEqual(t, "entries", db.Metrics().Entries, 200)
}

// A Writer keeps its first error, also when the disk works again.
func TestWriterErrorsStay(t *testing.T) {
	faults := faultfs.New(vfs.NewMem(), faultfs.Options{})
	db := openTest(t, brock.Options{Dir: "/", FS: faults})
	w := db.NewWriter(t.Context())
	must(t, w.Set(b("a"), nil))
	faults.Inject(faultfs.Fault{Kinds: faultfs.Write, Times: faultfs.Always, Err: faultfs.ErrNoSpace})
	wantErr(t, "Flush", w.Flush(), brock.ErrNoSpace)
	faults.Heal()
	wantErr(t, "Set", w.Set(b("a"), nil), brock.ErrNoSpace)
	wantErr(t, "Flush again", w.Flush(), brock.ErrNoSpace)
	wantErr(t, "Close", w.Close(), brock.ErrNoSpace)
	wantErr(t, "Close again", w.Close(), brock.ErrNoSpace)
}

// A Writer refuses writes once its context has ended, and its Close reports the
// write that was lost.
func TestWriterIsCancelled(t *testing.T) {
	db := openTest(t, brock.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	w := db.NewWriter(ctx)
	must(t, w.Set(b("a"), nil))
	cancel()
	wantErr(t, "cancelled", w.Set(b("b"), nil), context.Canceled)
	if err := w.Close(); err == nil {
		t.Error("Close loses a write and says nothing")
	}
}

// Flush waits for what was written before it, not for others who go on writing: three
// groups at most, however many there are.
func TestWriterFlushWaitsForItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		gate := func(op faultfs.Op) {
			if op.Kind == faultfs.Write && op.Len > 500_000 { // a group
				<-pass
			}
		}
		db := openTest(t, brock.Options{Dir: dir, FS: faultfs.New(vfs.NewMem(), faultfs.Options{Before: gate}), Durability: brock.Buffered})
		w := db.NewWriter(t.Context())
		var stop, flushed atomic.Bool
		for g := range 4 {
			go func() {
				for i := 0; !stop.Load(); i++ {
					must(t, w.Set(fmt.Appendf(nil, "%d/%d", g, i%100), make([]byte, 50_000)))
				}
			}()
		}
		synctest.Wait() // now one group is being committed, one is full, and one as well waits for that
		go func() {
			must(t, w.Flush())
			flushed.Store(true)
		}()
		groups := 0
		for synctest.Wait(); !flushed.Load() && groups < 20; synctest.Wait() {
			pass <- struct{}{}
			groups++
		}
		if groups > 3 {
			t.Errorf("Flush has waited for %d groups", groups)
		}
		stop.Store(true)
		close(pass)
		synctest.Wait()
		must(t, w.Close())
	})
}
