package failure

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// diskSpaceEvents are the events of disk space that were not looked at yet.
type diskSpaceEvents chan brock.DiskSpaceInfo

func (s diskSpaceEvents) add(i brock.DiskSpaceInfo) { s <- i }

// until waits for one that tells whether the disk is full, and returns all up to it.
func (s diskSpaceEvents) until(full bool) (list []brock.DiskSpaceInfo) {
	for i := range s {
		if list = append(list, i); i.Full == full {
			break
		}
	}
	return list
}

// fillUp writes until the store refuses a write, and returns how many keys there are.
func fillUp(t *testing.T, db *brock.DB, from, size int) (n int) {
	t.Helper()
	for n = from; ; n++ {
		err := db.Set(fmt.Appendf(nil, "key %06d", n), valueOf(n, size))
		if err == nil {
			continue
		}
		assert.Error(t, "Set on a full disk", err, brock.ErrNoSpace)
		if errors.Is(err, brock.ErrStopped) {
			t.Fatalf("a full disk has stopped the store: %v", err)
		}
		return n
	}
}

func valueOf(i, size int) []byte {
	v := make([]byte, size)
	copy(v, fmt.Sprint("value ", i))
	return v
}

// holds checks that the keys from <= key < to are there, and no others.
func holds(t *testing.T, db *brock.DB, from, to, size int) {
	t.Helper()
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		i := from
		for item, err := range txn.All() {
			if err != nil {
				return err
			}
			v, err := item.Value()
			if err != nil {
				return err
			}
			if string(item.Key()) != fmt.Sprintf("key %06d", i) || string(v) != string(valueOf(i, size)) {
				return fmt.Errorf("%q comes where key %d should", item.Key(), i)
			}
			i++
		}
		if i != to {
			return fmt.Errorf("%d keys, want %d", i-from, to-from)
		}
		return nil
	}))
}

// resumes waits until a write succeeds, and returns how long that took. In a bubble that is
// what the store waits for, not what the machine takes.
func resumes(t *testing.T, write func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		err := write()
		took := time.Since(begin)
		if err == nil {
			return took
		}
		assert.Error(t, "write", err, brock.ErrNoSpace)
		if took > 20*time.Second {
			t.Fatalf("after %v still %v", took, err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// fillingSizes are lengths of values that fill a store.
func fillingSizes() []int {
	if process.RaceEnabled {
		return []int{3000} // in fewer calls
	}
	return []int{100, 3000}
}

// TestFullDisk fills a disk: the store refuses sets before the disk is full, and
// goes on with reads and deletes. It takes sets again when there is disk space.
func TestFullDisk(t *testing.T) {
	for _, size := range fillingSizes() {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { fullDisk(t, size) })
		})
	}
}

func fullDisk(t *testing.T, size int) {
	mem := vfs.NewMem()
	const capacity = 12 << 20
	mem.SetCapacity(capacity)
	events := make(diskSpaceEvents, 100)
	o := brock.Options{Dir: storetest.Dir, FS: mem, Keys: storetest.DrawKeys(t), Durability: brock.Buffered, Tuning: brock.Tuning{MemtableSize: 256 << 10, SegmentSize: 1 << 20},
		Events: brock.Events{DiskSpace: events.add, BackgroundError: func(err error) { t.Errorf("background work has ended: %v", err) }}}
	db, err := brock.Open(o)
	assert.OK(t, err)
	n := fillUp(t, db, 0, size)
	if data := n * size; data < capacity/4 {
		t.Errorf("full with %d bytes of values", data)
	}
	if list := events.until(true); !errors.Is(list[len(list)-1].Err, brock.ErrNoSpace) {
		t.Errorf("events %+v", list)
	}
	m := db.Metrics().Tree
	if m.Refused == 0 || m.FreeBytes < 0 || m.ReserveBytes == 0 {
		t.Errorf("metrics: refused %d, left %d, reserve %d", m.Refused, m.FreeBytes, m.ReserveBytes)
	}
	holds(t, db, 0, n, size)
	assert.OK(t, db.Delete(fmt.Appendf(nil, "key %06d", 0)))
	assert.OK(t, db.Sync(t.Context()))
	holds(t, db, 1, n, size)
	mem.SetCapacity(2 * capacity)
	took := resumes(t, func() error { return db.Set(fmt.Appendf(nil, "key %06d", n), valueOf(n, size)) })
	if took > time.Second {
		t.Errorf("writing resumed after %v", took)
	}
	events.until(false)
	holds(t, db, 1, n+1, size)
	assert.OK(t, db.Verify(t.Context(), nil))
	assert.OK(t, db.Close())
	db, err = brock.Open(o)
	assert.OK(t, err)
	holds(t, db, 1, n+1, size)
	assert.OK(t, db.Close())
}

// TestFullStoreFreesItself deletes most of what is in a full store. The store then
// frees disk space without help: in the background, and at once by Reclaim.
func TestFullStoreFreesItself(t *testing.T) {
	for _, size := range fillingSizes() {
		for _, limit := range []bool{false, true} {
			t.Run(fmt.Sprint(size, limit), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { fullStoreFreesItself(t, size, limit) })
			})
		}
	}
}

func fullStoreFreesItself(t *testing.T, size int, limit bool) {
	const capacity = 12 << 20
	mem := vfs.NewMem()
	o := brock.Options{Dir: storetest.Dir, FS: mem, Keys: storetest.DrawKeys(t), Durability: brock.Buffered, Tuning: brock.Tuning{MemtableSize: 256 << 10, SegmentSize: 1 << 20},
		Events: brock.Events{BackgroundError: func(err error) { t.Errorf("background work has ended: %v", err) }}}
	if limit {
		o.DiskLimit = capacity
	} else {
		mem.SetCapacity(capacity)
	}
	db, err := brock.Open(o)
	assert.OK(t, err)
	n := fillUp(t, db, 0, size)
	if used := mem.Used(); limit && used > capacity {
		t.Errorf("%d bytes are used, the limit is %d", used, capacity)
	}
	kept := n - n/10
	asked := 0
	for i := range kept {
		// The deletes may take more than the reserve of so small a store.
		for db.Delete(fmt.Appendf(nil, "key %06d", i)) != nil {
			if asked++; asked > 20 {
				t.Fatal("deletes are refused, and Reclaim doesn't help")
			}
			if _, err := db.Reclaim(t.Context()); err != nil {
				assert.Error(t, "Reclaim", err, brock.ErrNoSpace)
			}
		}
	}
	_, err = db.Reclaim(t.Context())
	assert.OK(t, err)
	if used := mem.Used(); used > capacity/3 {
		t.Errorf("%d bytes are used, Reclaim was called %d times", used, asked)
	}
	holds(t, db, kept, n, size)
	took := resumes(t, func() error { return db.Set(fmt.Appendf(nil, "key %06d", n), valueOf(n, size)) })
	if took > time.Second {
		t.Errorf("writing resumed after %v", took)
	}
	for i := n + 1; i < n+kept/4; i++ {
		assert.OK(t, db.Set(fmt.Appendf(nil, "key %06d", i), valueOf(i, size)))
	}
	holds(t, db, kept, n+kept/4, size)
	assert.OK(t, db.Verify(t.Context(), nil))
	assert.OK(t, db.Close())
}

// TestFlushWithoutRoomForValues flushes a memtable whose journal segments are mostly garbage, on
// a disk that has no room for a copy of what is live in them. The disk says so, or a file system
// has less room than it says. The flush does without copying. Once there is room again, what it
// left is collected.
func TestFlushWithoutRoomForValues(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprint("told ", told), func(t *testing.T) { flushWithoutRoomForValues(t, told) })
	}
}

func flushWithoutRoomForValues(t *testing.T, told bool) {
	mem := vfs.NewMem()
	faulty := faultfs.New(mem, faultfs.Options{})
	db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: faulty, Keys: storetest.DrawKeys(t), Durability: brock.Buffered,
		Tuning: brock.Tuning{SegmentSize: 256 << 10},
		Events: brock.Events{BackgroundError: func(err error) { t.Errorf("background work has ended: %v", err) }}})
	assert.OK(t, err)
	const n, size = 900, 6000
	key := func(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }
	for i := range n {
		assert.OK(t, db.Set(key(i), valueOf(i, size)))
	}
	for i := range n {
		if i%3 != 2 {
			assert.OK(t, db.Delete(key(i)))
		}
	}
	faulty.Inject(faultfs.Fault{Kinds: faultfs.Create | faultfs.Write, Path: ".val", Times: faultfs.Always, Err: faultfs.ErrNoSpace})
	if told {
		mem.SetCapacity(mem.Used() + n/3*size - 1)
	}
	assert.OK(t, db.Flush(t.Context()))
	if struck := faulty.Struck(); told != (struck == 0) {
		t.Errorf("a copy of values was begun %d times", struck)
	}
	faulty.Heal()
	mem.SetCapacity(0)
	_, err = db.Reclaim(t.Context())
	assert.OK(t, err)
	for i := range n {
		_, err := db.Get(key(i))
		if want := i%3 == 2; want != (err == nil) {
			t.Errorf("key %d: is there %v, %v", i, want, err)
		}
	}
	m := db.Metrics()
	if amp := m.SpaceAmp(); amp > 1.5 {
		t.Errorf("files are %.2f times the live data", amp)
	}
	assert.OK(t, db.Verify(t.Context(), nil))
	assert.OK(t, db.Close())
}

// TestOthersFillTheDisk takes all disk space away, the store's reserve too. The
// store refuses writes and loses nothing that it acknowledged. When there is disk
// space again everything goes on, also background work that has failed.
func TestOthersFillTheDisk(t *testing.T) { synctest.Test(t, othersFillTheDisk) }

func othersFillTheDisk(t *testing.T) {
	mem := vfs.NewMem()
	o := brock.Options{Dir: storetest.Dir, FS: mem, Keys: storetest.DrawKeys(t), Tuning: brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 256 << 10},
		Events: brock.Events{BackgroundError: func(err error) { t.Errorf("background work has ended: %v", err) }}}
	db, err := brock.Open(o)
	assert.OK(t, err)
	n := 0
	for round := range 4 {
		for range 300 {
			assert.OK(t, db.Set(fmt.Appendf(nil, "key %06d", n), valueOf(n, 700)))
			n++
		}
		mem.SetCapacity(1) // the disk is full of other data
		n = fillUp(t, db, n, 700)
		assert.Error(t, "Flush", db.Flush(t.Context()), brock.ErrNoSpace)
		if _, err := db.Reclaim(t.Context()); round > 0 {
			assert.Error(t, "Reclaim", err, brock.ErrNoSpace)
		}
		holds(t, db, 0, n, 700)
		if round == 2 {
			db = reopenFull(t, db, o)
			holds(t, db, 0, n, 700)
		}
		mem.SetCapacity(64 << 20)
		if took := resumes(t, func() error { return db.Set(fmt.Appendf(nil, "key %06d", n), valueOf(n, 700)) }); took > time.Second {
			t.Errorf("round %d: writing resumed after %v", round, took)
		}
		n++
		assert.OK(t, db.Flush(t.Context()))
		holds(t, db, 0, n, 700)
	}
	assert.OK(t, db.Verify(t.Context(), nil))
	assert.OK(t, db.Close())
}

// reopenFull opens a store on a full disk again.
func reopenFull(t *testing.T, db *brock.DB, o brock.Options) *brock.DB {
	t.Helper()
	if err := db.Close(); err != nil {
		assert.Error(t, "Close", err, brock.ErrNoSpace)
	}
	db, err := brock.Open(o)
	assert.OK(t, err)
	return db
}

// TestFlushOnAFullDiskWaits makes the creation of runs fail, on a disk that does
// not report its free bytes. Writers get ErrNoSpace at once when memory is full,
// and go on when runs can be made again.
func TestFlushOnAFullDiskWaits(t *testing.T) { synctest.Test(t, flushOnAFullDiskWaits) }

func flushOnAFullDiskWaits(t *testing.T) {
	faulty := faultfs.New(vfs.NewMem(), faultfs.Options{})
	events := make(diskSpaceEvents, 100)
	db, err := brock.Open(brock.Options{
		Dir: storetest.Dir, FS: faulty, Durability: brock.Buffered, Tuning: brock.Tuning{MemtableSize: 64 << 10},
		Events: brock.Events{DiskSpace: events.add, BackgroundError: func(err error) { t.Errorf("background work has ended: %v", err) }},
	})
	assert.OK(t, err)
	faulty.Inject(faultfs.Fault{Kinds: faultfs.Create, Path: ".run", Times: faultfs.Always, Err: faultfs.ErrNoSpace})
	n := fillUp(t, db, 0, 400)
	begin := time.Now()
	for range 100 {
		assert.Error(t, "Set", db.Set([]byte("x"), []byte("y")), brock.ErrNoSpace)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("refusing took %v", took)
	}
	assert.Error(t, "Flush", db.Flush(t.Context()), brock.ErrNoSpace)
	holds(t, db, 0, n, 400)
	if list := events.until(true); len(list) != 1 {
		t.Errorf("events %+v", list)
	}
	tried := faulty.Struck()
	<-time.After(2 * time.Second)
	if tried = faulty.Struck() - tried; tried > 8 {
		t.Errorf("a flush was tried %d times in two seconds", tried)
	}
	faulty.Heal()
	if took := resumes(t, func() error { return db.Set(fmt.Appendf(nil, "key %06d", n), valueOf(n, 400)) }); took > 1500*time.Millisecond {
		t.Errorf("writing resumed after %v", took)
	}
	assert.OK(t, db.Flush(t.Context()))
	holds(t, db, 0, n+1, 400)
	assert.OK(t, db.Close())
}
