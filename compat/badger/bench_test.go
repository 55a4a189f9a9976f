package badger

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	up "github.com/dgraph-io/badger/v4"

	"github.com/brockdb/brock"
)

// The benchmarks do the same thing with this package, with Badger and, to show what the API costs, with
// Brock itself: go test -run - -bench . -benchmem -cpu 1

const (
	trioPairs = 100_000
	trioValue = 128
)

func benchKey(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint64(append(dst[:0], "key-"...), uint64(n)*0x9e3779b97f4a7c15)
}

// benchTrio makes the three stores, each with the pairs.
type benchTrio struct {
	ours   *DB
	theirs *up.DB
	itself *brock.DB
}

func openTrio(b *testing.B, fill bool) *benchTrio {
	s := &benchTrio{ours: openDB(b, quiet(b.TempDir()))}
	s.itself = s.ours.store
	var err error
	s.theirs, err = up.Open(up.DefaultOptions(b.TempDir()).WithLogger(nil))
	check(b, err)
	b.Cleanup(func() { check(b, s.theirs.Close()) })
	if !fill {
		return s
	}
	ours, theirs := s.ours.NewWriteBatch(), s.theirs.NewWriteBatch()
	value := make([]byte, trioValue)
	for i := range trioPairs {
		key := benchKey(nil, i)
		check(b, ours.Set(key, value))
		check(b, theirs.Set(key, value))
	}
	check(b, ours.Flush())
	check(b, theirs.Flush())
	return s
}

func BenchmarkGet(b *testing.B) {
	s := openTrio(b, true)
	var key []byte
	b.Run("brock", func(b *testing.B) {
		for b.Loop() {
			key = benchKey(key, rand.IntN(trioPairs))
			check(b, s.ours.View(func(txn *Txn) error {
				item, err := txn.Get(key)
				if err != nil {
					return err
				}
				return item.Value(func([]byte) error { return nil })
			}))
		}
	})
	b.Run("badger", func(b *testing.B) {
		for b.Loop() {
			key = benchKey(key, rand.IntN(trioPairs))
			check(b, s.theirs.View(func(txn *up.Txn) error {
				item, err := txn.Get(key)
				if err != nil {
					return err
				}
				return item.Value(func([]byte) error { return nil })
			}))
		}
	})
	b.Run("itself", func(b *testing.B) {
		for b.Loop() {
			key = benchKey(key, rand.IntN(trioPairs))
			check(b, s.itself.View(func(txn *brock.Txn) error {
				item, err := txn.Get(key)
				if err != nil {
					return err
				}
				_, err = item.Value()
				return err
			}))
		}
	})
}

func BenchmarkSet(b *testing.B) {
	s := openTrio(b, true)
	var key []byte
	value := make([]byte, trioValue)
	b.Run("brock", func(b *testing.B) {
		for b.Loop() {
			key = benchKey(key, rand.IntN(trioPairs))
			check(b, s.ours.Update(func(txn *Txn) error {
				if _, err := txn.Get(key); err != nil {
					return err
				}
				return txn.Set(key, value)
			}))
		}
	})
	b.Run("badger", func(b *testing.B) {
		for b.Loop() {
			key = benchKey(nil, rand.IntN(trioPairs)) // it keeps the key until the commit
			check(b, s.theirs.Update(func(txn *up.Txn) error {
				if _, err := txn.Get(key); err != nil {
					return err
				}
				return txn.Set(key, value)
			}))
		}
	})
	b.Run("itself", func(b *testing.B) {
		for b.Loop() {
			key = benchKey(key, rand.IntN(trioPairs))
			check(b, s.itself.Update(func(txn *brock.Txn) error {
				if _, err := txn.Get(key); err != nil {
					return err
				}
				return txn.Set(key, value)
			}))
		}
	})
}

// BenchmarkIterate reads all pairs; an operation is one pair.
func BenchmarkIterate(b *testing.B) {
	s := openTrio(b, true)
	b.Run("brock", func(b *testing.B) {
		for n := 0; n < b.N; {
			check(b, s.ours.View(func(txn *Txn) error {
				it := txn.NewIterator(DefaultIteratorOptions)
				defer it.Close()
				for it.Rewind(); it.Valid() && n < b.N; it.Next() {
					check(b, it.Item().Value(func([]byte) error { return nil }))
					n++
				}
				return nil
			}))
		}
	})
	b.Run("badger", func(b *testing.B) {
		for n := 0; n < b.N; {
			check(b, s.theirs.View(func(txn *up.Txn) error {
				it := txn.NewIterator(up.DefaultIteratorOptions)
				defer it.Close()
				for it.Rewind(); it.Valid() && n < b.N; it.Next() {
					check(b, it.Item().Value(func([]byte) error { return nil }))
					n++
				}
				return nil
			}))
		}
	})
	b.Run("itself", func(b *testing.B) {
		for n := 0; n < b.N; {
			check(b, s.itself.View(func(txn *brock.Txn) error {
				it := txn.NewIterator(brock.IteratorOptions{})
				defer it.Close()
				for it.Rewind(); it.Valid() && n < b.N; it.Next() {
					_, err := it.Item().Value()
					check(b, err)
					n++
				}
				return nil
			}))
		}
	})
}

// BenchmarkBatch writes new pairs by WriteBatch; an operation is one pair.
func BenchmarkBatch(b *testing.B) {
	s := openTrio(b, false)
	value := make([]byte, trioValue)
	b.Run("brock", func(b *testing.B) {
		wb := s.ours.NewWriteBatch()
		for i := range b.N {
			check(b, wb.Set(benchKey(nil, i), value))
		}
		check(b, wb.Flush())
	})
	b.Run("badger", func(b *testing.B) {
		wb := s.theirs.NewWriteBatch()
		for i := range b.N {
			check(b, wb.Set(benchKey(nil, i), value))
		}
		check(b, wb.Flush())
	})
	b.Run("itself", func(b *testing.B) {
		w := s.itself.NewWriter(context.Background())
		for i := range b.N {
			check(b, w.Set(benchKey(nil, i), value))
		}
		check(b, w.Close())
	})
}

// BenchmarkManaged reads and writes in managed mode.
func BenchmarkManaged(b *testing.B) {
	ours := openManaged(b, quiet(b.TempDir()))
	theirs, err := up.OpenManaged(up.DefaultOptions(b.TempDir()).WithLogger(nil))
	check(b, err)
	b.Cleanup(func() { check(b, theirs.Close()) })
	value := make([]byte, trioValue)
	wo, wt := ours.NewWriteBatchAt(1), theirs.NewWriteBatchAt(1)
	for i := range trioPairs {
		check(b, wo.Set(benchKey(nil, i), value))
		check(b, wt.Set(benchKey(nil, i), value))
	}
	check(b, wo.Flush())
	check(b, wt.Flush())
	var ts uint64 = 1
	b.Run("get/brock", func(b *testing.B) {
		for b.Loop() {
			txn := ours.NewTransactionAt(ts, false)
			_, err := txn.Get(benchKey(nil, rand.IntN(trioPairs)))
			check(b, err)
			txn.Discard()
		}
	})
	b.Run("get/badger", func(b *testing.B) {
		for b.Loop() {
			txn := theirs.NewTransactionAt(ts, false)
			_, err := txn.Get(benchKey(nil, rand.IntN(trioPairs)))
			check(b, err)
			txn.Discard()
		}
	})
	b.Run("set/brock", func(b *testing.B) {
		for b.Loop() {
			ts++
			txn := ours.NewTransactionAt(ts-1, true)
			check(b, txn.Set(benchKey(nil, rand.IntN(trioPairs)), value))
			check(b, txn.CommitAt(ts, nil))
		}
	})
	b.Run("set/badger", func(b *testing.B) {
		for b.Loop() {
			ts++
			txn := theirs.NewTransactionAt(ts-1, true)
			check(b, txn.Set(benchKey(nil, rand.IntN(trioPairs)), value))
			check(b, txn.CommitAt(ts, nil))
		}
	})
	b.Run("iterate/brock", func(b *testing.B) {
		for n := 0; n < b.N; {
			txn := ours.NewTransactionAt(1, false)
			it := txn.NewIterator(DefaultIteratorOptions)
			for it.Rewind(); it.Valid() && n < b.N; it.Next() {
				check(b, it.Item().Value(nil))
				n++
			}
			it.Close()
			txn.Discard()
		}
	})
	b.Run("iterate/badger", func(b *testing.B) {
		for n := 0; n < b.N; {
			txn := theirs.NewTransactionAt(1, false)
			it := txn.NewIterator(up.DefaultIteratorOptions)
			for it.Rewind(); it.Valid() && n < b.N; it.Next() {
				check(b, it.Item().Value(nil))
				n++
			}
			it.Close()
			txn.Discard()
		}
	})
}

// A transaction allocates at most once more than one of Brock.
func TestAllocations(t *testing.T) {
	if isRace {
		t.Skip("pools forget at random")
	}
	db := openDB(t, memory())
	set(t, db, "a=1")
	key, value := []byte("a"), []byte("2")
	get := func([]byte) error { return nil }
	for what, pair := range map[string][2]func(){
		"View": {
			func() {
				_ = db.View(func(txn *Txn) error {
					item, err := txn.Get(key)
					if err != nil {
						return err
					}
					return item.Value(get)
				})
			},
			func() {
				_ = db.store.View(func(txn *brock.Txn) error {
					item, err := txn.Get(key)
					if err != nil {
						return err
					}
					_, err = item.Value()
					return err
				})
			},
		},
		"Update": {
			func() {
				_ = db.Update(func(txn *Txn) error {
					if _, err := txn.Get(key); err != nil {
						return err
					}
					return txn.Set(key, value)
				})
			},
			func() {
				_ = db.store.Update(func(txn *brock.Txn) error {
					if _, err := txn.Get(key); err != nil {
						return err
					}
					return txn.Set(key, value)
				})
			},
		},
		"by hand": {
			func() {
				txn := db.NewTransaction(true)
				_ = txn.Set(key, value)
				_ = txn.Commit()
			},
			func() {
				txn := db.store.NewTransaction(true)
				_ = txn.Set(key, value)
				_ = txn.Commit()
			},
		},
		"iterator": {
			func() {
				_ = db.View(func(txn *Txn) error {
					it := txn.NewIterator(DefaultIteratorOptions)
					for it.Rewind(); it.Valid(); it.Next() {
						_ = it.Item().Value(get)
					}
					it.Close()
					return nil
				})
			},
			func() {
				_ = db.store.View(func(txn *brock.Txn) error {
					it := txn.NewIterator(brock.IteratorOptions{})
					for it.Rewind(); it.Valid(); it.Next() {
						_, _ = it.Item().Value()
					}
					return it.Close()
				})
			},
		},
	} {
		ours, itself := testing.AllocsPerRun(500, pair[0]), testing.AllocsPerRun(500, pair[1])
		t.Logf("%s: %v allocations, Brock %v", what, ours, itself)
		limit := itself + 1
		if what == "iterator" {
			limit++ // the iterator itself
		}
		if ours > limit {
			t.Errorf("%s: %v allocations, and Brock has %v", what, ours, itself)
		}
	}
}
