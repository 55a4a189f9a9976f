package read

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// Long walks over runs, which take many entries at once where these are plain, show what a
// sorted list does: whatever the mixture of runs and memtables, of values, deletes, range
// deletes and newer versions, and wherever the walk turns.
func TestLongWalks(t *testing.T) {
	seed := draw.Seed(t)
	for round := range 12 {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		t.Run(fmt.Sprintf("seed=%d/%d", seed, round), func(t *testing.T) { checkLongWalks(t, r) })
	}
}

func checkLongWalks(t *testing.T, r *rand.Rand) {
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 40}})
	const keys = 3000
	key := func(i int) string {
		return fmt.Sprintf("%s-%06d", []string{"k", "key", "some-longer-key"}[i*3/keys], i)
	}
	have := map[string]string{}
	change := func(n int, set bool) {
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			for range n {
				i := r.IntN(keys)
				switch k := key(i); {
				case r.IntN(1000) == 0:
					to := key(min(i+r.IntN(200), keys-1))
					for k := range have {
						if set && k >= key(i) && k < to {
							delete(have, k)
						}
					}
					if err := txn.DeleteRange([]byte(k), []byte(to)); err != nil && to != k {
						return err
					}
				case r.IntN(20) == 0:
					if set {
						delete(have, k)
					}
					if err := txn.Delete([]byte(k)); err != nil {
						return err
					}
				default:
					e := brock.NewEntry([]byte(k), storetest.RandomBytes(r.IntN(1000), r.IntN(60)))
					if r.IntN(50) == 0 {
						e.WithMeta(1)
					}
					if set {
						have[k] = string(e.Value)
					}
					if err := txn.SetEntry(e); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
	for range 1 + r.IntN(3) {
		change(r.IntN(2*keys), true)
		if r.IntN(3) > 0 {
			assert.OK(t, db.Flush(t.Context()))
		}
	}
	if r.IntN(2) == 0 {
		assert.OK(t, db.Compact(t.Context()))
	}
	change(r.IntN(30), true)
	txn := db.NewTransaction(r.IntN(2) == 0)
	defer txn.Discard()
	if r.IntN(2) == 0 { // newer than the reader
		change(r.IntN(keys), false)
		if r.IntN(2) == 0 {
			assert.OK(t, db.Flush(t.Context()))
		}
	}
	o := brock.IteratorOptions{KeysOnly: r.IntN(2) == 0}
	var list []string
	lo, hi := r.IntN(keys), r.IntN(keys)
	if r.IntN(2) == 0 && lo < hi {
		o.Lower, o.Upper = []byte(key(lo)), []byte(key(hi))
	}
	if r.IntN(4) == 0 {
		o.Filter = func(key []byte, _ byte) bool { return key[len(key)-1] != '7' }
	}
	for k := range have {
		if (o.Lower == nil || k >= string(o.Lower) && k < string(o.Upper)) && (o.Filter == nil || o.Filter([]byte(k), 0)) {
			list = append(list, k)
		}
	}
	slices.Sort(list)
	it := txn.NewIterator(o)
	defer it.Close()
	at := 0
	check := func(move string) {
		t.Helper()
		assert.OK(t, it.Err())
		if inside := at >= 0 && at < len(list); it.Valid() != inside {
			t.Fatalf("%s: valid is %v at %d of %d", move, it.Valid(), at, len(list))
		} else if inside && string(it.Item().Key()) != list[at] {
			t.Fatalf("%s is at %q, want %q", move, it.Item().Key(), list[at])
		}
		if it.Valid() && r.IntN(4) == 0 {
			assert.Equal(t, "value", string(assert.Must(it.Item().ValueCopy(nil))), have[list[at]])
		}
	}
	for range 40 {
		if k := key(r.IntN(keys)); r.IntN(3) == 0 {
			it.Rewind()
			at = 0
			check("Rewind")
		} else {
			it.Seek([]byte(k))
			at = sort.SearchStrings(list, k)
			check("Seek")
		}
		for n := range r.IntN(1 << r.IntN(10)) {
			if !it.Valid() {
				break
			}
			if turns := r.IntN(40); turns == 0 || n > 3 && turns < 3 {
				for range 1 + r.IntN(5) {
					if it.Valid() {
						it.Prev()
						at--
						check("Prev")
					}
				}
				continue
			}
			it.Next()
			at++
			check("Next")
		}
	}
}
