package brockethdb

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/dbtest"
	"github.com/ethereum/go-ethereum/ethdb/memorydb"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

func open(t testing.TB, o brock.Options) *Database {
	t.Helper()
	o.InMemory = o.Dir == ""
	d, err := Open(o)
	assert.OK(t, err)
	t.Cleanup(func() { assert.OK(t, d.Close()) })
	return d
}

// TestSuite runs go-ethereum's own tests on stores of several kinds.
func TestSuite(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		dbtest.TestDatabaseSuite(t, func() ethdb.KeyValueStore { return open(t, brock.Options{}) })
	})
	t.Run("files", func(t *testing.T) {
		dbtest.TestDatabaseSuite(t, func() ethdb.KeyValueStore { return open(t, brock.Options{Dir: t.TempDir()}) })
	})
	t.Run("keyspace", func(t *testing.T) {
		dbtest.TestDatabaseSuite(t, func() ethdb.KeyValueStore {
			db := open(t, brock.Options{}).DB()
			keys, err := db.Keyspace("chain")
			assert.OK(t, err)
			assert.OK(t, db.Set([]byte("1"), []byte("of the default keyspace")))
			return New(db, keys)
		})
	})
}

// pairs is all that an iterator yields.
func pairs(t testing.TB, it ethdb.Iterator) (all []string) {
	t.Helper()
	for it.Next() {
		all = append(all, fmt.Sprintf("%q=%q", it.Key(), it.Value()))
	}
	assert.OK(t, it.Error())
	it.Release()
	return all
}

// TestAsMemory does the same at random to go-ethereum's database in memory, and compares what is there.
func TestAsMemory(t *testing.T) {
	rng := draw.Rand(t)
	d, other := open(t, brock.Options{Dir: t.TempDir()}), memorydb.New()
	steps := 3000
	if testing.Short() {
		steps = 600
	}
	for i := range steps {
		switch rng.IntN(6) {
		case 0:
			step := randomCall(rng)
			assert.OK(t, step(d))
			assert.OK(t, step(other))
		case 1, 2:
			ours, theirs := d.NewBatch(), other.NewBatchWithSize(100)
			if rng.IntN(2) == 0 {
				ours, theirs = theirs, ours // filled by the other's Replay
			}
			for range rng.IntN(10) {
				step := randomCall(rng)
				assert.OK(t, step(ours))
				assert.OK(t, step(theirs))
			}
			assert.OK(t, ours.Replay(d))
			assert.OK(t, theirs.Replay(other))
			assert.OK(t, ours.Write()) // the same once more
			assert.OK(t, theirs.Write())
			ours.Close()
		default:
			prefix, start := randomKey(rng), randomKey(rng)
			got, want := pairs(t, d.NewIterator(prefix, start)), pairs(t, other.NewIterator(prefix, start))
			if !slices.Equal(got, want) {
				t.Fatalf("step %d, prefix %q, start %q: got\n%s\nwant\n%s", i, prefix, start, got, want)
			}
		}
	}
}

type writer interface {
	ethdb.KeyValueWriter
	ethdb.KeyValueRangeDeleter
}

// randomCall returns a write of a key or a range.
func randomCall(rng *rand.Rand) func(w writer) error {
	key, value, end := randomKey(rng), make([]byte, rng.IntN(3)*400), randomKey(rng)
	for i := range value {
		value[i] = byte('a' + rng.IntN(26))
	}
	switch rng.IntN(8) {
	case 0:
		return func(w writer) error { return w.DeleteRange(key, end) }
	case 1, 2:
		return func(w writer) error { return w.Delete(key) }
	}
	return func(w writer) error { return w.Put(key, value) }
}

// randomKey returns a short key of few letters, often empty, and now and then nil.
func randomKey(rng *rand.Rand) []byte {
	if rng.IntN(20) == 0 {
		return nil
	}
	key := []byte{}
	for range rng.IntN(4) {
		key = append(key, []byte{'a', 'b', 0, 0xff}[rng.IntN(4)])
	}
	return key
}

// TestBounds: nil bounds of ranges are none; an empty one is the least key.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		start, end []byte
		left       string
	}{
		{nil, nil, ""},
		{[]byte{}, nil, ""},
		{nil, []byte{}, `""="v" "a"="v" "\xff"="v"`},
		{[]byte{}, []byte{}, `""="v" "a"="v" "\xff"="v"`},
		{nil, []byte("a"), `"a"="v" "\xff"="v"`},
		{[]byte("a"), nil, `""="v"`},
		{[]byte{0}, []byte{0xff}, `""="v" "\xff"="v"`},
	} {
		for name, how := range map[string]func(d *Database) error{
			"database": func(d *Database) error { return d.DeleteRange(c.start, c.end) },
			"batch": func(d *Database) error {
				b := d.NewBatch()
				return errors.Join(b.DeleteRange(c.start, c.end), b.Write())
			},
			"replay": func(d *Database) error {
				b, again := d.NewBatch(), d.NewBatch()
				return errors.Join(b.DeleteRange(c.start, c.end), b.Replay(again), again.Write())
			},
		} {
			d := open(t, brock.Options{})
			for _, key := range []string{"", "a", "\xff"} {
				assert.OK(t, d.Put([]byte(key), []byte("v")))
			}
			assert.OK(t, how(d))
			if left := strings.Join(pairs(t, d.NewIterator(nil, nil)), " "); left != c.left {
				t.Errorf("%s from %q to %q (nil: %v, %v): %s are left", name, c.start, c.end, c.start == nil, c.end == nil, left)
			}
		}
	}
}

// TestBatch: order, sizes, use after Write, Reset and Close, and replays on itself.
func TestBatch(t *testing.T) {
	d := open(t, brock.Options{})
	b := d.NewBatchWithSize(-1)
	key := []byte("key")
	assert.OK(t, b.Put(key, []byte("12345")))
	key[0] = 'x' // the caller may use it again
	assert.OK(t, b.Delete(key))
	assert.OK(t, b.DeleteRange([]byte("m"), []byte("n")))
	if b.ValueSize() != 3+5+3+2 {
		t.Errorf("size %d", b.ValueSize())
	}
	assert.OK(t, d.Put([]byte("m1"), nil))
	before := d.DB().Version()
	assert.OK(t, b.Write())
	if n := d.DB().Version() - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	if got := pairs(t, d.NewIterator(nil, nil)); !slices.Equal(got, []string{`"key"="12345"`}) {
		t.Errorf("got %v", got)
	}
	assert.OK(t, d.Delete([]byte("key")))
	assert.OK(t, b.Replay(b)) // on itself: the calls are there twice
	if b.ValueSize() != 2*(3+5+3+2) {
		t.Errorf("size %d", b.ValueSize())
	}
	assert.OK(t, b.Write())
	if found, err := d.Has([]byte("key")); err != nil || !found {
		t.Errorf("after the second Write: %v, %v", found, err)
	}
	for _, empty := range []func(){b.Reset, b.Close} {
		assert.OK(t, b.Put([]byte("not written"), nil))
		empty()
		assert.OK(t, b.Write())
		if b.ValueSize() != 0 {
			t.Errorf("size %d", b.ValueSize())
		}
	}
	if found, err := d.Has([]byte("not written")); err != nil || found {
		t.Errorf("after Reset and Close: %v, %v", found, err)
	}

	assert.OK(t, b.Put(make([]byte, brock.MaxKeySize+1), nil))
	assert.OK(t, b.Put([]byte("beside it"), nil))
	if err := b.Write(); !errors.Is(err, brock.ErrKeyTooLarge) {
		t.Errorf("a key that is too large: %v", err)
	}
	if found, err := d.Has([]byte("beside it")); err != nil || found {
		t.Errorf("after a Write that failed: %v, %v", found, err)
	}
	b.Reset()
	assert.OK(t, b.DeleteRange(nil, nil))
	if err := b.Replay(onlyPut{d}); err == nil {
		t.Error("a range was replayed on what has none")
	}
	failed := errors.New("failed")
	if err := b.Replay(failing{d, failed}); err != failed {
		t.Errorf("a replay on what fails: %v", err)
	}
}

type onlyPut struct{ ethdb.KeyValueWriter }

type failing struct {
	*Database
	err error
}

func (f failing) DeleteRange(_, _ []byte) error { return f.err }

// TestIterator: it reads one version, survives deletes of what it is at, and its memory is its own.
func TestIterator(t *testing.T) {
	d := open(t, brock.Options{Dir: t.TempDir()})
	for i := range 100 {
		assert.OK(t, d.Put([]byte(fmt.Sprintf("a%02d", i)), bytes.Repeat([]byte{byte(i)}, i*20)))
	}
	it := d.NewIterator([]byte("a"), []byte("1"))
	assert.OK(t, d.DeleteRange(nil, []byte("a50")))
	assert.OK(t, d.Put([]byte("a990"), nil))
	if it.Key() != nil || it.Value() != nil {
		t.Error("a pair before the first Next")
	}
	n := 10
	for ; it.Next(); n++ {
		if string(it.Key()) != fmt.Sprintf("a%02d", n) || !bytes.Equal(it.Value(), bytes.Repeat([]byte{byte(n)}, n*20)) {
			t.Fatalf("pair %d: %q", n, it.Key())
		}
		assert.OK(t, d.Delete(it.Key()))
		clear(it.Key()) // writes to what it must not write to: nothing of the store
		clear(it.Value())
		if got := it.Value(); len(got) != n*20 || n > 0 && got[0] != 0 {
			t.Fatalf("a second Value is another one")
		}
	}
	if n != 100 || it.Error() != nil || it.Key() != nil || it.Value() != nil || it.Next() {
		t.Errorf("%d pairs, %v", n, it.Error())
	}
	for range 2 {
		it.Release()
	}
	if it.Next() || it.Key() != nil || it.Value() != nil || it.Error() != nil {
		t.Errorf("after Release: %v", it.Error())
	}
	if got := pairs(t, d.NewIterator(nil, nil)); !slices.Equal(got, []string{`"a990"=""`}) {
		t.Errorf("%v are left", got)
	}
	released := d.NewIterator(nil, nil)
	released.Release()
	assert.OK(t, d.Put([]byte("a990"), []byte("replaced")))
	if tree := d.DB().Metrics().Tree; tree.PinnedVersion != 0 {
		t.Errorf("version %d is read by %s", tree.PinnedVersion, tree.PinnedBy)
	}
}

// TestMisuse: every call after Close returns an error, also of iterators and batches that were there.
func TestMisuse(t *testing.T) {
	owned := open(t, brock.Options{})
	shared := New(owned.DB(), nil)
	for _, d := range []*Database{shared, owned} {
		assert.OK(t, d.Put([]byte("k"), []byte("v")))
		b, at, fresh := d.NewBatch(), d.NewIterator(nil, nil), d.NewIterator(nil, nil)
		assert.OK(t, b.Put([]byte("k"), nil))
		at.Next()
		for range 2 {
			assert.OK(t, d.Close())
		}
		last := d.NewIterator(nil, nil)
		for name, err := range map[string]error{
			"Get": assert.ErrorOf(d.Get([]byte("k"))), "Has": assert.ErrorOf(d.Has([]byte("k"))), "Put": d.Put([]byte("k"), nil),
			"Delete": d.Delete([]byte("k")), "DeleteRange": d.DeleteRange(nil, nil), "SyncKeyValue": d.SyncKeyValue(),
			"Stat": assert.ErrorOf(d.Stat()), "Compact": d.Compact(nil, nil), "Write": b.Write(), "Replay": b.Replay(d),
		} {
			if !errors.Is(err, brock.ErrClosed) {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
		for name, it := range map[string]ethdb.Iterator{"at a pair": at, "fresh": fresh, "made later": last} {
			if it.Next() || !errors.Is(it.Error(), brock.ErrClosed) || it.Key() != nil || it.Value() != nil {
				t.Errorf("iterator %s: %v", name, it.Error())
			}
			it.Release()
			it.Release()
		}
	}
}

// TestStatAndCompact: a compaction of many ranges costs one.
func TestStatAndCompact(t *testing.T) {
	d := open(t, brock.Options{Dir: t.TempDir()})
	if text, err := d.Stat(); err != nil || text == "" {
		t.Errorf("%q, %v", text, err)
	}
	assert.OK(t, d.Compact(nil, nil)) // of nothing
	for i := range 1000 {
		assert.OK(t, d.Put([]byte(fmt.Sprint(i%10)), make([]byte, 1000)))
	}
	for b := range 255 {
		assert.OK(t, d.Compact([]byte{byte(b)}, []byte{byte(b + 1)}))
	}
	if tree := d.DB().Metrics().Tree; tree.Compactions > 3 || tree.RunEntries != 10 {
		t.Errorf("%d compactions, %d entries", tree.Compactions, tree.RunEntries)
	}
	assert.OK(t, d.Compact(nil, nil))
}

// TestSync: what was written before SyncKeyValue has returned survives a power loss, and of a batch
// that was not synced all or nothing.
func TestSync(t *testing.T) {
	for range 20 {
		disk := vfs.NewMem()
		d, err := Open(brock.Options{Dir: "d", FS: disk})
		assert.OK(t, err)
		batch := func(name string) {
			b := d.NewBatch()
			for i := range 30 {
				assert.OK(t, b.Put([]byte(fmt.Sprint(name, i)), make([]byte, i*100)))
			}
			assert.OK(t, b.Write())
		}
		batch("synced")
		assert.OK(t, d.SyncKeyValue())
		batch("later")
		crashed := open(t, brock.Options{Dir: "d", FS: disk.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: draw.Seed(t)})})
		assert.OK(t, d.Close())
		if n := len(pairs(t, crashed.NewIterator([]byte("synced"), nil))); n != 30 {
			t.Errorf("%d of 30 synced pairs are left", n)
		}
		if n := len(pairs(t, crashed.NewIterator([]byte("later"), nil))); n != 0 && n != 30 {
			t.Errorf("%d of a batch of 30 are left", n)
		}
	}
}

// TestFullDisk: puts and batches are refused and harm nothing; ranges can be deleted, and then written
// again.
func TestFullDisk(t *testing.T) {
	disk := vfs.NewMem()
	disk.SetCapacity(16 << 20)
	d := open(t, brock.Options{Dir: "d", FS: disk, MemoryLimit: 4 << 20, Tuning: brock.Tuning{SegmentSize: 1 << 20}})
	value, n := make([]byte, 64<<10), 0
	var err error
	for ; err == nil; n++ {
		b := d.NewBatch()
		assert.OK(t, b.Put([]byte(fmt.Sprint(n, "a")), value))
		assert.OK(t, b.Put([]byte(fmt.Sprint(n, "b")), value))
		err = b.Write()
	}
	if !errors.Is(err, brock.ErrNoSpace) {
		t.Fatal(err)
	}
	if got := len(pairs(t, d.NewIterator(nil, nil))); got != 2*(n-1) {
		t.Errorf("%d pairs after %d batches", got, n-1)
	}
	assert.OK(t, d.DeleteRange(nil, nil))
	assert.OK(t, d.Compact(nil, nil))
	_, err = d.DB().Reclaim(t.Context())
	assert.OK(t, err)
	assert.OK(t, d.Put([]byte("again"), value))
}

// TestReadOnly: a store that is only read has nothing to sync, and refuses writes.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(brock.Options{Dir: dir})
	assert.OK(t, err)
	assert.OK(t, d.Put([]byte("k"), []byte("v")))
	assert.OK(t, d.Close())
	d = open(t, brock.Options{Dir: dir, Mode: brock.ReadOnly})
	assert.OK(t, d.SyncKeyValue())
	b := d.NewBatch()
	assert.OK(t, b.Put([]byte("k"), nil))
	if err := b.Write(); !errors.Is(err, brock.ErrReadOnly) {
		t.Errorf("Write: %v", err)
	}
	if got := pairs(t, d.NewIterator(nil, nil)); !slices.Equal(got, []string{`"k"="v"`}) {
		t.Errorf("got %v", got)
	}
}

// TestConcurrent uses everything at once, for the race detector, and closes the Database meanwhile.
func TestConcurrent(t *testing.T) {
	d := open(t, brock.Options{})
	var users sync.WaitGroup
	many := make(chan struct{})
	for n := range 4 {
		users.Go(func() {
			for i := 0; ; i++ {
				if n == 0 && i == 200 {
					close(many)
				}
				if err := useAll(d, []byte{byte(i % 5)}); err != nil {
					if !errors.Is(err, brock.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	<-many
	assert.OK(t, d.Close())
	users.Wait()
}

func useAll(d *Database, key []byte) error {
	it := d.NewIterator(nil, nil)
	defer it.Release()
	b := d.NewBatch()
	_, err := d.Has(key)
	err = errors.Join(err, d.Put(key, []byte("v")), b.Put(key, []byte("w")), b.DeleteRange(key, nil), b.Write(), d.Delete(key))
	for it.Next() {
		it.Value()
	}
	return errors.Join(err, it.Error())
}
