package main

import (
	"bytes"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

const (
	badgerModule       = "github.com/dgraph-io/badger/v4"
	badgerLogThreshold = 1 << 10 // badger-log keeps values from here on in the value log
)

type badgerStore struct{ db *badger.DB }

// openBadger uses Badger's defaults: values up to 1 MB live in the tree. Its
// documents say to do without a block cache when nothing is compressed or
// encrypted; all indices stay in memory.
func openBadger(c Config) (Store, error) { return newBadger(badgerOptions(c)) }

// openBadgerLog separates values of 1 KB and more, as its first releases did.
func openBadgerLog(c Config) (Store, error) {
	return newBadger(badgerOptions(c).WithValueThreshold(badgerLogThreshold))
}

func badgerOptions(c Config) badger.Options {
	return badger.DefaultOptions(c.Dir).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithSyncWrites(c.Sync).
		WithMetricsEnabled(false).
		WithLogger(nil)
}

func newBadger(o badger.Options) (Store, error) {
	db, err := badger.Open(o)
	if err != nil {
		return nil, err
	}
	return &badgerStore{db}, nil
}

func (s *badgerStore) Load(b *Batch) error {
	wb := s.db.NewWriteBatch()
	defer wb.Cancel()
	for i, k := range b.Keys {
		if err := wb.Set(k, b.Values[i]); err != nil {
			return err
		}
	}
	return wb.Flush()
}

func (s *badgerStore) Get(key []byte) (sum uint64, found bool, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		found = true
		return item.Value(func(v []byte) error {
			sum = touch(v)
			return nil
		})
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		err = nil
	}
	return sum, found, err
}

func (s *badgerStore) Has(key []byte) (found bool, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		_, err := txn.Get(key)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (s *badgerStore) ScanKeys() (t Tally, err error) {
	o := badger.DefaultIteratorOptions
	o.PrefetchValues = false
	err = s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			t.add(it.Item().Key())
			t.Entries++
		}
		return nil
	})
	return t, err
}

func (s *badgerStore) ScanValues() (Tally, error) {
	return s.values(badger.DefaultIteratorOptions, nil, -1)
}

func (s *badgerStore) SeekN(key []byte, n int) (Tally, error) {
	o := badger.DefaultIteratorOptions
	o.PrefetchSize = n
	return s.values(o, key, n)
}

// values touches up to n pairs from the key from on; all if n < 0.
func (s *badgerStore) values(o badger.IteratorOptions, from []byte, n int) (t Tally, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(o)
		defer it.Close()
		value := func(v []byte) error {
			t.add(v)
			return nil
		}
		for it.Seek(from); it.Valid() && t.Entries != n; it.Next() {
			item := it.Item()
			t.add(item.Key())
			if err := item.Value(value); err != nil {
				return err
			}
			t.Entries++
		}
		return nil
	})
	return t, err
}

func (s *badgerStore) CommitOne(key, value []byte) error {
	return s.db.Update(func(txn *badger.Txn) error { return txn.Set(key, value) })
}

func (s *badgerStore) Change(changes []Change) error {
	return s.db.Update(func(txn *badger.Txn) error {
		for i := range changes {
			c := &changes[i]
			var err error
			switch {
			case c.Delete:
				err = txn.Delete(bytes.Clone(c.Key))
			case c.TTL > 0:
				err = txn.SetEntry(badger.NewEntry(bytes.Clone(c.Key), c.Value).WithTTL(c.TTL))
			default:
				err = txn.Set(bytes.Clone(c.Key), c.Value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// WaitQuiet can't ask for a flush: Badger has none before Close, which does it.
func (s *badgerStore) WaitQuiet() (time.Time, error) { return waitIdle() }

func (s *badgerStore) Close() error { return s.db.Close() }
