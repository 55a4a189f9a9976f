package resources

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// An owner is the object of a program that has a store, whose options call the owner, and that
// ends nothing but the store.
type owner struct {
	db        *brock.DB
	keyspace  *brock.Keyspace
	txns      []*brock.Txn
	iterators []*brock.Iterator
	items     []*brock.Item
	batch     *brock.Batch
	writer    *brock.Writer
	calls     atomic.Int64
}

func (o *owner) now() time.Time { o.calls.Add(1); return time.Now() }

// Write makes the owner the writer of a Logger.
func (o *owner) Write(b []byte) (int, error) { o.calls.Add(1); return len(b), nil }

// ownersKeys is a KeyProvider with a reference to its owner.
type ownersKeys struct {
	brock.KeyProvider
	*owner
}

// events returns Events with all functions set, each of which refers to o.
func (o *owner) events() (e brock.Events) {
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { o.calls.Add(1); return nil }))
	}
	return e
}

type ownerKey struct{}

// own opens a store that belongs to a new owner, calls leave, closes the store and forgets all.
func own(t *testing.T, options brock.Options, leave func(ctx context.Context, o *owner)) weak.Pointer[owner] {
	o := new(owner)
	ctx := context.WithValue(t.Context(), ownerKey{}, o)
	options.Now, options.Events, options.Logger = o.now, o.events(), slog.New(slog.NewTextHandler(o, nil))
	if options.Keys != nil {
		options.Keys = ownersKeys{options.Keys, o}
	}
	o.db = assert.Must(brock.OpenContext(ctx, options))
	leave(ctx, o)
	assert.OK(t, o.db.Close())
	return weak.Make(o)
}

// readers is how many of leaving only read.
const readers = 6

// leaving are the things that a program may leave behind when it closes a store.
var leaving = []struct {
	name  string
	lends bool // slices, that are valid until the process ends
	leave func(ctx context.Context, o *owner)
}{
	{"nothing", false, func(context.Context, *owner) {}},
	{"an open transaction", false, func(ctx context.Context, o *owner) {
		o.txns = append(o.txns, assert.Must(o.db.Begin(ctx, brock.TxnOptions{})))
		assert.Must(o.txns[0].Has([]byte("a")))
	}},
	{"a slice of an open transaction", true, func(ctx context.Context, o *owner) {
		o.txns = append(o.txns, o.db.NewTransaction(false))
		assert.Must(assert.Must(o.txns[0].Get([]byte("a"))).Value())
	}},
	{"an ended transaction and its item", false, func(ctx context.Context, o *owner) {
		assert.Must(0, o.db.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
			o.txns, o.items = append(o.txns, txn), append(o.items, assert.Must(txn.Get([]byte("a"))))
			return nil
		}))
	}},
	{"an iterator of an open transaction", true, func(ctx context.Context, o *owner) {
		o.txns = append(o.txns, o.db.NewTransaction(false))
		o.iterate()
	}},
	{"an iterator of an ended transaction", false, func(ctx context.Context, o *owner) {
		assert.Must(0, o.db.View(func(txn *brock.Txn) error {
			o.txns = append(o.txns, txn)
			o.iterate()
			return nil
		}))
	}},
	{"an update", true, func(ctx context.Context, o *owner) {
		o.txns = append(o.txns, assert.Must(o.db.Begin(ctx, brock.TxnOptions{Update: true})))
		assert.Must(0, o.txns[0].Set([]byte("b"), []byte("1")))
		o.iterate()
	}},
	{"an update in files", true, func(ctx context.Context, o *owner) {
		o.txns = append(o.txns, assert.Must(o.db.Begin(ctx, brock.TxnOptions{Update: true, MaxMemory: 1 << 10})))
		for _, key := range []string{"b", "c", "d"} {
			assert.Must(0, o.txns[0].Set([]byte(key), storetest.RandomBytes(1, 3000)))
		}
		assert.Must(assert.Must(o.txns[0].Get([]byte("b"))).Value())
		o.iterate()
	}},
	{"a batch and a writer", false, func(ctx context.Context, o *owner) {
		o.batch, o.writer = o.db.NewBatch(), o.db.NewWriter(ctx)
		assert.Must(0, o.batch.Set([]byte("b"), []byte("1")))
		assert.Must(0, o.writer.Set([]byte("b"), []byte("1")))
	}},
	{"a keyspace", false, func(ctx context.Context, o *owner) {
		o.keyspace = assert.Must(o.db.Keyspace("name"))
		assert.Must(0, o.keyspace.Set([]byte("b"), []byte("1")))
		assert.Must(0, o.db.Compact(ctx))
	}},
	{"calls", false, func(ctx context.Context, o *owner) {
		assert.Must(o.db.Refresh(ctx))
		assert.Must(0, o.db.Verify(ctx, func(*brock.CorruptionError) { o.calls.Add(1) }))
		assert.Must(0, o.db.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return txn.Set([]byte("b"), []byte("1")) }))
		assert.Must(o.db.Reclaim(ctx))
		assert.Must(o.db.Backup(ctx, io.Discard, brock.BackupOptions{}))
		if keys := o.db.Options().Keys; keys != nil {
			assert.Must(0, o.db.RotateKey(ctx, brock.RotateOptions{Keys: keys, Rewrite: true}))
		}
	}},
}

// iterate leaves an iterator of the first transaction, whose options refer to the owner.
func (o *owner) iterate() {
	it := o.txns[0].NewIterator(brock.IteratorOptions{
		Filter: func([]byte, byte) bool { o.calls.Add(1); return true },
	})
	it.Rewind()
	o.iterators = append(o.iterators, it)
}

// TestClosedStoresAreCollected: once a store is closed, nothing refers to its program's objects:
// neither the functions in its Options, nor transactions and iterators that were never ended.
func TestClosedStoresAreCollected(t *testing.T) {
	for _, kind := range []string{"plain", "encrypted", "file system", "read-only", "followed"} {
		if kind == "followed" && runtime.GOOS == "windows" {
			continue
		}
		for i, l := range leaving {
			if (kind == "read-only" || kind == "followed") && i >= readers {
				break
			}
			t.Run(kind+"/"+l.name, func(t *testing.T) {
				options := brock.Options{Dir: t.TempDir(), Durability: brock.Buffered}
				if kind == "encrypted" {
					options.Keys = storetest.MasterKey(1)
				}
				if kind == "file system" {
					options.Dir, options.FS = "/store", vfs.NewMem()
				}
				db := assert.Must(brock.Open(options))
				assert.OK(t, db.Set([]byte("a"), storetest.RandomBytes(1, 100<<10)))
				assert.OK(t, db.Flush(t.Context()))
				assert.OK(t, db.Close())
				switch kind {
				case "read-only":
					options.Mode = brock.ReadOnly
				case "followed":
					options.Mode = brock.Follow
				}
				left := own(t, options, l.leave)
				process.CollectGarbage(t, func() bool { return left.Value() == nil })
			})
		}
	}
}

// What a program keeps with a pointer to a closed store is small, even if all was in memory.
func TestClosedStoresAreSmall(t *testing.T) {
	const stores, each = 4, 4 << 20
	for _, inMemory := range []bool{false, true} {
		var kept []*brock.DB
		before := heapBytes()
		for range stores {
			o := brock.Options{MemoryLimit: 8 << 20, Durability: brock.Buffered}
			if !inMemory {
				o.Dir = t.TempDir()
			}
			db := storetest.Open(t, o)
			for i := range each / (1 << 10) {
				assert.OK(t, db.Set(fmt.Appendf(nil, "key %d", i), storetest.RandomBytes(i, 1<<(i%2*10))))
			}
			assert.OK(t, db.Flush(t.Context()))
			assert.OK(t, db.Set([]byte("a"), []byte("1")))
			storetest.ShowContents(t, db)
			assert.OK(t, db.Close())
			kept = append(kept, db)
		}
		if kib := (heapBytes() - before) / stores >> 10; kib > 256 {
			t.Errorf("in memory %v: a closed store of %d KiB keeps %d KiB", inMemory, each>>10, kib)
		}
		runtime.KeepAlive(kept)
	}
}

// heapBytes returns the size of the Go heap without garbage.
func heapBytes() int64 {
	for range 3 { // what pools hold is dropped by the second
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
