package api

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// waiting are the calls that take a context and may wait for work of others.
var waiting = []struct {
	name string
	call func(ctx context.Context, db *brock.DB, dir string) error
}{
	{"Compact", func(ctx context.Context, db *brock.DB, _ string) error { return db.Compact(ctx) }},
	{"Reclaim", func(ctx context.Context, db *brock.DB, _ string) error { _, err := db.Reclaim(ctx); return err }},
	{"Flush", func(ctx context.Context, db *brock.DB, _ string) error { return db.Flush(ctx) }},
	{"Sync", func(ctx context.Context, db *brock.DB, _ string) error { return db.Sync(ctx) }},
	{"Checkpoint", func(ctx context.Context, db *brock.DB, dir string) error { return db.Checkpoint(ctx, dir) }},
	{"Backup", func(ctx context.Context, db *brock.DB, _ string) error {
		_, err := db.Backup(ctx, io.Discard, brock.BackupOptions{})
		return err
	}},
	{"RotateKey", func(ctx context.Context, db *brock.DB, _ string) error {
		return db.RotateKey(ctx, brock.RotateOptions{})
	}},
	{"RotateKey with Rewrite", func(ctx context.Context, db *brock.DB, _ string) error {
		return db.RotateKey(ctx, brock.RotateOptions{Rewrite: true})
	}},
	{"Drop", func(ctx context.Context, db *brock.DB, _ string) error {
		ks, err := db.Keyspace("other")
		return errors.Join(err, ks.Drop(ctx))
	}},
	{"DropAll", func(ctx context.Context, db *brock.DB, _ string) error { return db.DropAll(ctx) }},
	{"Batch.Commit", func(ctx context.Context, db *brock.DB, _ string) error {
		batch := db.NewBatch()
		return errors.Join(batch.Set([]byte("batch"), []byte("1")), assert.ErrorOf(batch.Commit(ctx, 0)))
	}},
	{"UpdateContext", func(ctx context.Context, db *brock.DB, _ string) error {
		return db.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return txn.Set([]byte("update"), []byte("1")) })
	}},
}

// TestCallsEndWithTheirContext: a call whose context ends returns, whatever work of others it
// waits for, and has changed nothing. Afterwards all goes on.
func TestCallsEndWithTheirContext(t *testing.T) {
	for _, work := range []struct {
		name  string
		holds func(op faultfs.Op) bool
		begin func(t *testing.T, db *brock.DB) error
		waits string // names of the calls that must wait for it; others may return nil
	}{
		{"compaction", writesOf(".run"), func(t *testing.T, db *brock.DB) error { return db.Compact(t.Context()) }, "Compact Reclaim"},
		{"flush", writesOf(".run"), func(t *testing.T, db *brock.DB) error {
			return errors.Join(db.Set([]byte("c"), []byte("3")), db.Flush(t.Context()))
		}, "Compact Reclaim Flush Checkpoint Backup RotateKey RotateKey with Rewrite"},
		{"commit", func(op faultfs.Op) bool { return op.Kind&faultfs.Syncs != 0 && filepath.Ext(op.Path) == ".log" },
			func(t *testing.T, db *brock.DB) error {
				return errors.Join(db.Set([]byte("c"), []byte("3")), db.Sync(t.Context()))
			}, "Compact Reclaim Flush Sync Checkpoint Backup RotateKey with Rewrite Drop DropAll Batch.Commit UpdateContext"},
	} {
		for _, c := range waiting {
			t.Run(work.name+"/"+c.name, func(t *testing.T) {
				db, g := storetest.OpenGated(t)
				met, open := g.Shut(work.holds)
				defer open()
				held, called := make(chan error, 1), make(chan error, 1)
				go func() { held <- work.begin(t, db) }()
				deadline.Receive(t, "the work begins", met)
				ctx, cancel := context.WithCancel(t.Context())
				dir := "/new"
				go func() { called <- c.call(ctx, db, dir) }()
				<-time.After(2 * time.Millisecond) // so that it waits, most times
				cancel()
				err := deadline.Receive(t, "its context has ended", called)
				if strings.Contains(work.waits, c.name) || err != nil {
					assert.Error(t, c.name, err, context.Canceled)
				}
				open()
				assert.OK(t, <-held)
				assert.OK(t, c.call(t.Context(), db, "/again"))
				assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
				assert.OK(t, db.Close())
			})
		}
	}
}

func writesOf(ext string) func(op faultfs.Op) bool {
	return func(op faultfs.Op) bool { return op.Kind == faultfs.Write && filepath.Ext(op.Path) == ext }
}

// TestCloseWaitsForCalls: a call that writes files ends when the store is closed, and Close
// waits for it.
func TestCloseWaitsForCalls(t *testing.T) {
	for _, c := range waiting[:8] {
		if c.name == "Sync" || c.name == "Checkpoint" || c.name == "Backup" { // a commit, and copies
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			db, g := storetest.OpenGated(t)
			storetest.Set(t, db, "c", "3")
			returned, closed := make(chan error, 1), make(chan error, 1)
			met, open := g.Shut(func(op faultfs.Op) bool { return op.Kind&(faultfs.Write|faultfs.Create) != 0 })
			defer open()
			go func() { returned <- c.call(t.Context(), db, "/new") }()
			deadline.Receive(t, "the call begins", met)
			go func() { closed <- db.Close() }()
			select {
			case err := <-closed:
				t.Errorf("Close has not waited: %v", err)
			case <-time.After(5 * time.Millisecond):
			}
			open()
			assert.OK(t, <-closed)
			g.Shut(func(op faultfs.Op) bool {
				t.Errorf("after Close: %v", op)
				return false
			})
			if err := deadline.Receive(t, "the call ends after Close", returned); err != nil {
				assert.Error(t, c.name, err, brock.ErrClosed)
			}
		})
	}
}
