package txn

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// A transaction that has asked for the first or last item of a range has read up to that item: it
// conflicts with what would have changed the answer, and with nothing behind it.
func TestFirstAndLastConflict(t *testing.T) {
	for _, tc := range []struct {
		lo, hi      string // "" is no bound
		first, last string // what is found
		write       string // what another transaction writes meanwhile, "-k" a delete
		firstFails  bool
		lastFails   bool
	}{
		{"", "", "d", "p", "a=1", true, false},
		{"", "", "d", "p", "z=1", false, true},
		{"", "", "d", "p", "e=1", false, false},
		{"", "", "d", "p", "d=1", true, false},
		{"", "", "d", "p", "-d", true, false},
		{"", "", "d", "p", "-p", false, true},
		{"", "", "d", "p", "d\x00=1", false, false},
		{"", "", "d", "p", "p\x00=1", false, true},
		{"b", "n", "d", "m", "a=1", false, false},
		{"b", "n", "d", "m", "b=1", true, false},
		{"b", "n", "d", "m", "n=1", false, false},
		{"b", "n", "d", "m", "mm=1", false, true},
		{"b", "c", "-", "-", "bb=1", true, true},
		{"b", "c", "-", "-", "b=1", true, true},
		{"b", "c", "-", "-", "c=1", false, false},
		{"c", "b", "-", "-", "bb=1", false, false},
		{"", "d", "-", "-", "a=1", true, true},
		{"q", "", "-", "-", "z=1", true, true},
	} {
		bound := func(s string) []byte {
			if s == "" {
				return nil
			}
			return []byte(s)
		}
		for _, isolation := range []brock.Isolation{brock.Serializable, brock.SnapshotIsolation} {
			db := storetest.Open(t, brock.Options{})
			other := storetest.OpenKeyspace(t, db, "other")
			storetest.Set(t, db, "d=1", "m=2", "p=3")
			ask := func(find func(*brock.Txn) (*brock.Item, error), want string) error {
				txn := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: isolation}))
				defer txn.Discard()
				got := "-"
				if item, err := find(txn); err == nil {
					got = string(item.Key())
				} else {
					assert.Error(t, "find", err, brock.ErrKeyNotFound)
				}
				assert.Equal(t, fmt.Sprintf("in %q-%q", tc.lo, tc.hi), got, want)
				assert.OK(t, txn.In(other).Set([]byte("w"), nil)) // a write, or there is nothing to check
				if key, deleted := strings.CutPrefix(tc.write, "-"); deleted {
					assert.OK(t, db.Delete([]byte(key)))
				} else {
					storetest.Set(t, db, tc.write)
				}
				return txn.Commit()
			}
			serializable := isolation == brock.Serializable
			err := ask(func(txn *brock.Txn) (*brock.Item, error) { return txn.First(bound(tc.lo), bound(tc.hi)) }, tc.first)
			if errors.Is(err, brock.ErrConflict) != (tc.firstFails && serializable) {
				t.Errorf("%s: First in %q-%q, then %q: %v", isolation, tc.lo, tc.hi, tc.write, err)
			}
			assert.OK(t, errors.Join(db.DropAll(t.Context())))
			storetest.Set(t, db, "d=1", "m=2", "p=3")
			err = ask(func(txn *brock.Txn) (*brock.Item, error) { return txn.Last(bound(tc.lo), bound(tc.hi)) }, tc.last)
			if errors.Is(err, brock.ErrConflict) != (tc.lastFails && serializable) {
				t.Errorf("%s: Last in %q-%q, then %q: %v", isolation, tc.lo, tc.hi, tc.write, err)
			}
		}
	}
}

// Items of First and Last stay what they are until the transaction ends, whatever is asked and
// written meanwhile, and wherever they lie: in memory, in files, in own writes, in spilled ones.
func TestFirstIsValidUntilTheEnd(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		o := brock.Options{Dir: t.TempDir(), KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 300, Compression: brock.S2, CompressAbove: 1}}
		if keyed {
			o.Keys = storetest.MasterKey(1)
		}
		db := storetest.Open(t, o)
		key, value := func(i int) string { return fmt.Sprintf("%040d", i) }, func(i int) string { return strings.Repeat(fmt.Sprint(i, " "), 1+i*20%90) }
		for i := range 300 {
			storetest.Set(t, db, key(i)+"="+value(i))
			if i == 100 {
				assert.OK(t, db.Flush(t.Context()))
			}
		}
		for _, memory := range []int64{0, 1} {
			txn := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: memory}))
			var items []*brock.Item
			for i := range 300 {
				if i%3 == 0 {
					assert.OK(t, storetest.Put(txn, key(i)+"="+value(i)))
				}
				items = append(items, assert.Must(txn.First([]byte(key(i)), nil)), assert.Must(txn.Last(nil, []byte(key(i)+"\x00"))))
			}
			for n, item := range items {
				assert.Equal(t, "key", string(item.Key()), key(n/2))
				assert.Equal(t, "value", string(assert.Must(item.Value())), value(n/2))
			}
			assert.OK(t, txn.Commit())
			assert.Error(t, "ended", assert.ErrorOf(items[0].Value()), brock.ErrTxnDone)
		}
	}
}

// Each taker of a queue gets the first item that nobody else has, beside those who append. The first
// item is another one in each run of an Update, and none gives up.
func TestFirstTakesFromAQueue(t *testing.T) {
	for range 50 {
		takeFromAQueue(t)
	}
}

func takeFromAQueue(t *testing.T) {
	db := storetest.Open(t, brock.Options{Durability: brock.Buffered})
	const takers, each = 4, 30
	var mu sync.Mutex
	taken := map[string]int{}
	var work sync.WaitGroup
	for n := range takers {
		work.Go(func() {
			for i := range each {
				assert.OK(t, db.Set(fmt.Appendf(nil, "%03d-%d", i, n), nil))
				var key string
				assert.OK(t, db.Update(func(txn *brock.Txn) error {
					item, err := txn.First(nil, nil)
					if err != nil {
						return err // never: each taker has put one in before it takes one
					}
					key = string(item.Key())
					return txn.Delete(item.Key())
				}))
				mu.Lock()
				taken[key]++
				mu.Unlock()
			}
		})
	}
	work.Wait()
	assert.Equal(t, "items", len(taken), takers*each)
	assert.Equal(t, "contents", storetest.ShowContents(t, db), "")
}

// What was deleted in front is skipped, as if it was not there.
func TestFirstSkipsWhatWasDeleted(t *testing.T) {
	const deleted = 100_000
	for name, find := range map[string]func(txn *brock.Txn) (*brock.Item, error){
		"First": func(txn *brock.Txn) (*brock.Item, error) { return txn.First(nil, []byte("y")) },
		"Last":  func(txn *brock.Txn) (*brock.Item, error) { return txn.Last([]byte("b"), nil) },
	} {
		db := storetest.Open(t, brock.Options{Durability: brock.Buffered, Maintenance: brock.Maintenance{IdleAfter: time.Hour}})
		storetest.Set(t, db, "m=1")
		w := db.NewWriter(t.Context())
		for i := range deleted {
			k := fmt.Appendf(nil, "c%06d", i)
			if name == "Last" {
				k[0] = 'x'
			}
			assert.OK(t, errors.Join(w.Set(k, nil), w.Delete(k)))
		}
		assert.OK(t, w.Close())
		took := func() time.Duration {
			begin := time.Now()
			assert.OK(t, db.View(func(txn *brock.Txn) error {
				item, err := find(txn)
				if err == nil && !bytes.Equal(item.Key(), []byte("m")) {
					t.Errorf("%s is %q", name, item.Key())
				}
				return err
			}))
			return time.Since(begin)
		}
		best := time.Hour
		for range 20 { // the best, as the machine does other things
			best = min(best, took())
		}
		if best > time.Millisecond { // to walk over all of them takes some 10 ms
			t.Errorf("%s: %v", name, best)
		}
	}
}

// Bounds may be longer than any key, and empty.
func TestFirstWithLongBounds(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=1", "b=2")
	long := bytes.Repeat([]byte("a"), brock.MaxKeySize+10)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "behind a long bound", string(assert.Must(txn.First(long, nil)).Key()), "b")
		assert.Equal(t, "before a long bound", string(assert.Must(txn.Last(nil, long)).Key()), "a")
		assert.Equal(t, "from an empty bound", string(assert.Must(txn.First([]byte{}, nil)).Key()), "a")
		assert.Error(t, "up to an empty bound", assert.ErrorOf(txn.Last(nil, []byte{})), brock.ErrKeyNotFound)
		return nil
	}))
}

// TestFirstOverOperations: First and Last show what operations make of the keys that they pass, and
// those that they don't pass stay operations. It would find an operation that is shown as an empty value,
// one that clears a key and is shown all the same, and a conflict over a key that was not read.
func TestFirstOverOperations(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	storetest.Set(t, db, "a=1", "b=2", "c=3", "d=4", "e=5")
	txn := db.NewTransaction(true)
	defer txn.Discard()
	clearIf := func(pairs ...string) {
		for _, p := range pairs {
			assert.OK(t, txn.Apply(brock.OpClearIf, []byte(p[:1]), []byte(p[2:])))
		}
	}
	clearIf("a=1", "b=2", "e=no")
	assert.OK(t, txn.Apply(brock.OpAppend, []byte("c"), []byte("+")))
	assert.OK(t, txn.Apply(brock.OpAppend, []byte("d"), []byte("+")))
	assert.OK(t, txn.Apply(brock.OpAppend, nil, []byte("none")))
	assert.OK(t, txn.Delete(nil))
	show := func(item *brock.Item, err error) string {
		if err != nil {
			return err.Error()
		}
		return string(item.Key()) + "=" + string(assert.Must(item.Value()))
	}
	assert.Equal(t, "first", show(txn.First(nil, nil)), "c=3+")
	assert.Equal(t, "last", show(txn.Last(nil, nil)), "e=5")
	assert.Equal(t, "first in a", show(txn.First([]byte("a"), []byte("b"))), brock.ErrKeyNotFound.Error())
	storetest.Set(t, db, "d=44") // not read: no conflict
	assert.OK(t, txn.Commit())
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "pairs", storetest.ShowItems(txn.All()), "c=3+ d=44+ e=5")
		return nil
	}))
	other := db.NewTransaction(true)
	defer other.Discard()
	assert.OK(t, other.Apply(brock.OpAppend, []byte("c"), []byte("+")))
	assert.Equal(t, "first", show(other.First(nil, nil)), "c=3++")
	storetest.Set(t, db, "c=3")
	assert.Error(t, "what it has shown is read", other.Commit(), brock.ErrConflict)
}
