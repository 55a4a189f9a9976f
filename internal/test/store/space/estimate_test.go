package space

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// In memory and in runs, EstimateSize is right within 10 %, and the parts that
// Split makes differ by a factor of two at most.
func TestEstimatesOfRealData(t *testing.T) {
	t.Parallel()
	const n, size = 20_000, 120
	db := storetest.Open(t, brock.Options{Durability: brock.Buffered, KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 100}})
	key := func(i int) []byte { return fmt.Appendf(nil, "%08d", i) }
	for at := 0; at < n; at += 1000 {
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			for j := range 1000 {
				i := (at + j) * 7919 % n
				if err := txn.Set(key(i), make([]byte, size*(i%2))); err != nil {
					return err
				}
			}
			return nil
		}))
		if at == n/2 {
			assert.OK(t, db.Flush(t.Context()))
		}
	}
	near := func(what string, got, want, slack int64) {
		t.Helper()
		if got < want-slack || got > want+slack {
			t.Errorf("%s: %d, want about %d", what, got, want)
		}
	}
	check := func() {
		t.Helper()
		for _, r := range [][2]int{{0, n}, {n / 4, n / 2}, {n / 3, n/3 + n/10}} {
			count := int64(r[1] - r[0])
			entries, bytes := db.EstimateSize(key(r[0]), key(r[1]))
			near(fmt.Sprintf("entries in %v", r), entries, count, n/100+count/10)
			want := count * (9 + size/2)
			near(fmt.Sprintf("bytes in %v", r), bytes, want, n/100*(9+size/2)+want/4)
		}
		for _, parts := range []int{2, 5, 16} {
			cuts := db.Split(key(n/10), key(n), parts)
			assert.Equal(t, "cuts", len(cuts), parts-1)
			last, least, most := n/10, n, 0
			for _, cut := range append(cuts, key(n)) {
				var at int
				if _, err := fmt.Sscanf(string(cut), "%d", &at); err != nil {
					t.Fatal(err)
				}
				least, most, last = min(least, at-last), max(most, at-last), at
			}
			if most > 2*least {
				t.Errorf("%d parts are of %d to %d keys", parts, least, most)
			}
		}
	}
	check()
	assert.OK(t, db.Compact(t.Context()))
	check()
}

// What lies beside a range, in the same memtable or chunk, does not count: neighbours may have values
// of any size, and a range may be a small part of the store.
func TestEstimatesOfASmallPart(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, brock.Options{Durability: brock.Buffered})
	key := func(i int) []byte { return fmt.Appendf(nil, "%06d", i) }
	fill := func(name string, n, size int) *brock.Keyspace {
		ks, err := db.Keyspace(name)
		assert.OK(t, err)
		w := ks.NewWriter(t.Context())
		for i := range n {
			assert.OK(t, w.Set(key(i), make([]byte, size)))
		}
		assert.OK(t, w.Close())
		return ks
	}
	sizes := map[string]int{"counters": 8, "images": 20_000, "pages": 900, "words": 30}
	counts := map[string]int{"counters": 1000, "images": 300, "pages": 5000, "words": 60_000}
	spaces := map[string]*brock.Keyspace{}
	for _, name := range []string{"counters", "images", "words", "pages"} {
		spaces[name] = fill(name, counts[name], sizes[name])
	}
	check := func(where string) {
		t.Helper()
		for name, ks := range spaces {
			for _, part := range []int{1, 7, 100} {
				n := counts[name] / part
				entries, bytes := ks.EstimateSize(key(counts[name]-n), nil)
				want := int64(n) * int64(7+sizes[name])
				if e := int64(n); entries < e*9/10-3 || entries > e*11/10+3 || bytes < want*4/5-3*want/e || bytes > want*5/4+3*want/e {
					t.Errorf("%s, the last %d %s: %d entries of %d bytes, want %d", where, n, name, entries, bytes, want)
				}
				lo := counts[name] / 2
				cuts, last := ks.Split(key(lo), key(lo+n/2), 8), lo
				if n < 100 {
					continue
				}
				for _, cut := range append(cuts, key(lo+n/2)) {
					var at int
					if _, err := fmt.Sscanf(string(cut), "%d", &at); err != nil || at-last > n/2/8*3/2+1 {
						t.Errorf("%s, %d %s in 8 parts: one of %d; %v", where, n/2, name, at-last, err)
					}
					last = at
				}
			}
		}
	}
	check("in memory")
	assert.OK(t, db.Flush(t.Context()))
	check("as flushed")
	assert.OK(t, db.Compact(t.Context()))
	check("in one run")
}

func TestEstimateAndSplit(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 100}})
	for i := range 100 {
		assert.OK(t, db.Set([]byte(fmt.Sprintf("%02d", i)), make([]byte, 50+100*(i%2))))
	}
	n, bytes := db.EstimateSize(nil, nil)
	assert.Equal(t, "entries", n, 100)
	assert.Equal(t, "bytes", bytes, 100*3+50*50+50*150)
	n, _ = db.EstimateSize([]byte("10"), []byte("20"))
	assert.Equal(t, "entries in a range", n, 10)
	assert.Equal(t, "Split", fmt.Sprintf("%s", db.Split(nil, nil, 4)), "[25 50 75]")
	assert.Equal(t, "Split of a range", fmt.Sprintf("%s", db.Split([]byte("10"), []byte("20"), 2)), "[15]")
	assert.Equal(t, "Split in one", len(db.Split(nil, nil, 1)), 0)
}

// A key with many versions does not cut off an empty part.
func TestSplitCutsBehindTheFirstKey(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, brock.Options{})
	for range 5 {
		assert.OK(t, db.Set([]byte("k"), []byte("v")))
	}
	assert.Equal(t, "Split", len(db.Split([]byte("k"), nil, 3)), 0)
	assert.OK(t, db.Set([]byte("l"), []byte("v")))
	assert.OK(t, db.Set([]byte("l"), []byte("w")))
	assert.Equal(t, "Split of two keys", fmt.Sprintf("%s", db.Split([]byte("k"), nil, 7)), "[l]")
}

// A few small entries among large ones are cut into as many parts as are asked for.
func TestSplitOfASmallPartBesideLargeValues(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 32 << 10}})
	for i := range 40 {
		assert.OK(t, db.Set(fmt.Appendf(nil, "a%02d", i), storetest.RandomBytes(i, 16_000)))
		assert.OK(t, db.Set(fmt.Appendf(nil, "m%02d", i/2), []byte("small")))
		assert.OK(t, db.Set(fmt.Appendf(nil, "z%02d", i), storetest.RandomBytes(i, 16_000)))
	}
	check := func(where string) {
		t.Helper()
		n, _ := db.EstimateSize([]byte("m"), []byte("n"))
		assert.Equal(t, "entries "+where, n >= 20 && n <= 40, true)
		assert.Equal(t, "Split "+where, fmt.Sprintf("%s", db.Split([]byte("m"), []byte("n"), 4)), "[m05 m10 m15]")
		assert.Equal(t, "Split of ten keys "+where, fmt.Sprintf("%s", db.Split([]byte("m05"), []byte("m15"), 2)), "[m10]")
	}
	check("in memory")
	assert.OK(t, db.Flush(t.Context()))
	check("as flushed")
	assert.OK(t, db.Compact(t.Context()))
	check("in one run")
}
