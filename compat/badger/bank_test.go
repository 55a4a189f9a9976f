package badger

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// Transfers between accounts at the same time: the sum that a reader sees never changes.
func TestTransfersAtTheSameTime(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		const accounts, total = 20, 20 * 100
		db := s.db
		key := func(i int) []byte { return fmt.Appendf(nil, "account-%02d", i) }
		txn := s.begin(true)
		for i := range accounts {
			check(t, txn.Set(key(i), []byte("100")))
		}
		check(t, s.commit(txn))
		// The clock of managed mode: a transaction reads at the last version that is committed with all
		// before it. Commits have their turn, as those of a caller's own log would have.
		var clock sync.Mutex
		var last atomic.Uint64
		last.Store(s.last)
		begin := func(update bool) *Txn {
			if db.opt.managedTxns {
				return db.NewTransactionAt(last.Load(), update)
			}
			return db.NewTransaction(update)
		}
		commit := func(txn *Txn) error {
			if !db.opt.managedTxns {
				return txn.Commit()
			}
			clock.Lock()
			defer clock.Unlock()
			err := txn.CommitAt(last.Load()+1, nil)
			if err == nil {
				last.Add(1)
			}
			return err
		}
		amount := func(txn *Txn, i int) int {
			item, err := txn.Get(key(i))
			if err != nil {
				t.Error(err)
				return 0
			}
			v, err := item.ValueCopy(nil)
			if err != nil {
				t.Error(err)
			}
			n, _ := strconv.Atoi(string(v))
			return n
		}
		var all sync.WaitGroup
		var conflicts atomic.Int64
		for range 4 {
			all.Go(func() {
				for done := 0; done < 100; {
					txn := begin(true)
					from, to := rand.IntN(accounts), rand.IntN(accounts)
					if from == to {
						txn.Discard()
						continue
					}
					a, b := amount(txn, from), amount(txn, to)
					_ = txn.Set(key(from), strconv.AppendInt(nil, int64(a-1), 10))
					_ = txn.Set(key(to), strconv.AppendInt(nil, int64(b+1), 10))
					switch err := commit(txn); err {
					case nil:
						done++
					case ErrConflict:
						conflicts.Add(1)
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		quit := make(chan struct{})
		var readers sync.WaitGroup
		for r := range 2 {
			readers.Go(func() {
				for {
					select {
					case <-quit:
						return
					default:
					}
					txn, sum := begin(false), 0
					it := txn.NewIterator(IteratorOptions{Reverse: r == 0, PrefetchValues: true})
					for it.Rewind(); it.Valid(); it.Next() {
						v, err := it.Item().ValueCopy(nil)
						if err != nil {
							t.Error(err)
						}
						n, _ := strconv.Atoi(string(v))
						sum += n
					}
					it.Close()
					txn.Discard()
					if sum != total {
						t.Errorf("sum %d", sum)
						return
					}
				}
			})
		}
		all.Wait()
		close(quit)
		readers.Wait()
		t.Logf("%d conflicts", conflicts.Load())
		txn = begin(false)
		defer txn.Discard()
		sum := 0
		for i := range accounts {
			sum += amount(txn, i)
		}
		if sum != total {
			t.Errorf("sum %d", sum)
		}
	})
}
