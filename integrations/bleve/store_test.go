package brockbleve

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	store "github.com/blevesearch/upsidedown_store_api"
	storetest "github.com/blevesearch/upsidedown_store_api/test"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

func open(t testing.TB, mo store.MergeOperator, path string) *Store {
	t.Helper()
	s, err := New(mo, map[string]any{"path": path, "nosync": true})
	assert.OK(t, err)
	t.Cleanup(func() { assert.OK(t, s.Close()) })
	return s.(*Store)
}

// TestSuite runs the tests of upsidedown_store_api on stores in memory, with files and in a keyspace.
func TestSuite(t *testing.T) {
	counter := new(storetest.TestMergeCounter)
	for name, test := range map[string]func(t *testing.T, s store.KVStore){
		"Crud": storetest.CommonTestKVCrud, "ReaderIsolation": storetest.CommonTestReaderIsolation,
		"ReaderOwnsGetBytes": storetest.CommonTestReaderOwnsGetBytes, "WriterOwnsBytes": storetest.CommonTestWriterOwnsBytes,
		"PrefixIterator": storetest.CommonTestPrefixIterator, "PrefixIteratorSeek": storetest.CommonTestPrefixIteratorSeek,
		"RangeIterator": storetest.CommonTestRangeIterator, "RangeIteratorSeek": storetest.CommonTestRangeIteratorSeek,
		"Merge": storetest.CommonTestMerge,
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("memory", func(t *testing.T) { test(t, open(t, counter, "")) })
			t.Run("files", func(t *testing.T) { test(t, open(t, counter, t.TempDir())) })
			t.Run("keyspace", func(t *testing.T) {
				db := open(t, nil, "").DB()
				assert.OK(t, db.Set([]byte("c1x"), []byte("of the default keyspace")))
				keys, err := db.Keyspace("index")
				assert.OK(t, err)
				test(t, In(db, keys, counter))
			})
		})
	}
}

// execute runs a batch that fill has filled.
func execute(t testing.TB, s store.KVStore, fill func(b store.KVBatch)) error {
	t.Helper()
	w, err := s.Writer()
	assert.OK(t, err)
	defer func() { assert.OK(t, w.Close()) }()
	b := w.NewBatch()
	fill(b)
	defer func() { assert.OK(t, b.Close()) }()
	return w.ExecuteBatch(b)
}

func reading(t testing.TB, s store.KVStore) store.KVReader {
	t.Helper()
	r, err := s.Reader()
	assert.OK(t, err)
	t.Cleanup(func() { assert.OK(t, r.Close()) })
	return r
}

// pairs is all that an iterator yields, which it closes.
func pairs(t testing.TB, it store.KVIterator) (all []string) {
	t.Helper()
	for ; it.Valid(); it.Next() {
		key, value, valid := it.Current()
		if !valid || !bytes.Equal(key, it.Key()) || !bytes.Equal(value, it.Value()) {
			t.Errorf("Current: %q, %q, %v", key, value, valid)
		}
		all = append(all, fmt.Sprintf("%q=%q", key, value))
	}
	if key, value, valid := it.Current(); key != nil || value != nil || valid {
		t.Errorf("behind the end: %q, %q, %v", key, value, valid)
	}
	it.Next()
	for range 2 {
		assert.OK(t, it.Close())
	}
	return all
}

// appending appends operands to the value. It can't merge two operands that begin with a dot, and fails
// for the operand "fail".
type appending struct{}

func (appending) Name() string { return "appending" }
func (appending) FullMerge(_, existing []byte, operands [][]byte) ([]byte, bool) {
	merged := append([]byte{}, existing...)
	for _, o := range operands {
		if string(o) == "fail" {
			return nil, false
		}
		merged = append(merged, o...)
	}
	return merged, true
}

func (appending) PartialMerge(_, left, right []byte) ([]byte, bool) {
	if bytes.HasPrefix(left, []byte(".")) || string(right) == "fail" {
		return nil, false
	}
	return append(left, right...), true
}

// TestAsModel does random batches to a store and to a map, in the order of their calls, and compares all
// ranges.
func TestAsModel(t *testing.T) {
	rng := draw.Rand(t)
	s, model := open(t, appending{}, t.TempDir()), map[string]string{}
	key := func() []byte {
		k := []byte{}
		for range rng.IntN(3) {
			k = append(k, []byte{'a', 'b', 0, 0xff}[rng.IntN(4)])
		}
		return k
	}
	for i := range 500 {
		next := maps.Clone(model)
		err := execute(t, s, func(b store.KVBatch) {
			for range rng.IntN(12) {
				k, v := key(), []byte([]string{"", "x", ".y", "z"}[rng.IntN(4)])
				switch rng.IntN(4) {
				case 0:
					b.Set(k, v)
					next[string(k)] = string(v)
				case 1:
					b.Delete(k)
					delete(next, string(k))
				default:
					b.Merge(k, v)
					next[string(k)] += string(v)
				}
				clear(k) // the caller uses them again
				clear(v)
			}
		})
		assert.OK(t, err)
		for k, v := range next { // short values, or they grow for ever
			if len(v) > 1000 {
				next[k] = ""
				assert.OK(t, execute(t, s, func(b store.KVBatch) { b.Set([]byte(k), nil) }))
			}
		}
		model = next
		compareModel(t, i, rng, reading(t, s), model, key)
	}
}

func compareModel(t *testing.T, step int, rng *rand.Rand, r store.KVReader, model map[string]string, key func() []byte) {
	t.Helper()
	keys := [][]byte{key(), key(), key()}
	values, err := r.MultiGet(keys)
	assert.OK(t, err)
	for i, k := range keys {
		want, found := model[string(k)]
		one, err := r.Get(k)
		if err != nil || string(one) != want || (one != nil) != found || string(values[i]) != want || (values[i] != nil) != found {
			t.Fatalf("step %d: %q has %q and %q, %v, want %q, %v", step, k, one, values[i], err, want, found)
		}
	}
	lo, hi, prefix := key(), key(), key()
	if rng.IntN(3) == 0 {
		lo = nil
	}
	if rng.IntN(3) == 0 {
		hi = nil
	}
	seek := key()
	for what, it := range map[string]store.KVIterator{"range": r.RangeIterator(lo, hi), "prefix": r.PrefixIterator(prefix)} {
		var all, sought []string
		for _, k := range slices.Sorted(maps.Keys(model)) {
			inside := k >= string(lo) && (hi == nil || k < string(hi))
			if what == "prefix" {
				inside = strings.HasPrefix(k, string(prefix))
			}
			if !inside {
				continue
			}
			all = append(all, fmt.Sprintf("%q=%q", k, model[k]))
			if k >= string(seek) {
				sought = append(sought, fmt.Sprintf("%q=%q", k, model[k]))
			}
		}
		var first []string
		for ; it.Valid(); it.Next() {
			first = append(first, fmt.Sprintf("%q=%q", it.Key(), it.Value()))
		}
		it.Seek(seek) // also backwards
		if got := pairs(t, it); !slices.Equal(first, all) || !slices.Equal(got, sought) {
			t.Fatalf("step %d, %s %q to %q, prefix %q: got\n%v\nwant\n%v\nthen from %q\n%v\nwant\n%v", step, what, lo, hi, prefix, first, all, seek, got, sought)
		}
	}
}

// TestBatches: what fails changes nothing; Reset forgets merges, too; a batch can be executed again.
func TestBatches(t *testing.T) {
	s := open(t, appending{}, "")
	k, other := []byte("k"), []byte("other")
	assert.OK(t, execute(t, s, func(b store.KVBatch) { b.Set(k, []byte("1")) }))
	if err := execute(t, s, func(b store.KVBatch) { b.Set(other, k); b.Merge(k, []byte("fail")) }); err == nil {
		t.Error("a merge that fails: no error")
	}
	if err := execute(t, open(t, nil, ""), func(b store.KVBatch) { b.Merge(k, k); b.Merge(k, k) }); !errors.Is(err, brock.ErrInvalid) {
		t.Errorf("a merge without an operator: %v", err)
	}
	if err := execute(t, s, func(b store.KVBatch) { b.Set(other, k); b.Set(make([]byte, brock.MaxKeySize+1), k) }); !errors.Is(err, brock.ErrKeyTooLarge) {
		t.Errorf("a key that is too large: %v", err)
	}
	if got := pairs(t, reading(t, s).RangeIterator(nil, nil)); !slices.Equal(got, []string{`"k"="1"`}) {
		t.Errorf("after batches that failed: %v", got)
	}
	w, err := s.Writer()
	assert.OK(t, err)
	for _, o := range []store.KVBatch{nil, store.NewEmulatedBatch(appending{})} {
		if err := w.ExecuteBatch(o); !errors.Is(err, brock.ErrInvalid) {
			t.Errorf("a batch of another store: %v", err)
		}
	}
	if _, _, err := w.NewBatchEx(store.KVBatchOptions{TotalBytes: -1}); !errors.Is(err, brock.ErrInvalid) {
		t.Errorf("a negative size: %v", err)
	}
	room, b, err := w.NewBatchEx(store.KVBatchOptions{TotalBytes: 10, NumMerges: 1})
	if err != nil || len(room) != 10 {
		t.Errorf("%d bytes, %v", len(room), err)
	}
	b.Merge(k, []byte("forgotten"))
	b.Set(other, other)
	b.Reset()
	b.Merge(k, []byte("2"))
	for range 2 {
		assert.OK(t, w.ExecuteBatch(b))
	}
	b.Reset()
	assert.OK(t, w.ExecuteBatch(b))
	if got := pairs(t, reading(t, s).RangeIterator(nil, nil)); !slices.Equal(got, []string{`"k"="122"`}) {
		t.Errorf("got %v", got)
	}
}

// TestMergesOfMany: no merge of concurrent writers is lost.
func TestMergesOfMany(t *testing.T) {
	s := open(t, new(storetest.TestMergeCounter), "")
	one := binary.LittleEndian.AppendUint64(nil, 1)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 50 {
				err := execute(t, s, func(b store.KVBatch) {
					b.Merge([]byte("total"), one)
					b.Merge([]byte("total"), one)
					b.Set([]byte(fmt.Sprint(n, "/", i)), nil)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	value, err := reading(t, s).Get([]byte("total"))
	if err != nil || binary.LittleEndian.Uint64(value) != 800 {
		t.Errorf("%v, %v", value, err)
	}
}

// TestEnds: iterators and readers that are used after their end, or that of the store.
func TestEnds(t *testing.T) {
	s := open(t, nil, t.TempDir())
	assert.OK(t, execute(t, s, func(b store.KVBatch) { b.Set([]byte("a"), []byte("1")); b.Set([]byte("b"), []byte("2")) }))
	r := reading(t, s)
	it, unread := r.RangeIterator(nil, nil), r.RangeIterator(nil, nil)
	clear(it.Key()) // writes to what it must not write to: nothing of the store
	clear(it.Value())
	assert.OK(t, execute(t, s, func(b store.KVBatch) { b.Delete([]byte("a")) }))
	if got, err := r.Get([]byte("a")); err != nil || string(got) != "1" {
		t.Errorf("a reader from before: %q, %v", got, err)
	}
	for range 2 {
		assert.OK(t, r.Close())
	}
	for name, it := range map[string]store.KVIterator{"at a pair": it, "unread": unread, "new": r.PrefixIterator(nil)} {
		it.Next()
		if it.Valid() || it.Key() != nil || it.Value() != nil {
			t.Errorf("%s after Close of the reader: %q", name, it.Key())
		}
		it.Seek([]byte("a"))
		if err := it.Close(); it.Valid() || !errors.Is(err, brock.ErrTxnDone) {
			t.Errorf("%s after Close of the reader: %v", name, err)
		}
	}
	if _, err := r.Get([]byte("a")); !errors.Is(err, brock.ErrTxnDone) {
		t.Errorf("Get after Close: %v", err)
	}
	if _, err := r.MultiGet([][]byte{nil}); !errors.Is(err, brock.ErrTxnDone) {
		t.Errorf("MultiGet after Close: %v", err)
	}
	if tree := s.DB().Metrics().Tree; tree.PinnedVersion != 0 {
		t.Errorf("version %d is read by %s", tree.PinnedVersion, tree.PinnedBy)
	}

	w, err := s.Writer()
	assert.OK(t, err)
	b := w.NewBatch()
	b.Set([]byte("c"), nil)
	r = reading(t, s)
	it = r.RangeIterator(nil, nil)
	for range 2 {
		assert.OK(t, s.Close())
	}
	if it.Value() != nil || it.Valid() || !errors.Is(it.Close(), brock.ErrClosed) {
		t.Errorf("an iterator after Close of the store: %v", it.Close())
	}
	for name, err := range map[string]error{
		"Get": assert.ErrorOf(r.Get(nil)), "Reader": assert.ErrorOf(s.Reader()), "Writer": assert.ErrorOf(s.Writer()), "ExecuteBatch": w.ExecuteBatch(b),
	} {
		if !errors.Is(err, brock.ErrClosed) {
			t.Errorf("%s after Close of the store: %v", name, err)
		}
	}
}

// TestConfig: what bleve's registry passes on.
func TestConfig(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct {
		config map[string]any
		want   error
	}{
		{map[string]any{"path": dir, "create_if_missing": false}, brock.ErrNotExist},
		{map[string]any{"path": dir, "read_only": true}, brock.ErrNotExist},
		{map[string]any{"path": dir, "create_if_missing": true, "error_if_exists": true, "unknown": 1}, nil},
		{map[string]any{"path": dir, "create_if_missing": true, "error_if_exists": true}, brock.ErrExist},
		{map[string]any{"path": dir, "create_if_missing": false, "error_if_exists": false, "memory_limit": 16e6}, nil},
		{map[string]any{"path": dir, "create_if_missing": true, "error_if_exists": true, "read_only": true}, nil},
		{map[string]any{"path": dir, "memory_limit": 1}, brock.ErrInvalid},
		{map[string]any{"path": 7}, brock.ErrInvalid},
		{map[string]any{"path": dir, "nosync": "yes"}, brock.ErrInvalid},
		{map[string]any{"path": dir, "memory_limit": "16MB"}, brock.ErrInvalid},
		{nil, nil}, // in memory
	} {
		s, err := New(nil, c.config)
		if c.want != nil {
			if !errors.Is(err, c.want) {
				t.Errorf("%d: %v, want %v", i, err, c.want)
			}
			continue
		}
		assert.OK(t, err)
		assert.OK(t, s.Close())
	}
	s := open(t, nil, "")
	text, err := json.Marshal(s.Stats())
	if err != nil || !json.Valid(text) || len(s.StatsMap()) < 10 {
		t.Errorf("%s, %v", text, err)
	}
}

// TestDisk: a batch survives a power loss, whole; a full disk refuses one and harms nothing.
func TestDisk(t *testing.T) {
	for range 20 {
		disk := vfs.NewMem()
		db, err := brock.Open(brock.Options{Dir: "d", FS: disk})
		assert.OK(t, err)
		s := In(db, nil, appending{})
		for i := range 10 {
			assert.OK(t, execute(t, s, func(b store.KVBatch) {
				b.Merge([]byte("list"), []byte(fmt.Sprint(i)))
				b.Set([]byte(fmt.Sprint("key", i)), make([]byte, 1000))
			}))
		}
		crashed, err := brock.Open(brock.Options{Dir: "d", FS: disk.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: draw.Seed(t)})})
		assert.OK(t, err)
		r := reading(t, In(crashed, nil, nil))
		list, err := r.Get([]byte("list"))
		if n := len(pairs(t, r.PrefixIterator([]byte("key")))); err != nil || string(list) != "0123456789" || n != 10 {
			t.Errorf("%q and %d keys are left, %v", list, n, err)
		}
		assert.OK(t, crashed.Close())
		assert.OK(t, db.Close())
	}

	disk := vfs.NewMem()
	disk.SetCapacity(16 << 20)
	db, err := brock.Open(brock.Options{Dir: "d", FS: disk, MemoryLimit: 4 << 20, Tuning: brock.Tuning{SegmentSize: 1 << 20}})
	assert.OK(t, err)
	defer db.Close()
	s := In(db, nil, appending{})
	n := 0
	for ; err == nil; n++ {
		err = execute(t, s, func(b store.KVBatch) {
			b.Merge([]byte("list"), []byte("."))
			b.Set([]byte(fmt.Sprint("key", n)), make([]byte, 64<<10))
		})
	}
	if !errors.Is(err, brock.ErrNoSpace) {
		t.Fatal(err)
	}
	r := reading(t, s)
	list, err := r.Get([]byte("list"))
	if keys := len(pairs(t, r.PrefixIterator([]byte("key")))); err != nil || len(list) != n-1 || keys != n-1 {
		t.Errorf("%d merges and %d keys of %d batches, %v", len(list), keys, n-1, err)
	}
}

// TestConcurrent uses everything at once, for the race detector, one reader among it, and closes the
// store meanwhile.
func TestConcurrent(t *testing.T) {
	s := open(t, appending{}, "")
	shared := reading(t, s)
	var users sync.WaitGroup
	many := make(chan struct{})
	for n := range 4 {
		users.Go(func() {
			for i := 0; ; i++ {
				if n == 0 && i == 200 {
					close(many)
				}
				if err := useAll(s, shared, []byte{byte(i % 5)}); err != nil {
					if !errors.Is(err, brock.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	<-many
	assert.OK(t, s.Close())
	users.Wait()
}

func useAll(s *Store, shared store.KVReader, key []byte) error {
	w, err := s.Writer()
	if err != nil {
		return err
	}
	b := w.NewBatch()
	b.Set(key, nil)
	b.Merge(key, key)
	if err := w.ExecuteBatch(b); err != nil {
		return err
	}
	r, err := s.Reader()
	if err != nil {
		return err
	}
	defer r.Close()
	for _, r := range []store.KVReader{r, shared} {
		it := r.RangeIterator(nil, nil)
		for ; it.Valid(); it.Next() {
			it.Value()
		}
		if err := errors.Join(it.Close(), assert.ErrorOf(r.Get(key)), assert.ErrorOf(r.MultiGet([][]byte{key, key}))); err != nil {
			return err
		}
	}
	return nil
}
