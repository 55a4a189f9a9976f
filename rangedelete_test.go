package brock

import (
	"fmt"
	"testing"
)

// A walk into a deleted range passes over it at once, in both directions,
// wherever entries and tombstone are, and finds what was written since.
func TestDeletedRangesAreSkipped(t *testing.T) {
	const n = 20_000
	for _, flush := range []string{"", "entries", "both"} {
		db := openTest(t, Options{})
		batch := db.NewBatch()
		for i := range n {
			must(t, batch.Set(fmt.Appendf(nil, "k%06d", i), b("v")))
		}
		must(t, batch.Commit(t.Context()))
		if flush != "" {
			must(t, db.Flush(t.Context()))
		}
		must(t, db.DeleteRange(b("k000100"), b("k019900")))
		set(t, db, "k010000=new")
		if flush == "both" {
			reader := db.NewTransaction(false) // keeps what is deleted
			defer reader.Discard()
			must(t, db.Flush(t.Context()))
		}
		must(t, db.View(func(txn *Txn) error {
			for _, reverse := range []bool{false, true} {
				it := txn.NewIterator(IteratorOptions{Reverse: reverse})
				defer it.Close()
				count := &counting{Iterator: it.walk.src}
				it.walk.src = count
				it.Seek(b(map[bool]string{false: "k000099", true: "k019900"}[reverse]))
				var keys []string
				for range 3 {
					keys = append(keys, string(it.Item().Key()))
					it.Next()
				}
				want := "[k000099 k010000 k019900]"
				if reverse {
					want = "[k019900 k010000 k000099]"
				}
				wantEqual(t, fmt.Sprintf("flushed %q, reverse %v", flush, reverse), fmt.Sprint(keys), want)
				if count.moves > 60 {
					t.Errorf("flushed %q, reverse %v: %d moves", flush, reverse, count.moves)
				}
			}
			return nil
		}))
	}
}
