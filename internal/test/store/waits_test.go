package store

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/vfs"
)

// A gate holds up some operations of a file system while it is shut.
type gate struct {
	mu    sync.Mutex // guards:
	holds func(faultfs.Op) bool
	open  chan struct{} // nil: nothing is held up
	met   chan struct{} // closed when an operation is
}

// shut holds up what holds says, until the returned function is called. The channel is closed
// when something is held up.
func (g *gate) shut(holds func(faultfs.Op) bool) (met <-chan struct{}, open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds, g.open, g.met = holds, make(chan struct{}), make(chan struct{})
	return g.met, sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		close(g.open)
		g.open = nil
	})
}

func (g *gate) before(op faultfs.Op) {
	g.mu.Lock()
	open := g.open
	if open == nil || !g.holds(op) {
		g.mu.Unlock()
		return
	}
	select {
	case <-g.met:
	default:
		close(g.met)
	}
	g.mu.Unlock()
	<-open
}

// openGated opens an encrypted store with some entries in runs and in memory.
func openGated(t *testing.T) (*brock.DB, *gate) {
	g := new(gate)
	o := keyedOptions(vfs.NewMem(), "/store")
	o.FS = faultfs.New(o.FS, faultfs.Options{Before: g.before})
	o.Durability = brock.Buffered
	db := openTest(t, o)
	for _, round := range []string{"1", "2"} {
		for _, key := range []string{"a", "b", "c"} {
			set(t, db, key, strings.Repeat(round, 2000))
		}
		must(t, db.Flush(t.Context()))
	}
	must(t, keyspace(t, db, "other").Set(b("x"), b("y")))
	must(t, db.Flush(t.Context()))
	return db, g
}

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
		return errors.Join(batch.Set(b("batch"), b("1")), second(batch.Commit(ctx, 0)))
	}},
	{"UpdateContext", func(ctx context.Context, db *brock.DB, _ string) error {
		return db.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return txn.Set(b("update"), b("1")) })
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
			return errors.Join(db.Set(b("c"), b("3")), db.Flush(t.Context()))
		}, "Compact Reclaim Flush Checkpoint Backup RotateKey RotateKey with Rewrite"},
		{"commit", func(op faultfs.Op) bool { return op.Kind&faultfs.Syncs != 0 && filepath.Ext(op.Path) == ".log" },
			func(t *testing.T, db *brock.DB) error {
				return errors.Join(db.Set(b("c"), b("3")), db.Sync(t.Context()))
			}, "Compact Reclaim Flush Sync Checkpoint Backup RotateKey with Rewrite Drop DropAll Batch.Commit UpdateContext"},
	} {
		for _, c := range waiting {
			t.Run(work.name+"/"+c.name, func(t *testing.T) {
				db, g := openGated(t)
				met, open := g.shut(work.holds)
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
					wantErr(t, c.name, err, context.Canceled)
				}
				open()
				must(t, <-held)
				must(t, c.call(t.Context(), db, "/again"))
				must(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
				must(t, db.Close())
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
			db, g := openGated(t)
			set(t, db, "c", "3")
			returned, closed := make(chan error, 1), make(chan error, 1)
			met, open := g.shut(func(op faultfs.Op) bool { return op.Kind&(faultfs.Write|faultfs.Create) != 0 })
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
			must(t, <-closed)
			g.shut(func(op faultfs.Op) bool {
				t.Errorf("after Close: %v", op)
				return false
			})
			if err := deadline.Receive(t, "the call ends after Close", returned); err != nil {
				wantErr(t, c.name, err, brock.ErrClosed)
			}
		})
	}
}
