package kv

import (
	"context"
	"errors"

	"github.com/brockdb/brock"
)

const (
	brockModule = "github.com/brockdb/brock"
	brockSetup  = "its defaults; in limited memory, MemoryLimit is a third of it if that is less than the default"

	brockEncryptedSetup = "the same with Options.Keys: AES-256-GCM, each unit with a tag"
)

type brockStore struct{ db *brock.DB }

func openBrock(c Config) (Store, error) { return newBrock(c, nil) }

func openBrockEncrypted(c Config) (Store, error) {
	return newBrock(c, brock.StaticKey(encryptionKey))
}

func newBrock(c Config, keys brock.KeyProvider) (Store, error) {
	o := brock.Options{Dir: c.Dir, Durability: brock.Buffered, Keys: keys}
	o.Maintenance.GarbageRatio = c.GarbageRatio
	if c.Sync {
		o.Durability = brock.Synced
	}
	if c.Memory > 0 {
		o.MemoryLimit = min(brock.DefaultMemoryLimit, c.cache())
	}
	db, err := brock.Open(o)
	if err != nil {
		return nil, err
	}
	return &brockStore{db}, nil
}

func (s *brockStore) Get(key []byte) (sum uint64, found bool, err error) {
	err = s.db.View(func(txn *brock.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		v, err := item.Value()
		sum, found = Touch(v), true
		return err
	})
	if errors.Is(err, brock.ErrKeyNotFound) {
		err = nil
	}
	return sum, found, err
}

func (s *brockStore) AppendValue(dst, key []byte) (value []byte, found bool, err error) {
	err = s.db.View(func(txn *brock.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		v, err := item.Value()
		dst, found = append(dst, v...), true
		return err
	})
	if errors.Is(err, brock.ErrKeyNotFound) {
		err = nil
	}
	return dst, found, err
}

func (s *brockStore) Has(key []byte) (found bool, err error) {
	err = s.db.View(func(txn *brock.Txn) error {
		found, err = txn.Has(key)
		return err
	})
	return found, err
}

func (s *brockStore) Scan(from []byte, limit int, values bool) (t Tally, err error) {
	err = s.db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{Limit: max(limit, 0), KeysOnly: !values})
		for it.Seek(from); it.Valid(); it.Next() {
			item := it.Item()
			if values {
				v, err := item.Value()
				if err != nil {
					return errors.Join(err, it.Close())
				}
				t.Add(v)
			}
			t.Add(item.Key())
			t.Entries++
		}
		return it.Close()
	})
	return t, err
}

func (s *brockStore) Last() (sum uint64, err error) {
	err = s.db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{Reverse: true, KeysOnly: true, Limit: 1})
		if it.Rewind(); it.Valid() {
			sum = Touch(it.Item().Key())
		}
		return it.Close()
	})
	return sum, err
}

func (s *brockStore) Set(key, value []byte) error { return s.db.Set(key, value) }

func (s *brockStore) Apply(changes []Change) error {
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
	_, err := b.Commit(context.Background(), brock.DefaultDurability)
	return err
}

func (s *brockStore) Flush() error { return s.db.Flush(context.Background()) }

// Busy is told by the process alone: Brock rests when it uses no CPU.
func (s *brockStore) Busy() bool { return false }

func (s *brockStore) Close() error { return s.db.Close() }
