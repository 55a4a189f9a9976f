package storetest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/faultfs"
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
	must(t, batch.Commit(t.Context()))
	wantEqual(t, "after Commit", db.Version(), 2)
	wantErr(t, "Commit again", batch.Commit(t.Context()), brock.ErrInvalid)
	wantErr(t, "Set after Commit", batch.Set(b("x"), nil), brock.ErrInvalid)
	batch.Reset()
	wantEqual(t, "Len after Reset", batch.Len(), 0)
	must(t, batch.Commit(t.Context()))
	batch.Reset()
	must(t, batch.Set(b("again"), b("1")))
	must(t, batch.Commit(t.Context()))
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
	wantErr(t, "cancelled", batch.Commit(ctx), context.Canceled)
	wantErr(t, "and spent", batch.Set(b("late"), nil), brock.ErrInvalid)
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
