package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/vfs"
)

// calls are the calls of a transaction.
var calls = map[string]func(txn *brock.Txn) error{
	"Get":      func(txn *brock.Txn) error { _, err := txn.Get(b("a")); return err },
	"Has":      func(txn *brock.Txn) error { _, err := txn.Has(b("a")); return err },
	"Set":      func(txn *brock.Txn) error { return txn.Set(b("a"), b("1")) },
	"SetEntry": func(txn *brock.Txn) error { return txn.SetEntry(brock.NewEntry(b("a"), nil)) },
	"Delete":   func(txn *brock.Txn) error { return txn.Delete(b("a")) },
	"Commit":   func(txn *brock.Txn) error { return txn.Commit() },
	"GetMany": func(txn *brock.Txn) error {
		for _, err := range txn.GetMany([][]byte{b("a"), b("b")}) {
			return err
		}
		return nil
	},
	"All":      func(txn *brock.Txn) error { return last(txn.All()) },
	"Versions": func(txn *brock.Txn) error { return last(txn.Versions(b("a"))) },
	"NewIterator": func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{})
		it.Rewind()
		it.Next()
		it.Prev()
		it.Seek(b("a"))
		if it.Valid() || it.ValidForPrefix(nil) || it.Item().Key() != nil {
			return errors.New("valid")
		}
		return it.Close()
	},
}

func last(seq func(func(*brock.Item, error) bool)) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

func TestEndedTransactions(t *testing.T) {
	for name, end := range map[string]struct {
		end  func(db *brock.DB, txn *brock.Txn)
		want error
	}{
		"discarded":    {func(_ *brock.DB, txn *brock.Txn) { txn.Discard() }, brock.ErrTxnDone},
		"twice":        {func(_ *brock.DB, txn *brock.Txn) { txn.Discard(); txn.Discard() }, brock.ErrTxnDone},
		"committed":    {func(_ *brock.DB, txn *brock.Txn) { txn.Commit() }, brock.ErrTxnDone},
		"written":      {func(_ *brock.DB, txn *brock.Txn) { txn.Set(b("k"), b("v")); txn.Commit() }, brock.ErrTxnDone},
		"store closed": {func(db *brock.DB, txn *brock.Txn) { db.Close() }, brock.ErrClosed},
	} {
		for _, update := range []bool{false, true} {
			for call, fn := range calls {
				t.Run(fmt.Sprintf("%s/%v/%s", name, update, call), func(t *testing.T) {
					db := openTest(t, brock.Options{})
					set(t, db, "a=1")
					txn := db.NewTransaction(update)
					it, err := txn.Get(b("a"))
					must(t, err)
					open := txn.NewIterator(brock.IteratorOptions{})
					open.Rewind()
					kept := open.Item()
					end.end(db, txn)
					wantErr(t, "call", fn(txn), end.want)
					_, err = it.Value()
					wantEnded(t, "Item.Value", err, end.want)
					open.Next()
					wantEnded(t, "iterator left open", open.Err(), end.want)
					wantEqual(t, "valid", open.Valid(), false)
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
		wantErr(t, what, err, want)
	}
}

func TestZeroValues(t *testing.T) {
	for call, fn := range calls {
		wantErr(t, "zero Txn: "+call, fn(new(brock.Txn)), brock.ErrTxnDone)
	}
	new(brock.Txn).Discard()
	(*brock.Txn)(nil).Discard()
	must(t, (*brock.DB)(nil).Close())
	var it brock.Iterator
	it.Rewind()
	it.Seek(b("a"))
	it.Next()
	it.Prev()
	it.Close()
	wantEqual(t, "zero Iterator valid", it.Valid(), false)
	var item brock.Item
	_, err := item.Value()
	wantErr(t, "zero Item", err, brock.ErrTxnDone)
	wantEqual(t, "zero Item", item.Version()+uint64(item.Meta())+uint64(item.ValueSize())+uint64(len(item.Key())), 0)
	wantErr(t, "zero DB", new(brock.DB).Set(b("a"), nil), brock.ErrClosed)
	wantErr(t, "zero DB", new(brock.DB).View(func(*brock.Txn) error { return nil }), brock.ErrClosed)
	must(t, new(brock.DB).Close())
	wantErr(t, "zero Batch", new(brock.Batch).Set(b("a"), nil), brock.ErrClosed)
	wantErr(t, "zero Writer", new(brock.Writer).Set(b("a"), nil), brock.ErrClosed)
	wantErr(t, "zero Writer", new(brock.Writer).Close(), brock.ErrClosed)
}

func TestClosedStore(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "a=1")
	batch, writer := db.NewBatch(), db.NewWriter(t.Context())
	must(t, batch.Set(b("b"), b("1")))
	must(t, writer.Set(b("c"), b("1")))
	must(t, db.Close())
	must(t, db.Close())
	ctx := t.Context()
	for name, err := range map[string]error{
		"View":             db.View(func(*brock.Txn) error { return nil }),
		"Update":           db.Update(func(*brock.Txn) error { return nil }),
		"ViewContext":      db.ViewContext(ctx, brock.TxnOptions{}, func(*brock.Txn) error { return nil }),
		"UpdateContext":    db.UpdateContext(ctx, brock.TxnOptions{}, func(*brock.Txn) error { return nil }),
		"NewTransaction":   calls["Get"](db.NewTransaction(false)),
		"Set":              db.Set(b("a"), nil),
		"Delete":           db.Delete(b("a")),
		"CompareAndSet":    db.CompareAndSet(b("a"), nil, 1),
		"CompareAndDelete": db.CompareAndDelete(b("a"), 1),
		"BatchSet":         db.BatchSet([]*brock.Entry{brock.NewEntry(b("a"), nil)}),
		"Batch.Set":        batch.Set(b("a"), nil),
		"Batch.Commit":     second(batch.Commit(ctx, 0)),
		"Writer.Set":       writer.Set(b("a"), nil),
		"Writer.Close":     writer.Close(),
		"Sync":             db.Sync(ctx),
		"Flush":            db.Flush(ctx),
		"Compact":          db.Compact(ctx),
		"Verify":           db.Verify(ctx, nil),
	} {
		wantErr(t, name, err, brock.ErrClosed)
	}
	_, err := db.Begin(ctx, brock.TxnOptions{})
	wantErr(t, "Begin", err, brock.ErrClosed)
	_, err = db.Get(b("a"))
	wantErr(t, "Get", err, brock.ErrClosed)
	_, err = db.Has(b("a"))
	wantErr(t, "Has", err, brock.ErrClosed)
	wantEqual(t, "Version", db.Version(), 0)
	wantEqual(t, "Split", len(db.Split(nil, nil, 4)), 0)
	_ = db.Metrics().String()
}

func TestRefusedWritesLeaveTheTransactionUsable(t *testing.T) {
	db := openTest(t, brock.Options{})
	long := make([]byte, brock.MaxKeySize+1)
	for name, tc := range map[string]struct {
		err  func(txn *brock.Txn) error
		want error
	}{
		"empty key":    {func(txn *brock.Txn) error { return txn.Set(nil, b("v")) }, brock.ErrEmptyKey},
		"empty delete": {func(txn *brock.Txn) error { return txn.Delete([]byte{}) }, brock.ErrEmptyKey},
		"empty get":    {func(txn *brock.Txn) error { _, err := txn.Get(nil); return err }, brock.ErrEmptyKey},
		"empty has":    {func(txn *brock.Txn) error { _, err := txn.Has(nil); return err }, brock.ErrEmptyKey},
		"long key":     {func(txn *brock.Txn) error { return txn.Set(long, nil) }, brock.ErrKeyTooLarge},
		"long get":     {func(txn *brock.Txn) error { _, err := txn.Get(long); return err }, brock.ErrKeyTooLarge},
		"nil entry":    {func(txn *brock.Txn) error { return txn.SetEntry(nil) }, brock.ErrInvalid},
		"negative TTL": {func(txn *brock.Txn) error { return txn.SetEntry(brock.NewEntry(b("k"), nil).WithTTL(-1)) }, brock.ErrInvalid},
		"versions":     {func(txn *brock.Txn) error { return last(txn.Versions(nil)) }, brock.ErrEmptyKey},
		"limit":        {func(txn *brock.Txn) error { return last(txn.Items(brock.IteratorOptions{Limit: -1})) }, brock.ErrInvalid},
		"prefetch":     {func(txn *brock.Txn) error { return last(txn.Items(brock.IteratorOptions{Prefetch: 1 << 20})) }, brock.ErrInvalid},
	} {
		err := db.Update(func(txn *brock.Txn) error {
			wantErr(t, name, tc.err(txn), tc.want)
			wantErr(t, name, tc.err(txn), brock.ErrInvalid)
			return put(txn, "after "+name+"=1")
		})
		must(t, err)
		ok, err := db.Has(b("after " + name))
		must(t, err)
		wantEqual(t, name, ok, true)
	}
	must(t, db.View(func(txn *brock.Txn) error {
		wantErr(t, "write in a View", txn.Set(b("a"), nil), brock.ErrReadOnly)
		wantErr(t, "delete in a View", txn.Delete(b("a")), brock.ErrReadOnly)
		return nil
	}))
	key := long[:brock.MaxKeySize]
	must(t, db.Set(key, b("v")))
	v, err := db.Get(key)
	must(t, err)
	wantEqual(t, "longest key", string(v), "v")
}

func TestReadOnlyStore(t *testing.T) {
	fs := vfs.NewMem()
	must(t, openTest(t, brock.Options{Dir: "/", FS: fs}).Close())
	db := openTest(t, brock.Options{Dir: "/", FS: fs, Mode: brock.ReadOnly})
	must(t, db.View(func(txn *brock.Txn) error { wantEqual(t, "get", get(txn, "a"), "-"); return nil }))
	ctx := t.Context()
	for name, err := range map[string]error{
		"Update":         db.Update(func(*brock.Txn) error { return nil }),
		"NewTransaction": calls["Set"](db.NewTransaction(true)),
		"Set":            db.Set(b("a"), nil),
		"BatchSet":       db.BatchSet([]*brock.Entry{brock.NewEntry(b("a"), nil)}),
		"Writer.Set":     db.NewWriter(ctx).Set(b("a"), nil),
		"Sync":           db.Sync(ctx),
		"Flush":          db.Flush(ctx),
		"Compact":        db.Compact(ctx),
		"CompareAndSet":  db.CompareAndSet(b("a"), nil, 0),
	} {
		wantErr(t, name, err, brock.ErrReadOnly)
	}
}

func TestPanicDiscardsAndGoesOn(t *testing.T) {
	for _, update := range []bool{false, true} {
		db := openTest(t, brock.Options{})
		set(t, db, "before=1")
		run := db.View
		if update {
			run = db.Update
		}
		func() {
			defer func() { wantEqual(t, "panic", recover(), any("mine")) }()
			run(func(txn *brock.Txn) error {
				txn.Set(b("a"), b("1"))
				txn.NewIterator(brock.IteratorOptions{}).Rewind()
				panic("mine")
			})
		}()
		if update {
			wantEqual(t, "pinned", pinned(db), false)
		} // else the iterator may be in use, until it is collected
		collect(t, func() bool { return !pinned(db) })
		ok, err := db.Has(b("a"))
		must(t, err)
		wantEqual(t, "written", ok, false)
	}
}

// pinned reports whether a transaction of a store that is not empty is open, or
// what one has handed out.
func pinned(db *brock.DB) bool { return db.Metrics().Tree.PinnedVersion != 0 }

// collect runs the garbage collector until its cleanups have made ok true.
func collect(t *testing.T, ok func() bool) {
	t.Helper()
	deadline.Wait(t, "the collector has found what is leaked", func() bool {
		runtime.GC()
		return ok()
	})
}

// A transaction or iterator that was never ended releases its pin when the garbage
// collector finds it.
func TestLeaks(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "a=1", "b=2")
	func() {
		txn := db.NewTransaction(false)
		txn.NewIterator(brock.IteratorOptions{}).Rewind()
		db.NewTransaction(true).Set(b("a"), b("2"))
	}()
	must(t, db.View(func(txn *brock.Txn) error {
		txn.NewIterator(brock.IteratorOptions{}).Rewind()
		return nil
	}))
	collect(t, func() bool { return !pinned(db) })
	wantEqual(t, "leaked", db.Metrics().Leaked, 2)
}

// Readers and writers that run beside Close get a result or ErrClosed.
func TestConcurrentClose(t *testing.T) {
	for range 20 {
		db := openTest(t, brock.Options{})
		var work sync.WaitGroup
		start := make(chan struct{})
		try := func(fn func() error) {
			work.Go(func() {
				<-start
				for {
					if err := fn(); err != nil {
						wantErr(t, "at the close", err, brock.ErrClosed)
						return
					}
				}
			})
		}
		try(func() error { return db.Set(b("a"), b("1")) })
		try(func() error {
			return db.Update(func(txn *brock.Txn) error { return put(txn, "b="+get(txn, "b")[:1]) })
		})
		try(func() error { return db.View(func(txn *brock.Txn) error { return last(txn.All()) }) })
		try(func() error {
			w := db.NewWriter(context.Background())
			if err := w.Set(b("w"), nil); err != nil {
				return err
			}
			return w.Close()
		})
		for range 2 {
			work.Go(func() {
				<-start
				for range 50 {
					runtime.Gosched()
				}
				must(t, db.Close())
			})
		}
		close(start)
		work.Wait()
	}
}

// Iterators of one read-only transaction run on many goroutines. The transaction
// may end before them.
func TestIteratorsOnManyGoroutines(t *testing.T) {
	db := openTest(t, brock.Options{})
	for i := range 200 {
		set(t, db, fmt.Sprintf("k%03d=%d", i, i))
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
					wantErr(t, "after Discard", it.Err(), brock.ErrTxnDone)
					return
				}
				wantEqual(t, "items", n, 200)
			}
		})
	}
	txn.Discard()
	work.Wait()
	wantEqual(t, "pinned", pinned(db), false)
}

func TestContexts(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "a=1", "b=2")
	ctx, cancel := context.WithCancel(t.Context())
	txn, err := db.Begin(ctx, brock.TxnOptions{Update: true})
	must(t, err)
	wantEqual(t, "context", txn.Context(), ctx)
	it := txn.NewIterator(brock.IteratorOptions{})
	it.Rewind()
	must(t, put(txn, "c=3"))
	cancel()
	it.Next()
	wantErr(t, "Next", it.Err(), context.Canceled)
	wantErr(t, "Get", calls["Get"](txn), context.Canceled)
	wantErr(t, "Commit", txn.Commit(), context.Canceled)
	wantErr(t, "Commit again", txn.Commit(), brock.ErrTxnDone)
	_, err = db.Begin(ctx, brock.TxnOptions{})
	wantErr(t, "Begin", err, context.Canceled)
	wantErr(t, "UpdateContext", db.UpdateContext(ctx, brock.TxnOptions{}, func(*brock.Txn) error { return nil }), context.Canceled)
	ok, err := db.Has(b("c"))
	must(t, err)
	wantEqual(t, "written", ok, false)
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
