package storetest

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock"
)

// In memory and in runs, EstimateSize is right within 10 %, and the parts that
// Split makes differ by a factor of two at most.
func TestEstimatesOfRealData(t *testing.T) {
	const n, size = 20_000, 120
	db := openTest(t, brock.Options{Durability: brock.Buffered, KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 100}})
	key := func(i int) []byte { return fmt.Appendf(nil, "%08d", i) }
	for at := 0; at < n; at += 1000 {
		must(t, db.Update(func(txn *brock.Txn) error {
			for j := range 1000 {
				i := (at + j) * 7919 % n
				if err := txn.Set(key(i), make([]byte, size*(i%2))); err != nil {
					return err
				}
			}
			return nil
		}))
		if at == n/2 {
			must(t, db.Flush(t.Context()))
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
			wantEqual(t, "cuts", len(cuts), parts-1)
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
	must(t, db.Compact(t.Context()))
	check()
}

func TestEstimateAndSplit(t *testing.T) {
	db := openTest(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 100}})
	for i := range 100 {
		must(t, db.Set(b(fmt.Sprintf("%02d", i)), make([]byte, 50+100*(i%2))))
	}
	n, bytes := db.EstimateSize(nil, nil)
	wantEqual(t, "entries", n, 100)
	wantEqual(t, "bytes", bytes, 100*3+50*50+50*150)
	n, _ = db.EstimateSize(b("10"), b("20"))
	wantEqual(t, "entries in a range", n, 10)
	wantEqual(t, "Split", fmt.Sprintf("%s", db.Split(nil, nil, 4)), "[25 50 75]")
	wantEqual(t, "Split of a range", fmt.Sprintf("%s", db.Split(b("10"), b("20"), 2)), "[15]")
	wantEqual(t, "Split in one", len(db.Split(nil, nil, 1)), 0)
}

// A key with many versions does not cut off an empty part.
func TestSplitCutsBehindTheFirstKey(t *testing.T) {
	db := openTest(t, brock.Options{})
	for range 5 {
		must(t, db.Set(b("k"), b("v")))
	}
	wantEqual(t, "Split", len(db.Split(b("k"), nil, 3)), 0)
	must(t, db.Set(b("l"), b("v")))
	must(t, db.Set(b("l"), b("w")))
	wantEqual(t, "Split of two keys", fmt.Sprintf("%s", db.Split(b("k"), nil, 7)), "[l]")
}
