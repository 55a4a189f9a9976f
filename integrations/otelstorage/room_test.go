package otelstorage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/brockdb/brock/vfs"
)

// queue does what the persistent queue of exporterhelper does with a client.
type queue struct {
	c           storage.Client
	first, next int
	item        func(n int) []byte
}

func (q *queue) metadata() *storage.Operation {
	return storage.SetOperation("meta", fmt.Append(nil, q.first, q.next))
}

func (q *queue) put() error {
	q.next++
	err := q.c.Batch(context.Background(), q.metadata(), storage.SetOperation(strconv.Itoa(q.next-1), q.item(q.next-1)))
	if err != nil {
		q.next--
	}
	return err
}

// take takes the next item, which must be there, and deletes it. It is how a queue frees space.
func (q *queue) take() error {
	get := storage.GetOperation(strconv.Itoa(q.first))
	q.first++
	if err := q.c.Batch(context.Background(), q.metadata(), get); err != nil {
		return err
	}
	if !bytes.Equal(get.Value, q.item(q.first-1)) {
		return fmt.Errorf("item %d has %d bytes", q.first-1, len(get.Value))
	}
	return q.c.Batch(context.Background(), q.metadata(), storage.DeleteOperation(strconv.Itoa(q.first-1)))
}

// fill puts items until one is refused, and returns the reason.
func (q *queue) fill(t *testing.T, most int) error {
	t.Helper()
	for q.next-q.first < most {
		if err := q.put(); err != nil {
			return err
		}
	}
	t.Fatalf("%d items were accepted", most)
	return nil
}

func TestAddsData(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig(t.TempDir()))
	c := getClient(t, s, "logs").(*client)
	set(t, c, "old", string(make([]byte, 1000)))
	put := func(key string, size int) *storage.Operation { return storage.SetOperation(key, make([]byte, size)) }
	for _, test := range []struct {
		want bool
		ops  []*storage.Operation
	}{
		{false, []*storage.Operation{storage.DeleteOperation("old"), storage.DeleteOperation("none")}},
		{false, []*storage.Operation{put("old", 1000), storage.GetOperation("new")}},
		{false, []*storage.Operation{put("old", 1000+overwriteSlop)}},
		{true, []*storage.Operation{put("old", 1001+overwriteSlop)}},
		{true, []*storage.Operation{put("new", 0)}},
		{true, []*storage.Operation{put("old", 1000), put("new", 1)}},
		{false, []*storage.Operation{put("new", 1000), storage.DeleteOperation("old")}},
		{true, []*storage.Operation{put("new", 1001), storage.DeleteOperation("old")}},
		{false, []*storage.Operation{put("new", 5000), storage.DeleteOperation("new")}},
		{true, []*storage.Operation{storage.DeleteOperation("old"), put("old", 1001+overwriteSlop)}},
	} {
		if got, err := addsData(c.keyspace.now.Load().Keyspace, test.ops); got != test.want || err != nil {
			t.Errorf("%v: %t, %v", test.ops, got, err)
		}
	}
}

// A queue that has filled the storage up to its limit can be drained: each take overwrites the
// metadata, which must not be refused. Then there is room again. So it is with items of any size,
// round after round.
func TestFullQueueDrains(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 1000, 20_000} {
		if testing.Short() && size == 100 {
			continue // many items
		}
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			disk := vfs.NewMem()
			cfg := testConfig("/storage", func(c *Config) { c.MemoryLimitMiB, c.DiskLimitMiB = 8, 32 })
			s := startOn(t, cfg, disk, componenttest.NewNopHost())
			testFullQueue(t, s, disk, size, 32<<20)
		})
	}
}

// So it is on a disk that is full without a limit.
func TestFullDiskDrains(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	const capacity = 160 << 20
	disk.SetCapacity(capacity)
	host := newStatusHost()
	s := startOn(t, testConfig("/storage", func(c *Config) { c.MemoryLimitMiB = 8 }), disk, host)
	testFullQueue(t, s, disk, 20_000, capacity)
}

func testFullQueue(t *testing.T, s *brockStorage, disk *vfs.Mem, size int, limit int64) {
	q := &queue{c: getClient(t, s, "logs"), item: func(n int) []byte {
		return bytes.Repeat([]byte(strconv.Itoa(n)+" "), size/(len(strconv.Itoa(n))+1)+1)
	}}
	var first int
	for round := range 2 {
		err := q.fill(t, int(limit)/size)
		if !errors.Is(err, storage.ErrStorageFull) {
			t.Fatalf("round %d: the storage is full: %v", round, err)
		}
		n := q.next - q.first
		if round == 0 {
			first = n
		}
		if n*size < int(limit)/4 || n < first/2 {
			t.Fatalf("round %d: only %d items of %d bytes were accepted, and %d in the first", round, n, size, first)
		}
		if used := disk.Used(); used > limit {
			t.Fatalf("round %d: %d bytes are used, and %d may be", round, used, limit)
		}
		// An item in the place of one that is deleted needs no more room.
		last := strconv.Itoa(q.next - 1)
		if err := q.c.Batch(t.Context(), storage.DeleteOperation(last), storage.SetOperation(last, q.item(q.next-1))); err != nil {
			t.Fatalf("round %d: a delete and a set: %v", round, err)
		}
		for q.first < q.next {
			if err := q.take(); err != nil {
				t.Fatalf("round %d: %d of %d items were taken: %v", round, q.first, q.next, err)
			}
		}
		t.Logf("%d items of %d bytes, %d bytes used after", n, size, disk.Used())
		if err := s.store.db.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.store.room.refused.Load() == 0 {
		t.Fatal("the store refused what its room should have refused")
	}
}

// A long queue is drained without copying its items: the store drops the segments in which all are
// dead. The last of them are as large as the long queue has made them.
func TestDrainCopiesLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a queue of 800 MB")
	}
	t.Parallel()
	const size, items = 100_000, 8000
	s := start(t, testConfig(t.TempDir()))
	item := make([]byte, size)
	q := &queue{c: getClient(t, s, "logs"), item: func(n int) []byte {
		binary.LittleEndian.PutUint64(item, uint64(n))
		return item
	}}
	for range items {
		if err := q.put(); err != nil {
			t.Fatal(err)
		}
	}
	for range items {
		if err := q.take(); err != nil {
			t.Fatal(err)
		}
	}
	copied := s.store.db.Metrics().Tree.CollectedBytes
	t.Logf("%d bytes were copied", copied)
	if copied > size*items/11 {
		t.Fatalf("%d bytes were copied to drain a queue of %d", copied, size*items)
	}
}

// When the store itself finds no space, the errors and the status say so, until there is some.
func TestOthersFillTheDisk(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	host := newStatusHost()
	s := startOn(t, testConfig("/storage", func(c *Config) { c.MemoryLimitMiB = 4 }), disk, host)
	q := &queue{c: getClient(t, s, "logs"), item: func(int) []byte { return make([]byte, 10_000) }}
	for range 500 {
		if err := q.put(); err != nil {
			t.Fatal(err)
		}
	}
	disk.SetCapacity(disk.Used() + 1000)
	var err error
	for err == nil {
		// An overwrite: the room lets it pass.
		err = q.c.Set(t.Context(), strconv.Itoa(q.first), q.item(0))
	}
	if !errors.Is(err, storage.ErrStorageFull) {
		t.Fatal(err)
	}
	if err := host.await(t, componentstatus.StatusRecoverableError); !errors.Is(err, storage.ErrStorageFull) {
		t.Fatalf("the status has the error %v", err)
	}
	disk.SetCapacity(0)
	for err = q.put(); errors.Is(err, storage.ErrStorageFull); {
		err = q.put()
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = host.await(t, componentstatus.StatusOK)
	for q.first < q.next {
		if err := q.take(); err != nil {
			t.Fatal(err)
		}
	}
}
