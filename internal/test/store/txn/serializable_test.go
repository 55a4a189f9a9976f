package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// Transactions that read very many keys are checked before their turn, while others
// commit, memtables are flushed and ranges are deleted. In the order of their versions
// each has read what those before it have written.
func TestManyReadsAreSerializable(t *testing.T) {
	const keys, workers, calls = 400, 6, 15
	seed := draw.Seed(t)
	t.Logf("seed %d", seed)
	db := storetest.Open(t, brock.Options{Durability: brock.Buffered, Tuning: brock.Tuning{MemtableSize: 64 << 10}})
	key := func(i int) []byte { return fmt.Appendf(nil, "k%03d", i) }
	type commit struct {
		version  uint64
		sum      int // of all values, as it was read
		from, to int // keys that it deleted
		key, n   int // the key that it set, and its value
	}
	var mu sync.Mutex
	var commits []commit
	run := func(r *rand.Rand) error {
		txn := db.NewTransaction(true)
		defer txn.Discard()
		c := commit{key: r.IntN(keys), n: r.IntN(1000)}
		for i := range keys {
			n, _ := strconv.Atoi(storetest.Get(txn, string(key(i))))
			c.sum += n
		}
		if r.IntN(10) == 0 {
			c.from = r.IntN(keys)
			c.to = min(c.from+5, keys)
			assert.OK(t, txn.DeleteRange(key(c.from), key(c.to)))
		}
		assert.OK(t, txn.Set(key(c.key), strconv.AppendInt(nil, int64(c.n), 10)))
		if r.IntN(3) == 0 { // so that memtables fill
			assert.OK(t, txn.Set([]byte("filler"), make([]byte, 20_000)))
		}
		if err := txn.Commit(); err != nil {
			return err
		}
		c.version = txn.CommitVersion()
		mu.Lock()
		defer mu.Unlock()
		commits = append(commits, c)
		return nil
	}
	var work sync.WaitGroup
	for w := range workers {
		r := rand.New(rand.NewPCG(seed, uint64(w)))
		work.Go(func() {
			for range calls {
				for {
					err := run(r)
					if err == nil {
						break
					}
					if !errors.Is(err, brock.ErrConflict) {
						t.Error(err)
						return
					}
				}
				if r.IntN(10) == 0 {
					if err := db.Flush(context.Background()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	work.Wait()
	slices.SortFunc(commits, func(a, b commit) int { return cmp.Compare(a.version, b.version) })
	var values [keys]int
	for _, c := range commits {
		sum := 0
		for _, n := range values {
			sum += n
		}
		if c.sum != sum {
			t.Fatalf("version %d has read a sum of %d, want %d", c.version, c.sum, sum)
		}
		clear(values[c.from:c.to])
		values[c.key] = c.n
	}
	if m := db.Metrics(); m.Conflicts == 0 || m.Tree.Flushes == 0 {
		t.Errorf("%d conflicts, %d flushes", m.Conflicts, m.Tree.Flushes)
	}
}
