package watch

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// TestLeftLoops: however a loop ends, at a snapshot, at a commit or within its changes, nothing stays
// open: no transaction, no Watch, no file.
func TestLeftLoops(t *testing.T) {
	dir := t.TempDir() + "/db"
	o := options(nil)
	o.Dir = dir
	db := assert.Must(brock.Open(o))
	storetest.Set(t, db, "first=1")
	rep := newReplica()
	rep.pull(t, db, brock.WatchOptions{}, 1, nil)
	for i := range 20 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i), storetest.RandomBytes(i, 5000)))
	}
	w := &writer{t: t, r: draw.Rand(t), db: db}
	assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 1}, func(txn *brock.Txn) error {
		for range 50 { // it spills
			if err := txn.Set(w.key(), storetest.RandomBytes(1, 5000)); err != nil {
				return err
			}
		}
		return nil
	}))
	ends := map[string]func(cancel func()) bool{
		"left":             func(func()) bool { return true },
		"panic":            func(func()) bool { panic("in the loop") },
		"goroutine ends":   func(func()) bool { runtime.Goexit(); return true },
		"context canceled": func(cancel func()) bool { cancel(); return false },
	}
	for name, end := range ends {
		for _, o := range []brock.WatchOptions{{Snapshot: true}, {After: rep.at}} {
			for at := range 25 {
				var done sync.WaitGroup
				done.Go(func() {
					defer func() { _ = recover() }()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					n := 0
					for c, err := range db.Watch(ctx, o) {
						if err != nil {
							assert.Error(t, name, err, context.Canceled)
							return
						}
						for ch, err := range c.Changes() {
							if err != nil {
								break
							}
							if n++; n%3 == 0 {
								_, _ = ch.Value()
							}
							if n > at && end(cancel) {
								return
							}
						}
						if n++; c.Caught || n > at && end(cancel) {
							return
						}
					}
				})
				done.Wait()
			}
			if m := db.Metrics().Tree; m.Watches != 0 || m.PinnedVersion != 0 {
				t.Fatalf("%s: %d Watches and a transaction of version %d are open", name, m.Watches, m.PinnedVersion)
			}
		}
	}
	assert.OK(t, db.Close())
	if n := process.CountHeld(t, dir); n != 0 {
		t.Errorf("%d files are open", n)
	}
}
