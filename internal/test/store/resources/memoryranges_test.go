package resources

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// rangeKeys is how many keys the shapes with range deletes have: two for each of these.
func rangeKeys(short bool) int {
	if short {
		return 20_000
	}
	return 100_000
}

// fillRanges sets key 2i, and a key behind it that a range delete covers, for each i.
func fillRanges(t *testing.T, db *brock.DB, n int) {
	w := db.NewWriter(t.Context())
	for i := range n {
		assert.OK(t, w.Set(fmt.Appendf(nil, "key%08d/a", i), []byte("v")))
		assert.OK(t, w.Set(fmt.Appendf(nil, "key%08d/b", i), []byte("v")))
	}
	assert.OK(t, w.Close())
}

// deletedRange is the i-th range that the shapes delete, in no order.
func deletedRange(i, n int) (lo, hi []byte) {
	k := i * 7919 % n
	return fmt.Appendf(nil, "key%08d/b", k), fmt.Appendf(nil, "key%08d/c", k)
}

// count is how many keys a transaction sees.
func count(txn *brock.Txn) (n int) {
	it := txn.NewIterator(brock.IteratorOptions{KeysOnly: true})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		n++
	}
	return n
}

// manyRanges deletes ranges of one key each: half of them one by one, the others in one
// transaction.
func manyRanges(t *testing.T, db *brock.DB, short bool) (held int64) {
	n := rangeKeys(short)
	fillRanges(t, db, n)
	for i := range n / 2 {
		assert.OK(t, db.DeleteRange(deletedRange(i, n)))
	}
	assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 1 << 20}, func(txn *brock.Txn) error {
		for i := n / 2; i < n; i++ {
			if err := txn.DeleteRange(deletedRange(i, n)); err != nil {
				return err
			}
		}
		if got := count(txn); got != n {
			t.Errorf("the transaction sees %d keys, want %d", got, n)
		}
		return nil
	}))
	for range 2 {
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			if got := count(txn); got != n {
				t.Errorf("%d keys, want %d", got, n)
			}
			return nil
		}))
		assert.OK(t, db.Compact(t.Context()))
	}
	return 0
}

// retainedRanges deletes ranges of a keyspace that retains them all: each compaction writes them
// with their history.
func retainedRanges(t *testing.T, db *brock.DB, short bool) (held int64) {
	n := 50_000
	if short {
		n = 10_000
	}
	ks := storetest.OpenKeyspace(t, db, "retaining", brock.KeyspaceOptions{Versions: brock.Retention{Age: time.Hour}})
	pad := strings.Repeat("p", 200)
	key := func(i int) []byte { return fmt.Appendf(nil, "%08d%s", i, pad) }
	b := db.NewBatch()
	for i := range n {
		assert.OK(t, b.In(ks).DeleteRange(key(2*i), key(2*i+1)))
		if b.Len() == 100 {
			assert.Must(b.Commit(t.Context(), 0))
			b.Reset()
		}
	}
	for range 2 {
		assert.OK(t, db.Compact(t.Context()))
	}
	return 0
}

// unseenRanges deletes ranges, which overlap too, while a reader is open that sees what they
// delete; so runs have each of them.
func unseenRanges(t *testing.T, db *brock.DB, short bool) (held int64) {
	n := rangeKeys(short) / 4
	fillRanges(t, db, n)
	reader := db.NewTransaction(false)
	defer reader.Discard()
	var readers []*brock.Txn
	for i := range n {
		lo, hi := deletedRange(i, n)
		if i%10 == 0 {
			k := i * 7919 % n
			hi = fmt.Appendf(nil, "key%08d/c", min(k+n/10, n))
		}
		assert.OK(t, db.DeleteRange(lo, hi))
		if i == n/3 || i == n/2 {
			txn := db.NewTransaction(false)
			defer txn.Discard()
			readers = append(readers, txn)
		}
	}
	before := []int{count(readers[0]), count(readers[1])}
	assert.OK(t, db.Compact(t.Context()))
	if got := count(reader); got != 2*n {
		t.Errorf("the old reader sees %d keys, want %d", got, 2*n)
	}
	for i, r := range readers {
		if got := count(r); got != before[i] || got == 0 {
			t.Errorf("reader %d sees %d keys, before the compaction %d", i, got, before[i])
		}
	}
	return 0
}
