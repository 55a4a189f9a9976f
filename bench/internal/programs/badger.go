package programs

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/ristretto/v2/z"
)

// openBadger opens a store with Badger's defaults, without compression, as its documents advise.
func openBadger(dir string, sync, managed bool) (*badger.DB, error) {
	o := badger.DefaultOptions(dir).WithCompression(options.None).WithBlockCacheSize(0).
		WithSyncWrites(sync).WithMetricsEnabled(false).WithLogger(nil)
	if managed {
		return badger.OpenManaged(o)
	}
	return badger.Open(o)
}

// withBadger calls fn with a new store, and returns how many of n it does a second.
func withBadger(dir string, n int, sync, managed bool, fn func(db *badger.DB) error) (perSecond float64, err error) {
	db, err := openBadger(dir, sync, managed)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return measure(n, func() error { return fn(db) })
}

// measure calls fn, and returns how many of n it does a second.
func measure(n int, fn func() error) (perSecond float64, err error) {
	begin := time.Now()
	if err := fn(); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(begin).Seconds(), nil
}

// spread has n steps done by many workers.
func spread(n int, step func(worker int) error) error {
	var next atomic.Int64
	var wait sync.WaitGroup
	failed := make([]error, workers)
	for w := range workers {
		wait.Go(func() {
			for next.Add(1) <= int64(n) {
				if failed[w] = step(w); failed[w] != nil {
					return
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

func badgerSubscribe(dir string, n int) (float64, error) {
	return withBadger(dir, n, false, false, func(db *badger.DB) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		all, got := make(chan error, 1), 0
		go func() {
			all <- db.Subscribe(ctx, func(kv *badger.KVList) error {
				if got += len(kv.Kv); got >= n {
					cancel()
				}
				return nil
			}, []pb.Match{{Prefix: []byte("key-")}})
		}()
		// It has no sign that it listens: what is committed before that, it never sees.
		time.Sleep(100 * time.Millisecond)
		for i := range n {
			err := db.Update(func(txn *badger.Txn) error { return txn.Set(appendKey(nil, i), valueOf(i)) })
			if err != nil {
				return err
			}
		}
		if err := <-all; !errors.Is(err, context.Canceled) {
			return err
		}
		if got != n {
			return wrongCount(got, n)
		}
		return nil
	})
}

func badgerCommitAt(dir string, n int) (float64, error) {
	return withBadger(dir, n, false, true, func(db *badger.DB) error {
		for i := range n {
			txn := db.NewTransactionAt(math.MaxUint64, true)
			if err := txn.Set(appendKey(nil, i), valueOf(i)); err != nil {
				return err
			}
			if err := txn.CommitAt(uint64(10*i+1), nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// addNumbers adds two counters.
func addNumbers(a, b []byte) []byte {
	return binary.LittleEndian.AppendUint64(nil, binary.LittleEndian.Uint64(a)+binary.LittleEndian.Uint64(b))
}

var one = binary.LittleEndian.AppendUint64(nil, 1)

func badgerMerge(dir string, n int) (float64, error) {
	return withBadger(dir, n, true, false, func(db *badger.DB) error {
		m := db.GetMergeOperator([]byte("counter"), addNumbers, 200*time.Millisecond)
		if err := spread(n, func(int) error { return m.Add(one) }); err != nil {
			return err
		}
		sum, err := m.Get()
		m.Stop()
		if err == nil && binary.LittleEndian.Uint64(sum) != uint64(n) {
			err = wrongCount(int(binary.LittleEndian.Uint64(sum)), n)
		}
		return err
	})
}

func badgerSequence(dir string, n int) (float64, error) {
	return withBadger(dir, n, true, false, func(db *badger.DB) error {
		s, err := db.GetSequence([]byte("counter"), 1)
		if err != nil {
			return err
		}
		if err := spread(n, func(int) error {
			_, err := s.Next()
			return err
		}); err != nil {
			return err
		}
		return s.Release()
	})
}

func badgerStreamWriter(dir string, n int) (float64, error) {
	return withBadger(dir, n, false, false, func(db *badger.DB) error { return loadBadger(db, n) })
}

// loadBadger loads n pairs in order.
func loadBadger(db *badger.DB, n int) error {
	w := db.NewStreamWriter()
	if err := w.Prepare(); err != nil {
		return err
	}
	const most = 4 << 20 // bytes of a buffer, as its Stream sends them
	buf := z.NewBuffer(2*most, "bench")
	defer func() { _ = buf.Release() }()
	for i := range n {
		badger.KVToBuffer(&pb.KV{Key: appendKey(nil, i), Value: valueOf(i), Version: 1, StreamId: 1}, buf)
		if buf.LenNoPadding() < most && i < n-1 {
			continue
		}
		if err := w.Write(buf); err != nil {
			return err
		}
		buf.Reset()
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return db.Sync()
}

func badgerStream(dir string, n int) (perSecond float64, err error) {
	db, err := openBadger(dir, false, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := loadBadger(db, n); err != nil {
		return 0, err
	}
	return measure(n, func() error {
		s, got := db.NewStream(), 0
		s.NumGo = 8 // as Dgraph has it
		s.Send = func(buf *z.Buffer) error {
			return buf.SliceIterate(func([]byte) error {
				got++
				return nil
			})
		}
		if err := s.Orchestrate(context.Background()); err != nil {
			return err
		}
		if got != n {
			return wrongCount(got, n)
		}
		return nil
	})
}

func badgerFirst(dir string, n int) (perSecond float64, err error) {
	db, err := openBadger(dir, false, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := loadBadger(db, n); err != nil {
		return 0, err
	}
	return measure(n, func() error {
		for range n {
			err := db.Update(func(txn *badger.Txn) error {
				o := badger.DefaultIteratorOptions
				o.PrefetchValues = false
				it := txn.NewIterator(o)
				defer it.Close()
				it.Rewind()
				if !it.Valid() {
					return badger.ErrKeyNotFound
				}
				return txn.Delete(it.Item().KeyCopy(nil))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
