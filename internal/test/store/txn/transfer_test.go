package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// Transactions move amounts between accounts in two keyspaces. They are in memory or
// in files; they overwrite keys, or delete whole ranges and write them anew, while
// flushes and compactions run. Every reader sees the same sum.
func TestTransfersOfAllKinds(t *testing.T) {
	const accounts, each = 40, 100
	rounds := 120
	if testing.Short() {
		rounds = 40
	}
	db := storetest.Open(t, brock.Options{
		Tuning:           brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10, RunFileSize: 64 << 10},
		Maintenance:      brock.Maintenance{IdleAfter: time.Millisecond},
		KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 64, Compression: brock.S2, CompressAbove: 1},
	})
	spaces := []*brock.Keyspace{nil, storetest.OpenKeyspace(t, db, "other")}
	account := func(i int) []byte { return fmt.Appendf(nil, "account %02d", i) }
	amount := func(rng *rand.Rand, n int) []byte { // of any length
		return fmt.Appendf(nil, "%d %0*d", n, 1+rng.IntN(4)*60, 0)
	}
	parse := func(it *brock.Item) (int, error) {
		v, err := it.Value()
		if err != nil {
			return 0, err
		}
		var n int
		_, err = fmt.Sscan(string(v), &n)
		return n, err
	}
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		for _, ks := range spaces {
			for i := range accounts {
				if err := txn.In(ks).Set(account(i), []byte(strconv.Itoa(each))); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	read := func(txn *brock.Txn, i int) (int, error) {
		it, err := txn.Get(account(i))
		if errors.Is(err, brock.ErrKeyNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		return parse(it)
	}
	transfer := func(rng *rand.Rand, txn *brock.Txn) error { // between two accounts
		from, to := txn.In(spaces[rng.IntN(2)]), txn.In(spaces[rng.IntN(2)])
		i, j := rng.IntN(accounts), rng.IntN(accounts)
		a, err := read(from, i)
		if err != nil {
			return err
		}
		if err := from.Set(account(i), amount(rng, a-1)); err != nil {
			return err
		}
		b, err := read(to, j) // perhaps what was just written
		if err != nil {
			return err
		}
		return to.Set(account(j), amount(rng, b+1))
	}
	gather := func(rng *rand.Rand, txn *brock.Txn) error { // a range of accounts into one of them
		txn = txn.In(spaces[rng.IntN(2)])
		lo := rng.IntN(accounts)
		hi := lo + 1 + rng.IntN(accounts-lo)
		sum := 0
		for it, err := range txn.Items(brock.IteratorOptions{Lower: account(lo), Upper: account(hi), Reverse: rng.IntN(2) == 0}) {
			if err != nil {
				return err
			}
			n, err := parse(it)
			if err != nil {
				return err
			}
			sum += n
		}
		if err := txn.Set(account(lo), amount(rng, -1)); err != nil { // is deleted again
			return err
		}
		if err := txn.DeleteRange(account(lo), account(hi)); err != nil {
			return err
		}
		return txn.Set(account(lo+rng.IntN(hi-lo)), amount(rng, sum))
	}
	total := func(txn *brock.Txn) error {
		sum := 0
		for _, ks := range spaces {
			for it, err := range txn.In(ks).All() {
				if err != nil {
					return err
				}
				n, err := parse(it)
				if err != nil {
					return err
				}
				sum += n
			}
		}
		if sum != 2*accounts*each {
			return fmt.Errorf("the total is %d, want %d", sum, 2*accounts*each)
		}
		return nil
	}
	var wg sync.WaitGroup
	var conflicts atomic.Int64
	for g := range 4 {
		seed := draw.Seed(t)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			for n := range rounds {
				do := transfer
				if rng.IntN(3) == 0 {
					do = gather
				}
				o := brock.TxnOptions{Update: true, Durability: brock.Buffered, MaxMemory: []int64{0, 1, 400}[rng.IntN(3)]}
				txn, err := db.Begin(context.Background(), o)
				if err == nil {
					if err = do(rng, txn); err == nil {
						err = txn.Commit()
					}
					txn.Discard()
				}
				if errors.Is(err, brock.ErrConflict) {
					conflicts.Add(1)
					err = nil
				}
				if err == nil && n%10 == 0 {
					err = db.View(total)
				}
				if err == nil && n%40 == g {
					err = db.Compact(context.Background())
				}
				if err != nil {
					t.Errorf("goroutine %d, round %d: %v", g, n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	assert.OK(t, db.View(total))
	assert.OK(t, db.Verify(t.Context(), nil))
	t.Logf("%d commits, %d conflicts, %d spilled", db.Version(), conflicts.Load(), db.Metrics().Tree.Spills)
}
