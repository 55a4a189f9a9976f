package programs

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"sync/atomic"

	"github.com/brockdb/brock"
)

// withBrock calls fn with a new store with Brock's defaults, and returns how many of n it does a second.
func withBrock(dir string, n int, d brock.Durability, fn func(db *brock.DB) error) (perSecond float64, err error) {
	db, err := brock.Open(brock.Options{Dir: dir, Durability: d})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return measure(n, func() error { return fn(db) })
}

func brockWatch(dir string, n int) (float64, error) {
	return withBrock(dir, n, brock.Buffered, func(db *brock.DB) error {
		txn := db.NewTransaction(false)
		from := txn.Position()
		txn.Discard()
		all := make(chan error, 1)
		go func() { all <- consume(db, from, n) }()
		for i := range n {
			if err := db.Set(appendKey(nil, i), valueOf(i)); err != nil {
				return err
			}
		}
		return <-all
	})
}

// consume watches until it has seen n changes.
func consume(db *brock.DB, from brock.Position, n int) error {
	got := 0
	for c, err := range db.Watch(context.Background(), brock.WatchOptions{After: from, Buffered: true}) {
		if err != nil {
			return err
		}
		for ch, err := range c.Changes() {
			if err != nil {
				return err
			}
			if _, err := ch.Value(); err != nil {
				return err
			}
			got++
		}
		if got >= n {
			break
		}
	}
	if got != n {
		return wrongCount(got, n)
	}
	return nil
}

func brockCommitAt(dir string, n int) (float64, error) {
	return withBrock(dir, n, brock.Buffered, func(db *brock.DB) error {
		for i := range n {
			o := brock.TxnOptions{Update: true, CommitAt: uint64(10*i + 1)}
			txn, err := db.Begin(context.Background(), o)
			if err != nil {
				return err
			}
			if err := txn.Set(appendKey(nil, i), valueOf(i)); err != nil {
				return err
			}
			if err := txn.Commit(); err != nil {
				return err
			}
		}
		return nil
	})
}

func brockAdd(dir string, n int) (float64, error) {
	return withBrock(dir, n, brock.Synced, func(db *brock.DB) error {
		key := []byte("counter")
		err := spread(n, func(int) error {
			_, err := db.Default().Add(context.Background(), key, 1)
			return err
		})
		if err != nil {
			return err
		}
		sum, err := db.Get(key)
		if err == nil && binary.LittleEndian.Uint64(sum) != uint64(n) {
			err = wrongCount(int(binary.LittleEndian.Uint64(sum)), n)
		}
		return err
	})
}

func brockLoader(dir string, n int) (float64, error) {
	return withBrock(dir, n, brock.Synced, func(db *brock.DB) error { return loadBrock(db, n) })
}

// loadBrock loads n pairs in order.
func loadBrock(db *brock.DB, n int) error {
	l, err := db.Default().NewLoader(context.Background(), brock.LoadOptions{Sorted: true})
	if err != nil {
		return err
	}
	defer l.Abort()
	for i := range n {
		if err := l.Set(appendKey(nil, i), valueOf(i)); err != nil {
			return err
		}
	}
	_, err = l.Finish()
	return err
}

func brockWriter(dir string, n int) (float64, error) {
	return withBrock(dir, n, brock.Synced, func(db *brock.DB) error {
		w := db.NewWriter(context.Background())
		for i := range n {
			if err := w.Set(appendKey(nil, i), valueOf(i)); err != nil {
				return errors.Join(err, w.Close())
			}
		}
		return w.Close()
	})
}

// withLoadedBrock measures fn in a store of n pairs.
func withLoadedBrock(dir string, n int, fn func(db *brock.DB) error) (perSecond float64, err error) {
	db, err := brock.Open(brock.Options{Dir: dir, Durability: brock.Buffered})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := loadBrock(db, n); err != nil {
		return 0, err
	}
	return measure(n, func() error { return fn(db) })
}

func brockStream(dir string, n int) (float64, error) {
	return withLoadedBrock(dir, n, func(db *brock.DB) error {
		var got atomic.Int64
		err := db.Default().Stream(context.Background(), brock.StreamOptions{}, func(_ int, items iter.Seq2[*brock.Item, error]) error {
			here := 0
			for item, err := range items {
				if err != nil {
					return err
				}
				if _, err := item.Value(); err != nil {
					return err
				}
				here++
			}
			got.Add(int64(here))
			return nil
		})
		if err == nil && int(got.Load()) != n {
			err = wrongCount(int(got.Load()), n)
		}
		return err
	})
}

func brockFirst(dir string, n int) (float64, error) {
	return withLoadedBrock(dir, n, func(db *brock.DB) error {
		for range n {
			err := db.Update(func(txn *brock.Txn) error {
				item, err := txn.First(nil, nil)
				if err != nil {
					return err
				}
				return txn.Delete(item.Key())
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
