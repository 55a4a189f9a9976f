package txn

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// Each of several calls of Writer.Close returns once all is committed, and durable.
func TestWriterCloseAtOnce(t *testing.T) {
	var held atomic.Bool
	syncs, free := make(chan struct{}, 1), make(chan struct{})
	mem := vfs.NewMem()
	fs := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		if held.Load() && op.Kind&faultfs.Syncs != 0 && strings.HasSuffix(op.Path, ".log") {
			select {
			case syncs <- struct{}{}:
			default:
			}
			<-free
		}
	}})
	o := brock.Options{Dir: "/store", FS: fs}
	db := storetest.Open(t, o)
	w := db.NewWriter(t.Context())
	assert.OK(t, w.Set([]byte("a"), []byte("1")))
	held.Store(true)
	results := make(chan error, 2)
	go func() { results <- w.Close() }()
	<-syncs
	go func() { results <- w.Close() }()
	select {
	case err := <-results:
		t.Errorf("a Close returned %v before the sync", err)
	case <-time.After(50 * time.Millisecond): // both wait
	}
	held.Store(false)
	close(free)
	for range 2 {
		if err := <-results; err != nil && !t.Failed() {
			t.Error(err)
		}
		if t.Failed() {
			return
		}
	}
	assert.OK(t, w.Close())
}

// After a Flush, Version is that of the last write; other commits in between don't matter, and
// neither does a group that is refused.
func TestWriterVersion(t *testing.T) {
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}}})
	w := db.NewWriter(t.Context())
	assert.Equal(t, "before the first write", w.Version(), 0)
	assert.OK(t, w.Flush())
	assert.Equal(t, "nothing to flush", w.Version(), 0)
	last := uint64(0)
	for i := range 5 {
		storetest.Set(t, db, "other=1")
		for n := range 300 * i { // up to three groups
			assert.OK(t, w.Set(fmt.Appendf(nil, "k%d", n), make([]byte, 8000)))
		}
		assert.OK(t, w.Set([]byte("last"), []byte(fmt.Sprint(i))))
		assert.OK(t, w.Flush())
		version := w.Version()
		if version <= last {
			t.Errorf("version %d after %d", version, last)
		}
		last = version
		storetest.Set(t, db, "other=2")
		assert.OK(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: version}, func(txn *brock.Txn) error {
			item := assert.Must(txn.Get([]byte("last")))
			assert.Equal(t, "last write", string(assert.Must(item.Value())), fmt.Sprint(i))
			assert.Equal(t, "its version", item.Version(), version)
			return nil
		}))
	}
	assert.OK(t, w.Close())
	assert.Equal(t, "after Close", w.Version(), last)
	w = db.NewWriter(t.Context())
	assert.OK(t, w.Set([]byte("lost"), nil))
	assert.OK(t, db.Close())
	assert.Error(t, "closed", w.Flush(), brock.ErrClosed)
	assert.Equal(t, "nothing was committed", w.Version(), 0)
	assert.Equal(t, "zero Writer", new(brock.Writer).Version(), 0)
}

func TestWriter(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	w := db.NewWriter(t.Context())
	value := strings.Repeat("v", 10_000)
	for i := range 1000 { // ten groups
		assert.OK(t, w.Set([]byte(fmt.Sprintf("k%04d", i%500)), []byte(fmt.Sprint(i, value))))
	}
	assert.OK(t, w.Delete([]byte("k0000")))
	assert.OK(t, w.SetEntry(brock.NewEntry([]byte("e"), nil).WithMeta(1)))
	assert.Error(t, "long key", w.Set(make([]byte, brock.MaxKeySize+1), nil), brock.ErrKeyTooLarge)
	assert.OK(t, w.Flush())
	n := 0
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		for it, err := range txn.Prefix([]byte("k")) {
			assert.OK(t, err)
			n++
			i, _ := strconv.Atoi(string(it.Key()[1:]))
			assert.Equal(t, "the later write", string(assert.Must(it.Value())), fmt.Sprint(i+500, value))
		}
		return nil
	}))
	assert.Equal(t, "keys", n, 499)
	if groups := db.Metrics().Commits; groups < 5 || groups > 20 {
		t.Errorf("%d groups", groups)
	}
	assert.OK(t, w.Close())
	assert.OK(t, w.Close())
	assert.Error(t, "Set after Close", w.Set([]byte("a"), nil), brock.ErrInvalid)
	assert.Error(t, "Flush after Close", w.Flush(), brock.ErrInvalid)
}

func TestWriterOnManyGoroutines(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	w := db.NewWriter(t.Context())
	value := make([]byte, 100_000)
	var work sync.WaitGroup
	for g := range 4 {
		work.Go(func() {
			for i := range 50 {
				if err := w.Set([]byte(fmt.Sprintf("%d/%d", g, i)), value); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	assert.OK(t, w.Close())
	assert.Equal(t, "entries", db.Metrics().Entries, 200)
}

// A Writer keeps its first error, also when the disk works again.
func TestWriterErrorsStay(t *testing.T) {
	faults := faultfs.New(vfs.NewMem(), faultfs.Options{})
	db := storetest.Open(t, brock.Options{Dir: "/", FS: faults})
	w := db.NewWriter(t.Context())
	assert.OK(t, w.Set([]byte("a"), nil))
	faults.Inject(faultfs.Fault{Kinds: faultfs.Write, Times: faultfs.Always, Err: faultfs.ErrNoSpace})
	assert.Error(t, "Flush", w.Flush(), brock.ErrNoSpace)
	faults.Heal()
	assert.Error(t, "Set", w.Set([]byte("a"), nil), brock.ErrNoSpace)
	assert.Error(t, "Flush again", w.Flush(), brock.ErrNoSpace)
	assert.Error(t, "Close", w.Close(), brock.ErrNoSpace)
	assert.Error(t, "Close again", w.Close(), brock.ErrNoSpace)
}

// A Writer refuses writes once its context has ended, and its Close reports the
// write that was lost.
func TestWriterIsCancelled(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	w := db.NewWriter(ctx)
	assert.OK(t, w.Set([]byte("a"), nil))
	cancel()
	assert.Error(t, "cancelled", w.Set([]byte("b"), nil), context.Canceled)
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
		db := storetest.Open(t, brock.Options{Dir: storetest.Dir, FS: faultfs.New(vfs.NewMem(), faultfs.Options{Before: gate}), Durability: brock.Buffered})
		w := db.NewWriter(t.Context())
		var stop, flushed atomic.Bool
		for g := range 4 {
			go func() {
				for i := 0; !stop.Load(); i++ {
					assert.OK(t, w.Set(fmt.Appendf(nil, "%d/%d", g, i%100), make([]byte, 50_000)))
				}
			}()
		}
		synctest.Wait() // now one group is being committed, one is full, and one as well waits for that
		go func() {
			assert.OK(t, w.Flush())
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
		assert.OK(t, w.Close())
	})
}

// TestWriterCloseWaitsAfterAnError: a Flush has failed, as the disk had no room for its sync. Close
// waits all the same for the group that is being committed meanwhile: once it has returned, the
// Writer writes nothing more.
func TestWriterCloseWaitsAfterAnError(t *testing.T) {
	var armed atomic.Bool
	syncing, synced := make(chan struct{}), make(chan struct{})
	writing, written := make(chan struct{}), make(chan struct{})
	faults := faultfs.New(vfs.NewMem(), faultfs.Options{Before: func(op faultfs.Op) {
		switch {
		case !armed.Load() || op.Kind != faultfs.Write:
		case strings.Contains(op.Path, "MANIFEST"):
			close(syncing)
			<-synced
		case op.Len > 500_000: // the second group
			armed.Store(false)
			close(writing)
			<-written
		}
	}})
	db := storetest.Open(t, brock.Options{Dir: storetest.Dir, FS: faults})
	// The journal has a segment, which the manifest does not know before the first sync.
	batch := db.NewBatch()
	assert.OK(t, batch.Set([]byte("a"), []byte("0")))
	assert.Must(batch.Commit(t.Context(), brock.Buffered))
	w := db.NewWriter(t.Context())
	assert.OK(t, w.Set([]byte("a"), []byte("1")))
	armed.Store(true)
	faults.Inject(faultfs.Fault{Kinds: faultfs.Write, Path: "MANIFEST", Err: faultfs.ErrNoSpace, Short: true})
	flushed, closed := make(chan error, 1), make(chan error, 1)
	go func() { flushed <- w.Flush() }()
	deadline.Receive(t, "the first group is being synced", syncing)
	for i := range 21 { // a group, and nothing behind it
		assert.OK(t, w.Set(fmt.Append(nil, i), make([]byte, 50_000)))
	}
	close(synced)
	assert.Error(t, "Flush", deadline.Receive(t, "the sync fails", flushed), brock.ErrNoSpace)
	deadline.Receive(t, "the second group is being written", writing)
	go func() { closed <- w.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close has returned %v before the second group was written", err)
	case <-time.After(50 * time.Millisecond): // it waits
	}
	close(written)
	if !t.Failed() {
		assert.Error(t, "Close", deadline.Receive(t, "the group is written", closed), brock.ErrNoSpace)
	}
}
