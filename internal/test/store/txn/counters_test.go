package txn

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestAddIsExact: 64 workers add to one counter and to others, by Add, Apply and beside a plain Set, while
// the store flushes and compacts all the time, so that bases lie in memtables, runs and groups. Each sum
// that is returned comes once, and the history of the counter has the sums 1, 2, 3, ... in the order of
// versions. A lost or repeated addition, or a result out of order, breaks that.
func TestAddIsExact(t *testing.T) {
	const workers, calls = 64, 60
	db := storetest.Open(t, brock.Options{Dir: t.TempDir(), Keys: storetest.DrawKeys(t), Tuning: brock.Tuning{MemtableSize: 64 << 10}})
	ks := storetest.OpenKeyspace(t, db, "counters", brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}})
	var work, background sync.WaitGroup
	var seen sync.Map
	done := make(chan struct{})
	background.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := db.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			if i%8 == 7 {
				if err := db.Compact(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for w := range workers {
		work.Go(func() {
			for i := range calls {
				if w%2 == 0 {
					n, err := ks.Add(t.Context(), []byte("n"), 1)
					if err != nil {
						t.Error(err)
					}
					if _, twice := seen.LoadOrStore(n, true); twice {
						t.Errorf("%d was returned twice", n)
					}
					continue
				}
				err := db.UpdateContext(t.Context(), brock.TxnOptions{Isolation: brock.Isolation(i % 3), Retries: -1}, func(txn *brock.Txn) error {
					_ = txn.Set(fmt.Appendf(nil, "own %d", w), make([]byte, 100))
					if err := txn.Apply(brock.OpAdd, fmt.Appendf(nil, "other %d", i%4), number(int64(w))); err != nil {
						return err
					}
					return txn.In(ks).Apply(brock.OpAdd, []byte("n"), number(1))
				})
				if err != nil { // no conflict either
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	close(done)
	background.Wait()
	want := int64(workers * calls)
	assert.OK(t, ks.View(func(txn *brock.Txn) error {
		for it, err := range txn.Items(brock.IteratorOptions{AllVersions: true}) {
			assert.OK(t, err)
			if got := int64(binary.LittleEndian.Uint64(assert.Must(it.Value()))); got != want {
				t.Fatalf("version %d has %d, want %d", it.Version(), got, want)
			}
			want--
		}
		return nil
	}))
	assert.Equal(t, "sums before the first", want, 0)
	others := int64(0)
	for i := range 4 {
		others += int64(binary.LittleEndian.Uint64(assert.Must(db.Get(fmt.Appendf(nil, "other %d", i)))))
	}
	// 32 odd workers: 32*32 is the sum of their numbers.
	assert.Equal(t, "sum of the others", others, int64(32*32*calls))
}

// TestAddOverPowerLoss: what was acknowledged counts after a crash at any moment, and nothing that was
// not begun.
func TestAddOverPowerLoss(t *testing.T) {
	mem := vfs.NewMem()
	o := brock.Options{Dir: "db", FS: mem, Keys: storetest.DrawKeys(t), Tuning: brock.Tuning{MemtableSize: 64 << 10}}
	db := assert.Must(brock.Open(o))
	defer db.Close()
	var begun, acknowledged atomic.Int64
	var work sync.WaitGroup
	var stop atomic.Bool
	for w := range 64 {
		work.Go(func() {
			for !stop.Load() {
				begun.Add(1)
				if _, err := db.Default().Add(t.Context(), []byte("n"), 1); err != nil {
					t.Error(err)
				}
				acknowledged.Add(1)
				_ = db.Set(fmt.Appendf(nil, "beside %d", w), make([]byte, 50))
			}
		})
	}
	seed := draw.Seed(t)
	for i := range 30 {
		for range 1 + i%5 { // the others have gone on meanwhile
			begun.Add(1)
			assert.Must(db.Default().Add(t.Context(), []byte("n"), 1))
			acknowledged.Add(1)
		}
		if i%10 == 5 {
			assert.OK(t, db.Flush(t.Context()))
		}
		least := acknowledged.Load()
		mode := []vfs.CrashMode{vfs.Lost, vfs.All, vfs.Prefix, vfs.Chaos}[i%4]
		clone := mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: seed + uint64(i)})
		most := begun.Load()
		o.FS = clone
		after := assert.Must(brock.Open(o))
		got := assert.Must(after.Default().Add(t.Context(), []byte("n"), 1)) - 1
		if got < least || got > most {
			t.Errorf("crash %d (%v): counted %d, acknowledged %d, begun %d", i, mode, got, least, most)
		}
		assert.OK(t, after.Close())
	}
	stop.Store(true)
	work.Wait()
	assert.Equal(t, "at the end", assert.Must(db.Default().Add(t.Context(), []byte("n"), 0)), acknowledged.Load())
}

// TestContendedAppends: many workers append to one value that is separated and compressed, so that the
// leader can't have what a group before has written. All must end, with each piece once, and those of
// one worker in order.
func TestContendedAppends(t *testing.T) {
	const workers, calls = 32, 40
	for _, c := range []brock.Compression{brock.NoCompression, brock.Zstd} {
		db := storetest.Open(t, brock.Options{Dir: t.TempDir(), Keys: storetest.DrawKeys(t), KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 64, Compression: c, CompressAbove: 64}})
		var work sync.WaitGroup
		for w := range workers {
			work.Go(func() {
				for i := range calls {
					err := db.Update(func(txn *brock.Txn) error {
						return txn.Apply(brock.OpAppend, []byte("log"), fmt.Appendf(nil, "%02d:%02d              ", w, i))
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		work.Wait()
		parts := strings.Fields(string(assert.Must(db.Get([]byte("log")))))
		slices.SortStableFunc(parts, func(a, b string) int { return strings.Compare(a[:2], b[:2]) })
		assert.Equal(t, "in order by worker", slices.IsSorted(parts), true)
		assert.Equal(t, "pieces", len(slices.Compact(parts)), workers*calls)
	}
}

// TestVersionedSets: keys of SetVersioned are in the order of commits and calls, CommitVersion names
// them, and many writers at once make none twice.
func TestVersionedSets(t *testing.T) {
	o := brock.Options{Dir: "db", FS: vfs.NewMem(), Keys: storetest.DrawKeys(t), KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 50}}
	db := assert.Must(brock.Open(o))
	ks := storetest.OpenKeyspace(t, db, "queue")
	var mu sync.Mutex
	want := map[string]string{}
	note := func(version uint64, i int, value string) {
		mu.Lock()
		defer mu.Unlock()
		key := binary.BigEndian.AppendUint64([]byte("q/"), version)
		want[string(binary.BigEndian.AppendUint32(key, uint32(i)))] = value
	}
	var work sync.WaitGroup
	for w := range 16 {
		work.Go(func() {
			for i := range 20 {
				values := []string{fmt.Sprint(w, " ", i), strings.Repeat(fmt.Sprint(w), 60)}
				if w%2 == 0 {
					b := db.NewBatch()
					_ = b.Set([]byte("other"), nil)
					for _, v := range values {
						assert.OK(t, b.In(ks).SetVersioned([]byte("q/"), []byte(v)))
					}
					assert.Equal(t, "Len", b.Len(), 3)
					v := assert.Must(b.Commit(t.Context(), brock.Buffered))
					note(v, 0, values[0])
					note(v, 1, values[1])
					continue
				}
				txn := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true}))
				for _, v := range values {
					assert.OK(t, txn.In(ks).SetVersioned([]byte("q/"), []byte(v)))
				}
				assert.Equal(t, "own view", storetest.Get(txn.In(ks), "q/\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), "-")
				assert.OK(t, txn.Commit())
				note(txn.CommitVersion(), 0, values[0])
				note(txn.CommitVersion(), 1, values[1])
			}
		})
	}
	work.Wait()
	check := func() {
		n, before := 0, ""
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			for it, err := range txn.In(ks).All() {
				assert.OK(t, err)
				key := string(it.Key())
				assert.Equal(t, "value", string(assert.Must(it.Value())), want[key])
				if key <= before || it.Version() != binary.BigEndian.Uint64(it.Key()[2:]) {
					t.Errorf("%q of version %d behind %q", key, it.Version(), before)
				}
				n, before = n+1, key
			}
			return nil
		}))
		assert.Equal(t, "keys", n, len(want))
	}
	check()
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, db.Close())
	db = assert.Must(brock.Open(o))
	defer db.Close()
	ks = storetest.OpenKeyspace(t, db, "queue")
	check()
}

// TestOperationsAndConflicts: operations conflict with those who have read the key, and with nobody else.
func TestOperationsAndConflicts(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "n="+string(number(1)))
	begin := func(i brock.Isolation) *brock.Txn {
		return assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: i}))
	}
	add := func(txn *brock.Txn) { assert.OK(t, txn.Apply(brock.OpAdd, []byte("n"), number(1))) }
	for _, c := range []struct {
		what     string
		isolated brock.Isolation
		do       func(txn *brock.Txn)
		conflict bool
	}{
		{"blind, Serializable", brock.Serializable, add, false},
		{"blind, SnapshotIsolation", brock.SnapshotIsolation, add, false},
		{"read before", brock.Serializable, func(txn *brock.Txn) { storetest.Get(txn, "n"); add(txn) }, true},
		{"read after", brock.Serializable, func(txn *brock.Txn) { add(txn); storetest.Get(txn, "n") }, true},
		{"iterated after", brock.Serializable, func(txn *brock.Txn) { add(txn); storetest.ListKeys(txn) }, true},
		{"iterated elsewhere", brock.Serializable, func(txn *brock.Txn) {
			add(txn)
			for range txn.Items(brock.IteratorOptions{Prefix: []byte("elsewhere")}) {
			}
		}, false},
		{"read after, SnapshotIsolation", brock.SnapshotIsolation, func(txn *brock.Txn) { add(txn); storetest.Get(txn, "n") }, true},
		{"set, then applied", brock.SnapshotIsolation, func(txn *brock.Txn) { assert.OK(t, storetest.Put(txn, "n="+string(number(5)))); add(txn) }, true},
		{"set, then applied, Serializable", brock.Serializable, func(txn *brock.Txn) { assert.OK(t, storetest.Put(txn, "n="+string(number(5)))); add(txn) }, false},
		{"scan of versioned keys", brock.Serializable, func(txn *brock.Txn) {
			assert.OK(t, txn.Set([]byte("x"), nil))
			for range txn.Items(brock.IteratorOptions{Prefix: []byte("q")}) {
			}
		}, true},
		{"read elsewhere", brock.Serializable, func(txn *brock.Txn) { storetest.Get(txn, "other"); add(txn) }, false},
	} {
		one, two := begin(c.isolated), begin(brock.Serializable)
		c.do(one)
		add(two)
		assert.OK(t, two.SetVersioned([]byte("q"), nil))
		assert.OK(t, two.Commit())
		if err := one.Commit(); c.conflict {
			assert.Error(t, c.what, err, brock.ErrConflict)
		} else if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestMisusedOperations: each misuse has its error, and leaves the transaction as it was.
func TestMisusedOperations(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	ks := storetest.OpenKeyspace(t, db, "dropped")
	err := db.Update(func(txn *brock.Txn) error {
		for _, op := range []brock.Op{0, 8, 255} {
			assert.Error(t, op.String(), txn.Apply(op, []byte("k"), number(1)), brock.ErrInvalid)
		}
		for _, op := range []brock.Op{brock.OpAdd, brock.OpMin, brock.OpMax} {
			assert.Error(t, op.String(), txn.Apply(op, []byte("k"), []byte("seven b")), brock.ErrInvalid)
			assert.Error(t, op.String(), txn.Apply(op, []byte("k"), nil), brock.ErrInvalid)
		}
		long := make([]byte, brock.MaxOperand+1)
		for op := brock.OpOr; op <= brock.OpClearIf; op++ {
			assert.Error(t, op.String(), txn.Apply(op, []byte("k"), long), brock.ErrInvalid)
		}
		assert.OK(t, txn.Apply(brock.OpAppend, []byte("k"), long[1:]))
		assert.Error(t, "together too long", txn.Apply(brock.OpAppend, []byte("k"), []byte("x")), brock.ErrInvalid)
		assert.Error(t, "long prefix", txn.SetVersioned(make([]byte, brock.MaxKeySize-brock.VersionedSuffix+1), nil), brock.ErrKeyTooLarge)
		assert.OK(t, txn.SetVersioned(nil, nil))
		return nil
	})
	assert.OK(t, err)
	assert.Equal(t, "the value", len(assert.Must(db.Get([]byte("k")))), brock.MaxOperand)
	assert.Equal(t, "Add", brock.OpAdd.String()+" "+brock.OpClearIf.String(), "Add ClearIf")
	assert.Error(t, "Add to no number", assert.ErrorOf(db.Default().Add(t.Context(), []byte("k"), 1)), brock.ErrInvalid)
	//lint:ignore SA1012 this is the misuse
	assert.Error(t, "Add without a context", assert.ErrorOf(db.Default().Add(nil, []byte("k"), 1)), brock.ErrInvalid) //nolint:staticcheck
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Error(t, "cancelled Add", assert.ErrorOf(db.Default().Add(ctx, []byte("n"), 1)), context.Canceled)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Error(t, "Apply in View", txn.Apply(brock.OpAdd, []byte("k"), number(1)), brock.ErrReadOnly)
		assert.Error(t, "SetVersioned in View", txn.SetVersioned(nil, nil), brock.ErrReadOnly)
		return nil
	}))
	txn := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true}))
	assert.OK(t, txn.In(ks).Apply(brock.OpAdd, []byte("n"), number(1)))
	assert.OK(t, ks.Drop(t.Context()))
	assert.Error(t, "Apply to a dropped keyspace", txn.Commit(), brock.ErrKeyspaceNotFound)
	assert.Error(t, "Add to a dropped keyspace", assert.ErrorOf(ks.Add(t.Context(), []byte("n"), 1)), brock.ErrKeyspaceNotFound)
	assert.Error(t, "Apply behind the end", txn.Apply(brock.OpAdd, []byte("n"), number(1)), brock.ErrTxnDone)
	// A wrong value refuses a transaction whole, at its commit or at its read.
	storetest.Set(t, db, "s=text")
	txn = assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true}))
	assert.OK(t, txn.Apply(brock.OpAdd, []byte("s"), number(1)))
	assert.Error(t, "own read", assert.ErrorOf(txn.Get([]byte("s"))), brock.ErrInvalid)
	it := txn.NewIterator(brock.IteratorOptions{})
	it.Rewind()
	assert.Equal(t, "at an item", it.Valid(), false)
	assert.Error(t, "own iterator", it.Err(), brock.ErrInvalid)
	it.Close()
	assert.OK(t, txn.Set([]byte("beside"), nil))
	assert.Error(t, "commit", txn.Commit(), brock.ErrInvalid)
	assert.Equal(t, "beside", assert.Must(db.Has([]byte("beside"))), false)
}

// TestOperationsStayInMemory: a transaction with operations that outgrows its memory is refused, with
// nothing left behind, and so is an operation in one that has.
func TestOperationsStayInMemory(t *testing.T) {
	fs := vfs.NewMem()
	db := storetest.Open(t, brock.Options{Dir: "/s", FS: fs})
	begin := func() *brock.Txn {
		return assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 4000}))
	}
	for _, first := range []func(txn *brock.Txn) error{
		func(txn *brock.Txn) error { return txn.Apply(brock.OpAdd, []byte("n"), number(1)) },
		func(txn *brock.Txn) error { return txn.SetVersioned([]byte("q"), nil) },
	} {
		txn := begin()
		assert.OK(t, first(txn))
		assert.Error(t, "too much", fillSpilled(txn, 100), brock.ErrUnsupported)
		assert.Error(t, "from then on", txn.Set([]byte("k"), nil), brock.ErrUnsupported)
		assert.Error(t, "commit", txn.Commit(), brock.ErrUnsupported)
		txn = begin()
		assert.OK(t, first(txn))
		assert.Error(t, "a large value", txn.Set([]byte("k"), make([]byte, 2<<20)), brock.ErrUnsupported)
		txn.Discard()
		txn = begin()
		assert.OK(t, fillSpilled(txn, 100))
		assert.Error(t, "behind a spill", first(txn), brock.ErrUnsupported)
		assert.OK(t, txn.Commit()) // the refused call has changed nothing
	}
	txn := begin()
	assert.Error(t, "a large versioned value", txn.SetVersioned([]byte("q"), make([]byte, 5000)), brock.ErrUnsupported)
	var err error
	for i := 0; err == nil; i++ { // many operations
		err = txn.Apply(brock.OpAdd, fmt.Append(nil, i), number(1))
	}
	assert.Error(t, "many operations", err, brock.ErrUnsupported)
	txn.Discard()
	// One counter takes no memory, however often it is added to.
	assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 4000}, func(txn *brock.Txn) error {
		for range 10_000 {
			if err := txn.Apply(brock.OpAdd, []byte("n"), number(1)); err != nil {
				return err
			}
		}
		return nil
	}))
	assert.Equal(t, "sum", assert.Must(db.Default().Add(t.Context(), []byte("n"), 0)), 10_000)
}

// TestChangesOfOperations: the feed and a follower have plain sets with the results.
func TestChangesOfOperations(t *testing.T) {
	o := brock.Options{Dir: "db", FS: vfs.NewMem()}
	db := assert.Must(brock.Open(o))
	defer db.Close()
	follower := storetest.OpenFollower(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	step, got := 0, ""
	for c, err := range db.Watch(ctx, brock.WatchOptions{}) {
		assert.OK(t, err)
		for ch, err := range c.Changes() {
			assert.OK(t, err)
			got += fmt.Sprintf("%v %s", ch.Kind, ch.Key)
			if ch.Kind == brock.ChangeSet {
				got += fmt.Sprintf("=%d", binary.LittleEndian.Uint64(assert.Must(ch.Value())))
			}
			got += "; "
		}
		if step++; step > 4 {
			break
		}
		if step < 4 {
			assert.Equal(t, "sum", assert.Must(db.Default().Add(t.Context(), []byte("n"), 5)), int64(5*step))
			assert.Must(follower.Refresh(t.Context()))
			assert.Equal(t, "the follower's", binary.LittleEndian.Uint64(assert.Must(follower.Get([]byte("n")))), uint64(5*step))
			continue
		}
		assert.OK(t, db.Update(func(txn *brock.Txn) error { return txn.Apply(brock.OpClearIf, []byte("n"), number(15)) }))
	}
	assert.Equal(t, "changes", got, "set n=5; set n=10; set n=15; delete n; ")
}
