package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// cancelled are the calls that take a context and use files. A call is given a store that nobody
// has open, with its options, and a backup of it. It makes what it makes in the directory to.
var cancelled = []struct {
	name string
	call func(ctx context.Context, o brock.Options, to string, backup []byte) error
}{
	{"OpenContext", withOpen(brock.ReadWrite, func(context.Context, *brock.DB, string) error { return nil })},
	{"Verify", withOpen(brock.ReadWrite, func(ctx context.Context, db *brock.DB, _ string) error { return db.Verify(ctx, nil) })},
	{"Refresh", withOpen(brock.Follow, func(ctx context.Context, db *brock.DB, _ string) error { _, err := db.Refresh(ctx); return err })},
	{"Verify of a follower", withOpen(brock.Follow, func(ctx context.Context, db *brock.DB, _ string) error { return db.Verify(ctx, nil) })},
	{"Compact", withOpen(brock.ReadWrite, func(ctx context.Context, db *brock.DB, _ string) error { return db.Compact(ctx) })},
	{"Reclaim", withOpen(brock.ReadWrite, func(ctx context.Context, db *brock.DB, _ string) error { _, err := db.Reclaim(ctx); return err })},
	{"Checkpoint", withOpen(brock.ReadWrite, func(ctx context.Context, db *brock.DB, to string) error { return db.Checkpoint(ctx, to) })},
	{"Backup", withOpen(brock.ReadWrite, func(ctx context.Context, db *brock.DB, _ string) error {
		_, err := db.Backup(ctx, io.Discard, brock.BackupOptions{})
		return err
	})},
	{"Loader", withOpen(brock.ReadWrite, func(ctx context.Context, db *brock.DB, _ string) error {
		l, err := db.Default().NewLoader(ctx, brock.LoadOptions{Sorted: true, Replace: true, MaxMemory: 1000})
		if err != nil {
			return err
		}
		if err := db.View(func(txn *brock.Txn) error { // so the store has the same pairs as before
			for it, err := range txn.All() {
				if err != nil {
					return err
				}
				if err := l.Set(it.Key(), assert.Must(it.ValueCopy(nil))); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		_, err = l.Finish()
		return err
	})},
	{"Stream", withOpen(brock.ReadWrite, func(ctx context.Context, db *brock.DB, _ string) error {
		return db.Default().Stream(ctx, brock.StreamOptions{}, func(_ int, items iter.Seq2[*brock.Item, error]) error { return assert.LastError(items) })
	})},
	{"Restore", func(ctx context.Context, o brock.Options, to string, backup []byte) error {
		o.Dir = to
		_, err := brock.Restore(ctx, bytes.NewReader(backup), o)
		return err
	}},
	{"VerifyBackup", func(ctx context.Context, _ brock.Options, _ string, backup []byte) error {
		_, err := brock.VerifyBackup(ctx, bytes.NewReader(backup))
		return err
	}},
	{"Salvage", func(ctx context.Context, o brock.Options, to string, _ []byte) error {
		_, err := brock.Salvage(ctx, o, brock.Options{FS: o.FS, Dir: to}, nil)
		return err
	}},
	{"EncryptStore", func(ctx context.Context, o brock.Options, _ string, _ []byte) error {
		o.Keys = storetest.MasterKey(1)
		return brock.EncryptStore(ctx, o)
	}},
}

func withOpen(mode brock.OpenMode, call func(ctx context.Context, db *brock.DB, to string) error) func(context.Context, brock.Options, string, []byte) error {
	return func(ctx context.Context, o brock.Options, to string, _ []byte) error {
		o.Mode = mode
		db, err := brock.OpenContext(ctx, o)
		if err != nil {
			return err
		}
		return errors.Join(call(ctx, db, to), db.Close())
	}
}

// TestEndedContexts: a call whose context has ended before returns its error, whatever it has to do:
// also one that has nothing to do.
func TestEndedContexts(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, brock.Options{})
	ks := storetest.OpenKeyspace(t, db, "k")
	ctx, cancel := context.WithCancelCause(t.Context())
	txn := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true}))
	batch := db.NewBatch()
	cancel(errors.New("the cause"))
	for name, err := range map[string]error{
		"Begin":             assert.ErrorOf(db.Begin(ctx, brock.TxnOptions{})),
		"View":              db.ViewContext(ctx, brock.TxnOptions{}, func(*brock.Txn) error { return nil }),
		"Update":            db.UpdateContext(ctx, brock.TxnOptions{}, func(*brock.Txn) error { return nil }),
		"Txn.CommitContext": txn.CommitContext(ctx),
		"Batch.Commit":      assert.ErrorOf(batch.Commit(ctx, brock.Synced)),
		"Sync":              db.Sync(ctx),
		"Flush":             db.Flush(ctx),
		"Refresh":           assert.ErrorOf(db.Refresh(ctx)),
		"DropPrefix":        db.DropPrefix(ctx),
		"DropAll":           db.DropAll(ctx),
		"Keyspace.Clear":    ks.Clear(ctx),
		"Keyspace.Drop":     ks.Drop(ctx),
		"Writer.Flush":      db.NewWriter(ctx).Flush(),
		"RotateKey":         db.RotateKey(ctx, brock.RotateOptions{}),
		"Writer.Close":      db.NewWriter(ctx).Close(),
		"NewLoader":         assert.ErrorOf(ks.NewLoader(ctx, brock.LoadOptions{})),
		"Stream":            ks.Stream(ctx, brock.StreamOptions{}, func(int, iter.Seq2[*brock.Item, error]) error { return nil }),
	} {
		assert.Error(t, name, err, context.Canceled)
	}
	assert.Error(t, "Txn.Commit afterwards", txn.Commit(), brock.ErrTxnDone)
	batch.Reset()
	assert.Must(batch.Commit(t.Context(), brock.Synced))
}

// TestCancelledAnywhere: the context of a call ends at some operation of the file system. The call
// succeeds, or returns an error that wraps that of the context, whatever its cause is. Then nothing
// is in the way of the next call.
func TestCancelledAnywhere(t *testing.T) {
	t.Parallel()
	store := vfs.NewMem()
	o := storetest.Place{FS: store, Dir: "/"}.TinyOptions("store", "")
	db := assert.Must(brock.Open(o))
	for i := range 500 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i%300), storetest.RandomBytes(i, 100+i%5*1000)))
	}
	var backup bytes.Buffer
	assert.Must(db.Backup(t.Context(), &backup, brock.BackupOptions{}))
	want := storetest.ShowContents(t, db)
	assert.OK(t, db.Close())
	cause := errors.New("the cause")
	for _, c := range cancelled {
		t.Run(c.name, func(t *testing.T) {
			for at, ended := int64(0), true; ended; at += at/2 + 1 {
				ctx, cancel := context.WithCancelCause(t.Context())
				mem := store.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				var ops atomic.Int64
				o.FS = faultfs.New(mem, faultfs.Options{Before: func(faultfs.Op) {
					if ops.Add(1) == at {
						cancel(cause)
					}
				}})
				if at == 0 {
					cancel(cause)
				}
				err := c.call(ctx, o, "/new", backup.Bytes())
				if err != nil {
					assert.Error(t, fmt.Sprint("at operation ", at), err, context.Canceled)
				}
				if at == 0 && err == nil {
					t.Error("a call whose context has ended returns nil")
				}
				if after := ops.Load() - at; err != nil && after > 300 {
					t.Errorf("at operation %d: %d operations follow", at, after)
				}
				o.FS = mem
				if err != nil {
					assert.OK(t, c.call(t.Context(), o, "/new", backup.Bytes()))
				}
				if c.name == "EncryptStore" {
					o.Keys = storetest.MasterKey(1)
				}
				db := assert.Must(brock.Open(o))
				if storetest.ShowContents(t, db) != want {
					t.Errorf("at operation %d: other contents", at)
				}
				assert.OK(t, db.Close())
				o.Keys = nil
				cancel(nil)
				ended = at <= ops.Load()
			}
		})
	}
}
