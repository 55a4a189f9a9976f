package resources

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// Reads in memory allocate a bounded number of times: a get once, an iterator once more,
// whatever it walks. A transaction that reads and sets allocates once, too.
func TestAllocations(t *testing.T) {
	process.RequireMappings(t)
	if process.RaceEnabled || invariant.Enabled || invariant.Poisons {
		t.Skip("pools and copies are not those of a release")
	}
	for _, size := range []int{16, 1000} {
		db := storetest.Open(t, brock.DefaultOptions(t.TempDir()))
		w := db.NewWriter(context.Background())
		key := func(i int) []byte { return fmt.Appendf(nil, "key-%011d", i) }
		const pairs = 4000
		for i := range pairs {
			assert.OK(t, w.Set(key(i), storetest.RandomBytes(i, size)))
		}
		assert.OK(t, w.Close())
		assert.OK(t, db.Compact(context.Background()))
		k := key(pairs / 3)
		count := func(what string, most float64, fn func(txn *brock.Txn) error) {
			t.Helper()
			run := func() { assert.OK(t, db.View(fn)) }
			run() // values are verified, pools filled
			if n := testing.AllocsPerRun(50, run); n > most {
				t.Errorf("values of %d: %s allocates %v times, want %v", size, what, n, most)
			}
		}
		count("a get", 1, func(txn *brock.Txn) error {
			item, err := txn.Get(k)
			if err != nil {
				return err
			}
			_, err = item.Value()
			return err
		})
		count("the first of a range", 1, func(txn *brock.Txn) error {
			item, err := txn.First(k, nil)
			if err != nil {
				return err
			}
			_, err = item.Value()
			return err
		})
		count("the last of a range", 1, func(txn *brock.Txn) error { _, err := txn.Last(nil, k); return err })
		room := make([]byte, 0, size)
		if n := testing.AllocsPerRun(50, func() { room = assert.Must(db.AppendValue(room[:0], k)) }); n > 0 {
			t.Errorf("values of %d: AppendValue allocates %v times", size, n)
		}
		walk := func(o brock.IteratorOptions, items int) func(txn *brock.Txn) error {
			return func(txn *brock.Txn) error {
				it := txn.NewIterator(o)
				defer it.Close()
				for it.Seek(k); it.Valid() && items > 0; it.Next() {
					items--
					if !o.KeysOnly {
						if _, err := it.Item().Value(); err != nil {
							return err
						}
					}
				}
				return it.Err()
			}
		}
		count("a seek", 2, walk(brock.IteratorOptions{}, 1))
		count("a seek and 50 items", 2, walk(brock.IteratorOptions{}, 50))
		count("a scan of values", 2, walk(brock.IteratorOptions{}, pairs))
		count("a scan of keys", 2, walk(brock.IteratorOptions{KeysOnly: true}, pairs))
		count("a scan back", 2, walk(brock.IteratorOptions{Reverse: true}, pairs))

		assert.OK(t, db.Set(k, nil))
		count("a seek and 50 items beside writes", 3, walk(brock.IteratorOptions{}, 50))

		// What was deleted a reader knows as a range, which costs each scan a little more.
		for i := range 1000 {
			assert.OK(t, db.Delete(key(i)))
		}
		count("a seek among deletes", 12, walk(brock.IteratorOptions{}, 50))

		value := storetest.RandomBytes(0, 16)
		update := func() {
			assert.OK(t, db.Update(func(txn *brock.Txn) error {
				if _, err := txn.Get(k); err != nil {
					return err
				}
				return txn.Set(k, value)
			}))
		}
		update()
		if n := testing.AllocsPerRun(50, update); n > 1 {
			t.Errorf("a get and a set allocate %v times, want once", n)
		}
	}
}

// A scan of an encrypted store that gives memory for values, or needs them only for a moment,
// allocates nothing for each of them.
func TestEncryptedValuesGoToTheCallersMemory(t *testing.T) {
	if process.RaceEnabled || invariant.Enabled || invariant.Poisons {
		t.Skip("pools and copies are not those of a release")
	}
	o := brock.DefaultOptions(t.TempDir())
	o.Keys = storetest.MasterKey(1)
	db := storetest.Open(t, o)
	w := db.NewWriter(context.Background())
	const pairs = 2000
	for i := range pairs {
		assert.OK(t, w.Set(fmt.Appendf(nil, "key-%011d", i), storetest.RandomBytes(i, 1000)))
	}
	assert.OK(t, w.Close())
	buf := make([]byte, 0, 1000)
	for what, use := range map[string]func(item *brock.Item) error{
		"ValueCopy": func(item *brock.Item) error {
			v, err := item.ValueCopy(buf)
			if err == nil && &v[0] != &buf[:1][0] {
				return fmt.Errorf("the value is not where it should be")
			}
			return err
		},
		"ValueFunc": func(item *brock.Item) error {
			return item.ValueFunc(func([]byte) error { return nil })
		},
	} {
		run := func() {
			assert.OK(t, db.View(func(txn *brock.Txn) error {
				for item, err := range txn.All() {
					if err != nil {
						return err
					}
					if err := use(item); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		run()
		// The collector may empty a pool meanwhile.
		if n := testing.AllocsPerRun(5, run); n > pairs/20 {
			t.Errorf("%s: %v allocations for %d values", what, n, pairs)
		}
	}
}

// A value that is not in a mapping costs a View no more memory than one that is. It lies in
// memory that readers lend each other: of an encrypted store, or compressed.
func TestViewsLendMemoryForValues(t *testing.T) {
	process.RequireMappings(t)
	if process.RaceEnabled || invariant.Enabled || invariant.Poisons {
		t.Skip("pools and copies are not those of a release")
	}
	compressed := brock.KeyspaceOptions{Compression: brock.S2}
	for what, o := range map[string]brock.Options{
		"encrypted":                {Keys: storetest.MasterKey(1)},
		"compressed":               {KeyspaceDefaults: compressed},
		"encrypted and compressed": {Keys: storetest.MasterKey(1), KeyspaceDefaults: compressed},
	} {
		o.Dir, o.Durability = t.TempDir(), brock.Buffered
		db := storetest.Open(t, o)
		value := append(bytes.Repeat([]byte("value"), 400), storetest.RandomBytes(1, 1000)...)
		assert.OK(t, db.Set([]byte("key"), value))
		assert.OK(t, db.Compact(t.Context()))
		if n := testing.AllocsPerRun(50, func() {
			assert.OK(t, db.View(func(txn *brock.Txn) error {
				item, err := txn.Get([]byte("key"))
				if err != nil {
					return err
				}
				got, err := item.Value()
				if err == nil && !bytes.Equal(got, value) {
					t.Errorf("%s: other bytes", what)
				}
				return err
			}))
		}); n > 2 { // the Txn, and []byte("key")
			t.Errorf("%s: %v allocations, want 2", what, n)
		}
	}
}
