package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// allEvents has every event call fn, and the Logger too.
func allEvents(fn func()) (brock.Events, *slog.Logger) {
	work := func(brock.WorkInfo) { fn() }
	return brock.Events{
		Flush: work, Compaction: work, Collection: work, Spill: work,
		WriteStall:      func(brock.StallInfo) { fn() },
		DiskSpace:       func(brock.DiskSpaceInfo) { fn() },
		Corruption:      func(*brock.CorruptionError) { fn() },
		BackgroundError: func(error) { fn() },
		LongReader:      func(brock.ReaderInfo) { fn() },
	}, slog.New(slog.NewTextHandler(callingWriter(fn), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// callingWriter calls itself when it is written to.
type callingWriter func()

func (w callingWriter) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

// eventfulWork does what events tell of: flushes, a spill, a full disk and its end,
// throttled writers, a compaction, and a Reclaim.
func eventfulWork(t *testing.T, db *brock.DB, mem *vfs.Mem) {
	t.Helper()
	ctx := t.Context()
	for i := range 2000 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i), make([]byte, 400)))
	}
	assert.OK(t, db.UpdateContext(ctx, brock.TxnOptions{MaxMemory: 10000}, func(txn *brock.Txn) error {
		return storetest.Put(txn, "a="+strings.Repeat("x", 20000), "b=2", "c="+strings.Repeat("x", 20000))
	}))
	mem.SetCapacity(1)
	assert.Error(t, "Set on a full disk", db.Set([]byte("a"), make([]byte, 1<<20)), brock.ErrNoSpace)
	mem.SetCapacity(0)
	<-time.After(time.Second) // the store polls for disk space
	assert.OK(t, db.Set([]byte("a"), []byte("1")))
	assert.OK(t, db.Flush(ctx))
	assert.OK(t, db.Compact(ctx))
	assert.Must(db.Reclaim(ctx))
	assert.OK(t, db.Sync(ctx))
}

// Nothing in the store waits for events or the Logger, whatever happens; Close waits
// for a second.
func TestEventsHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		mem := vfs.NewMem()
		o := brock.Options{Dir: storetest.Dir, FS: mem, Tuning: brock.Tuning{MemtableSize: 64 << 10}}
		o.Events, o.Logger = allEvents(func() { <-hang })
		db := assert.Must(brock.Open(o))
		eventfulWork(t, db, mem)
		began := time.Now()
		assert.OK(t, db.Close())
		if took := time.Since(began); took != time.Second {
			t.Errorf("Close took %v", took)
		}
		if n := db.Metrics().EventsDropped; n < 10 {
			t.Errorf("%d events were dropped", n)
		}
		close(hang)
	})
}

// A function of Events may call the store, whatever it tells of, and close it.
func TestEventsMayCallTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		o := brock.Options{Dir: storetest.Dir, FS: mem, Tuning: brock.Tuning{MemtableSize: 64 << 10}}
		var db *brock.DB
		calls, closing, told := 0, false, make(chan error, 1)
		o.Events, o.Logger = allEvents(func() {
			calls++
			if closing {
				closing = false
				told <- db.Close()
				return
			}
			_ = db.Set([]byte("event"), []byte("1")) // refused while the disk is full
			_ = db.Sync(t.Context())
			if calls%16 == 0 {
				_, _ = db.Reclaim(t.Context())
			}
		})
		o.Logger = nil // Open itself writes to it
		db = assert.Must(brock.Open(o))
		eventfulWork(t, db, mem)
		synctest.Wait()
		if calls < 10 {
			t.Errorf("%d events", calls)
		}
		// Before Close: called by an event, it drops those that wait behind that one.
		if m := db.Metrics(); m.EventsDropped != 0 {
			t.Errorf("%d events were dropped", m.EventsDropped)
		}
		closing = true
		assert.OK(t, db.Set([]byte("a"), []byte("2")))
		_ = db.Flush(t.Context()) // the store may be closed before it returns
		assert.OK(t, <-told)
		assert.OK(t, db.Close())
		assert.Error(t, "Set", db.Set([]byte("a"), []byte("3")), brock.ErrClosed)
	})
}

// TestWriteStall writes faster than memtables can be flushed: no run is made before a
// writer was throttled. Both events, begin and end, must come.
func TestWriteStall(t *testing.T) {
	var (
		mu     sync.Mutex
		stalls []brock.StallInfo
		log    bytes.Buffer
	)
	throttled := make(chan struct{})
	waits := func(op faultfs.Op) {
		if op.Kind == faultfs.Create && strings.HasSuffix(op.Path, ".run") {
			<-throttled
		}
	}
	db := storetest.Open(t, brock.Options{
		Dir: storetest.Dir, FS: faultfs.New(vfs.NewMem(), faultfs.Options{Before: waits}),
		Durability: brock.Buffered,
		Tuning:     brock.Tuning{MemtableSize: 64 << 10},
		Logger:     slog.New(slog.NewTextHandler(&log, nil)),
		Events: brock.Events{
			WriteStall: func(s brock.StallInfo) {
				mu.Lock()
				defer mu.Unlock()
				if s.Begin && len(stalls) == 0 {
					close(throttled)
				}
				stalls = append(stalls, s)
			},
		},
	})
	for i := 0; ; i++ {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i), make([]byte, 400)))
		select {
		case <-throttled:
		default:
			continue
		}
		break
	}
	assert.OK(t, db.Flush(context.Background()))
	assert.OK(t, db.Close())
	if len(stalls) == 0 || len(stalls)%2 != 0 {
		t.Fatalf("calls: %+v", stalls)
	}
	for i, s := range stalls {
		if s.Begin != (i%2 == 0) || s.Reason == "" || s.Begin != (s.Took == 0) {
			t.Errorf("call %d: %+v", i, s)
		}
	}
	for _, text := range []string{"level=WARN msg=\"writers are throttled\"", "no longer throttled"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log lacks %q:\n%s", text, log.String())
		}
	}
}

// WorkInfo of a compaction counts the runs and entries that it has read.
func TestCompactionTellsWhatItRead(t *testing.T) {
	var compactions []brock.WorkInfo // read after Close
	o := brock.Options{Dir: storetest.Dir, FS: vfs.NewMem()}
	o.Events.Compaction = func(w brock.WorkInfo) { compactions = append(compactions, w) }
	db := assert.Must(brock.Open(o))
	for i := range 3 {
		assert.OK(t, db.Set([]byte("key"), fmt.Append(nil, i)))
		assert.OK(t, db.Flush(t.Context()))
	}
	assert.OK(t, db.Compact(t.Context()))
	assert.OK(t, db.Close())
	if len(compactions) != 1 || compactions[0].Runs != 3 || compactions[0].EntriesIn != 3 || compactions[0].Err != nil {
		t.Errorf("three runs of one entry each: %+v", compactions)
	}
}
