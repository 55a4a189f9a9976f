// Package api tests what holds for all calls: misuse, wrong arguments, contexts that end,
// callbacks, memory faults, events and metrics.
package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

func TestEndedTransactions(t *testing.T) {
	for name, end := range map[string]struct {
		end  func(db *brock.DB, txn *brock.Txn)
		want error
	}{
		"discarded":    {func(_ *brock.DB, txn *brock.Txn) { txn.Discard() }, brock.ErrTxnDone},
		"twice":        {func(_ *brock.DB, txn *brock.Txn) { txn.Discard(); txn.Discard() }, brock.ErrTxnDone},
		"committed":    {func(_ *brock.DB, txn *brock.Txn) { txn.Commit() }, brock.ErrTxnDone},
		"written":      {func(_ *brock.DB, txn *brock.Txn) { txn.Set([]byte("k"), []byte("v")); txn.Commit() }, brock.ErrTxnDone},
		"store closed": {func(db *brock.DB, txn *brock.Txn) { db.Close() }, brock.ErrClosed},
	} {
		for _, update := range []bool{false, true} {
			for call, fn := range storetest.TxnCalls {
				t.Run(fmt.Sprintf("%s/%v/%s", name, update, call), func(t *testing.T) {
					db := storetest.Open(t, brock.Options{})
					storetest.Set(t, db, "a=1")
					txn := db.NewTransaction(update)
					it, err := txn.Get([]byte("a"))
					assert.OK(t, err)
					open := txn.NewIterator(brock.IteratorOptions{})
					open.Rewind()
					kept := open.Item()
					end.end(db, txn)
					assert.Error(t, "call", fn(txn), end.want)
					_, err = it.Value()
					wantEnded(t, "Item.Value", err, end.want)
					open.Next()
					wantEnded(t, "iterator left open", open.Err(), end.want)
					assert.Equal(t, "valid", open.Valid(), false)
					if _, err := kept.Value(); err == nil {
						t.Error("the item of an ended iterator has a value")
					}
					txn.Discard()
					open.Close()
				})
			}
		}
	}
}

// wantEnded also takes ErrTxnDone: an earlier call may have ended the transaction.
func wantEnded(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, brock.ErrTxnDone) {
		assert.Error(t, what, err, want)
	}
}

func TestZeroValues(t *testing.T) {
	for call, fn := range storetest.TxnCalls {
		assert.Error(t, "zero Txn: "+call, fn(new(brock.Txn)), brock.ErrTxnDone)
	}
	new(brock.Txn).Discard()
	(*brock.Txn)(nil).Discard()
	assert.OK(t, (*brock.DB)(nil).Close())
	var it brock.Iterator
	it.Rewind()
	it.Seek([]byte("a"))
	it.Next()
	it.Prev()
	it.Close()
	assert.Equal(t, "zero Iterator valid", it.Valid(), false)
	var item brock.Item
	_, err := item.Value()
	assert.Error(t, "zero Item", err, brock.ErrTxnDone)
	assert.Equal(t, "zero Item", item.Version()+uint64(item.Meta())+uint64(item.ValueSize())+uint64(len(item.Key())), 0)
	assert.Error(t, "zero DB", new(brock.DB).Set([]byte("a"), nil), brock.ErrClosed)
	assert.Error(t, "zero DB", new(brock.DB).View(func(*brock.Txn) error { return nil }), brock.ErrClosed)
	assert.OK(t, new(brock.DB).Close())
	assert.Error(t, "zero Batch", new(brock.Batch).Set([]byte("a"), nil), brock.ErrClosed)
	assert.Error(t, "zero Writer", new(brock.Writer).Set([]byte("a"), nil), brock.ErrClosed)
	assert.Error(t, "zero Writer", new(brock.Writer).Close(), brock.ErrClosed)
}

func TestClosedStore(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=1")
	batch, writer := db.NewBatch(), db.NewWriter(t.Context())
	assert.OK(t, batch.Set([]byte("b"), []byte("1")))
	assert.OK(t, writer.Set([]byte("c"), []byte("1")))
	assert.OK(t, db.Close())
	assert.OK(t, db.Close())
	ctx := t.Context()
	for name, err := range map[string]error{
		"View":             db.View(func(*brock.Txn) error { return nil }),
		"Update":           db.Update(func(*brock.Txn) error { return nil }),
		"ViewContext":      db.ViewContext(ctx, brock.TxnOptions{}, func(*brock.Txn) error { return nil }),
		"UpdateContext":    db.UpdateContext(ctx, brock.TxnOptions{}, func(*brock.Txn) error { return nil }),
		"NewTransaction":   storetest.TxnCalls["Get"](db.NewTransaction(false)),
		"Set":              db.Set([]byte("a"), nil),
		"Delete":           db.Delete([]byte("a")),
		"CompareAndSet":    db.CompareAndSet([]byte("a"), nil, 1),
		"CompareAndDelete": db.CompareAndDelete([]byte("a"), 1),
		"BatchSet":         db.BatchSet([]*brock.Entry{brock.NewEntry([]byte("a"), nil)}),
		"Batch.Set":        batch.Set([]byte("a"), nil),
		"Batch.Commit":     assert.ErrorOf(batch.Commit(ctx, 0)),
		"Writer.Set":       writer.Set([]byte("a"), nil),
		"Writer.Close":     writer.Close(),
		"Sync":             db.Sync(ctx),
		"Flush":            db.Flush(ctx),
		"Compact":          db.Compact(ctx),
		"Verify":           db.Verify(ctx, nil),
	} {
		assert.Error(t, name, err, brock.ErrClosed)
	}
	_, err := db.Begin(ctx, brock.TxnOptions{})
	assert.Error(t, "Begin", err, brock.ErrClosed)
	_, err = db.Get([]byte("a"))
	assert.Error(t, "Get", err, brock.ErrClosed)
	_, err = db.Has([]byte("a"))
	assert.Error(t, "Has", err, brock.ErrClosed)
	assert.Equal(t, "Version", db.Version(), 0)
	assert.Equal(t, "Split", len(db.Split(nil, nil, 4)), 0)
	_ = db.Metrics().String()
}

func TestRefusedWritesLeaveTheTransactionUsable(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	long := make([]byte, brock.MaxKeySize+1)
	for name, tc := range map[string]struct {
		err  func(txn *brock.Txn) error
		want error
	}{
		"long key":     {func(txn *brock.Txn) error { return txn.Set(long, nil) }, brock.ErrKeyTooLarge},
		"long get":     {func(txn *brock.Txn) error { _, err := txn.Get(long); return err }, brock.ErrKeyTooLarge},
		"nil entry":    {func(txn *brock.Txn) error { return txn.SetEntry(nil) }, brock.ErrInvalid},
		"negative TTL": {func(txn *brock.Txn) error { return txn.SetEntry(brock.NewEntry([]byte("k"), nil).WithTTL(-1)) }, brock.ErrInvalid},
		"versions":     {func(txn *brock.Txn) error { return assert.LastError(txn.Versions(long)) }, brock.ErrKeyTooLarge},
		"limit":        {func(txn *brock.Txn) error { return assert.LastError(txn.Items(brock.IteratorOptions{Limit: -1})) }, brock.ErrInvalid},
		"prefetch": {func(txn *brock.Txn) error {
			return assert.LastError(txn.Items(brock.IteratorOptions{Prefetch: 1 << 20}))
		}, brock.ErrInvalid},
	} {
		err := db.Update(func(txn *brock.Txn) error {
			assert.Error(t, name, tc.err(txn), tc.want)
			assert.Error(t, name, tc.err(txn), brock.ErrInvalid)
			return storetest.Put(txn, "after "+name+"=1")
		})
		assert.OK(t, err)
		ok, err := db.Has([]byte("after " + name))
		assert.OK(t, err)
		assert.Equal(t, name, ok, true)
	}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Error(t, "write in a View", txn.Set([]byte("a"), nil), brock.ErrReadOnly)
		assert.Error(t, "delete in a View", txn.Delete([]byte("a")), brock.ErrReadOnly)
		return nil
	}))
	key := long[:brock.MaxKeySize]
	assert.OK(t, db.Set(key, []byte("v")))
	v, err := db.Get(key)
	assert.OK(t, err)
	assert.Equal(t, "longest key", string(v), "v")
}

func TestReadOnlyStore(t *testing.T) {
	fs := vfs.NewMem()
	assert.OK(t, storetest.Open(t, brock.Options{Dir: "/", FS: fs}).Close())
	db := storetest.Open(t, brock.Options{Dir: "/", FS: fs, Mode: brock.ReadOnly})
	assert.OK(t, db.View(func(txn *brock.Txn) error { assert.Equal(t, "get", storetest.Get(txn, "a"), "-"); return nil }))
	ctx := t.Context()
	for name, err := range map[string]error{
		"Update":         db.Update(func(*brock.Txn) error { return nil }),
		"NewTransaction": storetest.TxnCalls["Set"](db.NewTransaction(true)),
		"Set":            db.Set([]byte("a"), nil),
		"BatchSet":       db.BatchSet([]*brock.Entry{brock.NewEntry([]byte("a"), nil)}),
		"Writer.Set":     db.NewWriter(ctx).Set([]byte("a"), nil),
		"Sync":           db.Sync(ctx),
		"Flush":          db.Flush(ctx),
		"Compact":        db.Compact(ctx),
		"CompareAndSet":  db.CompareAndSet([]byte("a"), nil, 0),
	} {
		assert.Error(t, name, err, brock.ErrReadOnly)
	}
}

func TestPanicDiscardsAndGoesOn(t *testing.T) {
	for _, update := range []bool{false, true} {
		db := storetest.Open(t, brock.Options{})
		storetest.Set(t, db, "before=1")
		run := db.View
		if update {
			run = db.Update
		}
		func() {
			defer func() { assert.Equal(t, "panic", recover(), any("mine")) }()
			run(func(txn *brock.Txn) error {
				txn.Set([]byte("a"), []byte("1"))
				txn.NewIterator(brock.IteratorOptions{}).Rewind()
				panic("mine")
			})
		}()
		if update {
			assert.Equal(t, "pinned", storetest.IsPinned(db), false)
		} // else the iterator may be in use, until it is collected
		process.CollectGarbage(t, func() bool { return !storetest.IsPinned(db) })
		ok, err := db.Has([]byte("a"))
		assert.OK(t, err)
		assert.Equal(t, "written", ok, false)
	}
}

// A transaction or iterator that was never ended releases its pin when the garbage
// collector finds it.
func TestLeaks(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=1", "b=2")
	func() {
		txn := db.NewTransaction(false)
		txn.NewIterator(brock.IteratorOptions{}).Rewind()
		db.NewTransaction(true).Set([]byte("a"), []byte("2"))
	}()
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		txn.NewIterator(brock.IteratorOptions{}).Rewind()
		return nil
	}))
	process.CollectGarbage(t, func() bool { return !storetest.IsPinned(db) })
	assert.Equal(t, "leaked", db.Metrics().Leaked, 2)
}

// Readers and writers that run beside Close get a result or ErrClosed.
func TestConcurrentClose(t *testing.T) {
	for range 20 {
		db := storetest.Open(t, brock.Options{})
		var work sync.WaitGroup
		start := make(chan struct{})
		try := func(fn func() error) {
			work.Go(func() {
				<-start
				for {
					if err := fn(); err != nil {
						assert.Error(t, "at the close", err, brock.ErrClosed)
						return
					}
				}
			})
		}
		try(func() error { return db.Set([]byte("a"), []byte("1")) })
		try(func() error {
			return db.Update(func(txn *brock.Txn) error { return storetest.Put(txn, "b="+storetest.Get(txn, "b")[:1]) })
		})
		try(func() error { return db.View(func(txn *brock.Txn) error { return assert.LastError(txn.All()) }) })
		try(func() error {
			w := db.NewWriter(context.Background())
			if err := w.Set([]byte("w"), nil); err != nil {
				return err
			}
			return w.Close()
		})
		try(func() error {
			l, err := db.Default().NewLoader(context.Background(), brock.LoadOptions{Sorted: true, MaxMemory: 1})
			if err != nil {
				return err
			}
			defer l.Abort()
			if err := l.Set([]byte("l"), nil); err != nil {
				return err
			}
			_, err = l.Finish()
			return err
		})
		try(func() error {
			return db.Default().Stream(context.Background(), brock.StreamOptions{}, func(_ int, items iter.Seq2[*brock.Item, error]) error {
				return assert.LastError(items)
			})
		})
		for range 2 {
			work.Go(func() {
				<-start
				for range 50 {
					runtime.Gosched()
				}
				assert.OK(t, db.Close())
			})
		}
		close(start)
		work.Wait()
	}
}

// Iterators of one read-only transaction run on many goroutines. The transaction
// may end before them.
func TestIteratorsOnManyGoroutines(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	for i := range 200 {
		storetest.Set(t, db, fmt.Sprintf("k%03d=%d", i, i))
	}
	txn := db.NewTransaction(false)
	var work sync.WaitGroup
	for range 8 {
		it := txn.NewIterator(brock.IteratorOptions{Prefetch: 4})
		work.Go(func() {
			defer it.Close()
			for {
				n := 0
				for it.Rewind(); it.Valid(); it.Next() {
					n++
				}
				if it.Err() != nil {
					assert.Error(t, "after Discard", it.Err(), brock.ErrTxnDone)
					return
				}
				assert.Equal(t, "items", n, 200)
			}
		})
	}
	txn.Discard()
	work.Wait()
	assert.Equal(t, "pinned", storetest.IsPinned(db), false)
}

func TestContexts(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=1", "b=2")
	ctx, cancel := context.WithCancel(t.Context())
	txn, err := db.Begin(ctx, brock.TxnOptions{Update: true})
	assert.OK(t, err)
	assert.Equal(t, "context", txn.Context(), ctx)
	it := txn.NewIterator(brock.IteratorOptions{})
	it.Rewind()
	assert.OK(t, storetest.Put(txn, "c=3"))
	cancel()
	it.Next()
	assert.Error(t, "Next", it.Err(), context.Canceled)
	assert.Error(t, "Get", storetest.TxnCalls["Get"](txn), context.Canceled)
	assert.Error(t, "Commit", txn.Commit(), context.Canceled)
	assert.Error(t, "Commit again", txn.Commit(), brock.ErrTxnDone)
	_, err = db.Begin(ctx, brock.TxnOptions{})
	assert.Error(t, "Begin", err, context.Canceled)
	assert.Error(t, "UpdateContext", db.UpdateContext(ctx, brock.TxnOptions{}, func(*brock.Txn) error { return nil }), context.Canceled)
	ok, err := db.Has([]byte("c"))
	assert.OK(t, err)
	assert.Equal(t, "written", ok, false)
}

func TestDeleteRangeRefusals(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	version := db.Version()
	assert.OK(t, db.DeleteRange([]byte("b"), []byte("a")))
	assert.OK(t, db.DeleteRange(nil, []byte{}))
	assert.OK(t, db.DropPrefix(t.Context()))
	assert.Equal(t, "the delete of nothing is no commit", db.Version(), version)
	long := bytes.Repeat([]byte("x"), brock.MaxKeySize+1)
	assert.Error(t, "long bound", db.DeleteRange(nil, long), brock.ErrKeyTooLarge)
	assert.Error(t, "long prefix", db.DropPrefix(t.Context(), long), brock.ErrKeyTooLarge)
	assert.OK(t, db.DropPrefix(t.Context(), long[1:]))
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Error(t, "view", txn.DeleteRange(nil, nil), brock.ErrReadOnly)
		return nil
	}))
	txn := db.NewTransaction(true)
	assert.Error(t, "long bound", txn.DeleteRange(long, nil), brock.ErrKeyTooLarge)
	assert.OK(t, txn.DeleteRange(nil, nil))
	assert.OK(t, txn.Commit())
	assert.Error(t, "done", txn.DeleteRange(nil, nil), brock.ErrTxnDone)
	batch := db.NewBatch()
	assert.OK(t, db.Close())
	assert.Error(t, "closed", db.DeleteRange(nil, nil), brock.ErrClosed)
	assert.Error(t, "closed", batch.DeleteRange(nil, nil), brock.ErrClosed)
	assert.Error(t, "closed", db.DropAll(t.Context()), brock.ErrClosed)
	assert.Error(t, "zero batch", new(brock.Batch).DeleteRange(nil, nil), brock.ErrClosed)
}
