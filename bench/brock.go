package main

import (
	"context"
	"errors"
	"time"

	"github.com/brockdb/brock"
)

const brockModule = "github.com/brockdb/brock"

type brockStore struct{ db *brock.DB }

// openBrock uses Brock's defaults.
func openBrock(c Config) (Store, error) {
	o := brock.Options{Dir: c.Dir, Durability: brock.Buffered}
	o.Maintenance.GarbageRatio = c.GarbageRatio
	if c.Sync {
		o.Durability = brock.Synced
	}
	db, err := brock.Open(o)
	if err != nil {
		return nil, err
	}
	return &brockStore{db}, nil
}

func (s *brockStore) Load(b *Batch) error {
	batch := s.db.NewBatch()
	for i, k := range b.Keys {
		if err := batch.Set(k, b.Values[i]); err != nil {
			return err
		}
	}
	return batch.Commit(context.Background())
}

func (s *brockStore) Get(key []byte) (sum uint64, found bool, err error) {
	err = s.db.View(func(txn *brock.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		v, err := item.Value()
		sum, found = touch(v), true
		return err
	})
	if errors.Is(err, brock.ErrKeyNotFound) {
		err = nil
	}
	return sum, found, err
}

func (s *brockStore) Has(key []byte) (found bool, err error) {
	err = s.db.View(func(txn *brock.Txn) error {
		found, err = txn.Has(key)
		return err
	})
	return found, err
}

func (s *brockStore) ScanKeys() (t Tally, err error) {
	err = s.db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{KeysOnly: true})
		for it.Rewind(); it.Valid(); it.Next() {
			t.add(it.Item().Key())
			t.Entries++
		}
		return it.Close()
	})
	return t, err
}

func (s *brockStore) ScanValues() (Tally, error) { return s.values(nil, -1) }

func (s *brockStore) SeekN(key []byte, n int) (Tally, error) { return s.values(key, n) }

// values touches up to n pairs from the key from on; all if n < 0.
func (s *brockStore) values(from []byte, n int) (t Tally, err error) {
	err = s.db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{Limit: max(n, 0)})
		for it.Seek(from); it.Valid(); it.Next() {
			item := it.Item()
			v, err := item.Value()
			if err != nil {
				return errors.Join(err, it.Close())
			}
			t.add(item.Key())
			t.add(v)
			t.Entries++
		}
		return it.Close()
	})
	return t, err
}

func (s *brockStore) CommitOne(key, value []byte) error { return s.db.Set(key, value) }

func (s *brockStore) Change(changes []Change) error {
	b := s.db.NewBatch()
	for i := range changes {
		c := &changes[i]
		var err error
		switch {
		case c.Delete:
			err = b.Delete(c.Key)
		case c.TTL > 0:
			err = b.SetEntry(brock.NewEntry(c.Key, c.Value).WithTTL(c.TTL))
		default:
			err = b.Set(c.Key, c.Value)
		}
		if err != nil {
			return err
		}
	}
	return b.Commit(context.Background())
}

func (s *brockStore) WaitQuiet() (time.Time, error) {
	if err := s.db.Flush(context.Background()); err != nil {
		return time.Time{}, err
	}
	return waitIdle()
}

func (s *brockStore) Close() error { return s.db.Close() }
