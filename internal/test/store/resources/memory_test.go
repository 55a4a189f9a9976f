// Package resources tests what a store takes of memory, files and goroutines, and that it gives
// them back. Its tests measure the process, so none of them runs beside another, but for those
// that measure a child.
package resources

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// memoryAbove is what a store may take above its MemoryLimit, the rest of the process
// included.
const memoryAbove = 32 << 20

// longBounds is what range deletes with bounds of 1 MB may take beyond that: docs/guarantees.md
// says what it is.
const longBounds = 16 << 20

// memoryShape is data or work of an odd shape, and the memory that it takes.
type memoryShape struct {
	name  string
	limit int64 // MemoryLimit
	above int64 // what it may take above its MemoryLimit
	// run works on an empty store, and returns how many bytes the program itself held.
	run func(t *testing.T, db *brock.DB, short bool) (held int64)
}

var memoryShapes = []memoryShape{
	{"large values", 16 << 20, memoryAbove, largeValues},
	{"values of a share of the memory", 16 << 20, memoryAbove, sharedValues},
	{"range deletes", 16 << 20, memoryAbove, manyRanges},
	{"range deletes that history keeps", 16 << 20, memoryAbove, retainedRanges},
	{"range deletes that a reader doesn't see", 16 << 20, memoryAbove, unseenRanges},
	{"range deletes with bounds of 64 KB", 16 << 20, memoryAbove, rangesOf(64<<10, 400, 60)},
	{"range deletes with bounds of 1 MB", 16 << 20, memoryAbove + longBounds, rangesOf(1<<20, 30, 5)},
	{"long keys", 16 << 20, memoryAbove, longKeys},
	{"keyspaces", 16 << 20, memoryAbove, manyKeyspaces},
	{"staggered readers", 4 << 20, memoryAbove, staggeredReaders},
}

// In no shape of data or work do stores take more anonymous memory than they promise.
// Each shape has a process of its own: RssAnon is that of all of it.
func TestMemoryOfOddShapes(t *testing.T) {
	if anonymous() == 0 {
		t.Skip("the system doesn't tell")
	}
	if strconv.IntSize == 32 {
		t.Skip("32-bit programs map no files: what is read of a large value is memory")
	}
	if invariant.Enabled || invariant.Poisons {
		t.Skip("checks and the race detector take memory")
	}
	const shapeOf = "BROCK_TEST_SHAPE"
	for _, s := range memoryShapes {
		t.Run(s.name, func(t *testing.T) {
			if os.Getenv(shapeOf) == "" {
				t.Parallel() // what other processes do is not measured
				cmd := exec.Command(os.Args[0], "-test.run", "^TestMemoryOfOddShapes$", "-test.v", fmt.Sprintf("-test.short=%v", testing.Short()))
				cmd.Env = append(os.Environ(), shapeOf+"="+s.name)
				out, err := cmd.CombinedOutput()
				if t.Logf("%s", out); err != nil {
					t.Error(err)
				}
				return
			}
			if s.name == os.Getenv(shapeOf) {
				s.measure(t)
			}
		})
	}
}

func (s *memoryShape) measure(t *testing.T) {
	db, err := brock.Open(brock.Options{Dir: t.TempDir(), MemoryLimit: s.limit, Durability: brock.Buffered})
	assert.OK(t, err)
	stop := watch()
	begin := time.Now()
	held := s.run(t, db, testing.Short())
	assert.OK(t, db.Verify(t.Context(), nil))
	debug.FreeOSMemory()
	m := db.Metrics()
	if known, is := m.MemoryBytes(), anonymous(); is-held-known > s.above {
		t.Errorf("at rest the process takes %s, the metrics know of %s, the program holds %s", megabytes(is), megabytes(known), megabytes(held))
	}
	assert.OK(t, db.Close())
	peak, allowed := stop()-held, s.limit+s.above
	t.Logf("%s of anonymous memory beside what the program holds, %s are allowed; %v", megabytes(peak), megabytes(allowed), time.Since(begin))
	if peak > allowed {
		t.Errorf("%s are too much", megabytes(peak))
	}
}

// atOnce runs fn on n goroutines.
func atOnce(n int, fn func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { fn(i) })
	}
	all.Wait()
}

// largeValues sets values that are larger than MemoryLimit in every way, and moves and
// reads them.
func largeValues(t *testing.T, db *brock.DB, short bool) (held int64) {
	value := bytes.Repeat([]byte("0123456789abcdef"), 40<<20/16)
	if short {
		value = value[:20<<20]
	}
	ways := []func(key []byte) error{
		func(key []byte) error { return db.Set(key, value) },
		func(key []byte) error {
			return db.UpdateContext(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 1 << 20}, func(txn *brock.Txn) error {
				if err := txn.Set(append(key, "second"...), value); err != nil {
					return err
				}
				return txn.Set(key, value)
			})
		},
		func(key []byte) error {
			b := db.NewBatch()
			if err := b.SetEntry(brock.NewEntry(key, value).WithMeta(7)); err != nil {
				return err
			}
			_, err := b.Commit(t.Context(), 0)
			return err
		},
		func(key []byte) error {
			w := db.NewWriter(t.Context())
			if err := w.Set(key, value); err != nil {
				return err
			}
			return w.Close()
		},
	}
	if short {
		ways = ways[:3]
	}
	atOnce(len(ways), func(i int) {
		if err := ways[i](fmt.Appendf(nil, "way %d", i)); err != nil {
			t.Errorf("way %d: %v", i, err)
		}
	})
	same := func(key string) {
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			it, err := txn.Get([]byte(key))
			if err != nil {
				return err
			}
			return it.ValueFunc(func(got []byte) error {
				if !bytes.Equal(got, value) {
					t.Errorf("%s: another value, of %d bytes", key, len(got))
				}
				return nil
			})
		}))
	}
	same("way 1")
	assert.OK(t, db.Delete([]byte("way 1second")))
	assert.Must(db.Reclaim(context.Background()))
	for i := range ways {
		same(fmt.Sprintf("way %d", i))
	}
	return int64(len(value))
}

// sharedValues sets values from many goroutines of which each alone would fit into memory.
func sharedValues(t *testing.T, db *brock.DB, short bool) (held int64) {
	value := bytes.Repeat([]byte("0123456789abcdef"), 2<<20/16-10)
	rounds := 4
	if short {
		rounds = 2
	}
	atOnce(64, func(i int) {
		for j := range rounds {
			if err := db.Set(fmt.Appendf(nil, "%d %d", i, j), value); err != nil {
				t.Error(err)
			}
		}
	})
	return int64(len(value))
}

// longKeys sets few bytes under many bytes of keys, which differ at their beginning or
// at their end, compacts and reads them.
func longKeys(t *testing.T, db *brock.DB, short bool) (held int64) {
	total := 32 << 20
	if short {
		total = 12 << 20
	}
	for _, size := range []int{16 << 10, 60 << 10, 1 << 20} {
		key := bytes.Repeat([]byte{'k'}, size)
		n := total / size
		for i := range n {
			number := fmt.Sprintf("%08d", i*7919%n)
			copy(key[i%2*(size-len(number)):], number)
			assert.OK(t, db.Set(key, []byte("v")))
			copy(key[i%2*(size-len(number)):], "kkkkkkkk")
		}
		assert.OK(t, db.Compact(t.Context()))
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			found := 0
			for range txn.All() {
				found++
			}
			if found < n {
				t.Errorf("%d keys of %d bytes, want %d", found, size, n)
			}
			return nil
		}))
		assert.OK(t, db.DropAll(t.Context()))
	}
	return 1 << 20
}

// rangesOf deletes n ranges with bounds of this size, fewer of them in a short test, in
// each way of writing, and reads and compacts what is left.
func rangesOf(size, n, few int) func(t *testing.T, db *brock.DB, short bool) int64 {
	return func(t *testing.T, db *brock.DB, short bool) (held int64) {
		if short {
			n = few
		}
		lo, hi := bytes.Repeat([]byte{'k'}, size), bytes.Repeat([]byte{'k'}, size)
		hi[size-1] = 'z'
		bounds := func(i int) ([]byte, []byte) {
			number := fmt.Appendf(nil, "%06d", i)
			copy(lo, number)
			copy(hi, number)
			return lo, hi
		}
		for i := range n {
			key, _ := bounds(i)
			assert.OK(t, db.Set(key, []byte("v")))
		}
		for i := range n {
			assert.OK(t, db.DeleteRange(bounds(i)))
		}
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			for i := range n / 2 {
				if err := txn.DeleteRange(bounds(i)); err != nil {
					return err
				}
			}
			return nil
		}))
		b := db.NewBatch()
		for i := range n / 2 {
			assert.OK(t, b.DeleteRange(bounds(n/2+i)))
		}
		assert.Must(b.Commit(t.Context(), 0))
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			for range txn.All() {
				t.Error("a key was not deleted")
			}
			return nil
		}))
		assert.OK(t, db.Compact(t.Context()))
		return 2 * int64(size)
	}
}

// staggeredReaders begins readers one after the other while a writer goes on. Each keeps
// the memtables of its time: the one that was being filled, and up to four that waited for
// their flush.
func staggeredReaders(t *testing.T, db *brock.DB, short bool) (held int64) {
	readers, pairs := 40, 4_000
	if short {
		readers, pairs = 24, 3_000
	}
	value := make([]byte, 100)
	for i := range readers {
		b := db.NewBatch()
		for j := range pairs {
			assert.OK(t, b.Set(fmt.Appendf(nil, "%08d", i*pairs+j), value))
			if b.Len() == 100 {
				assert.Must(b.Commit(t.Context(), 0))
				b.Reset()
			}
		}
		txn := db.NewTransaction(false)
		defer txn.Discard()
	}
	assert.OK(t, db.Flush(t.Context()))
	o := db.Options()
	pinned, most := db.Metrics().Tree.PinnedMemory, o.MemoryLimit/2+5*int64(readers)*max(o.Tuning.MemtableSize/16, 64<<10)
	if t.Logf("%d readers keep %s of memtables, %s are allowed", readers, megabytes(pinned), megabytes(most)); pinned > most {
		t.Error("that is too much")
	}
	return pinned
}

// manyKeyspaces writes a little to each of many keyspaces.
func manyKeyspaces(t *testing.T, db *brock.DB, short bool) (held int64) {
	n := 500
	if short {
		n = 200
	}
	value := make([]byte, 10_000)
	for i := range n {
		ks, err := db.Keyspace(fmt.Sprintf("keyspace %d", i), brock.KeyspaceOptions{})
		assert.OK(t, err)
		assert.OK(t, ks.Set([]byte("key"), value))
	}
	assert.OK(t, db.Compact(t.Context()))
	return 0
}
