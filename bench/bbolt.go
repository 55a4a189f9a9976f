package main

import (
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

const bboltModule = "go.etcd.io/bbolt"

var bboltBucket = []byte("b")

type bboltStore struct {
	db    *bolt.DB
	write func(func(*bolt.Tx) error) error // Update, or Batch when there are several writers
}

// openBbolt uses the free list that its documents call faster and keeps it off
// the disk, as they advise for write speed.
func openBbolt(c Config) (Store, error) {
	db, err := bolt.Open(filepath.Join(c.Dir, "bolt.db"), 0o600, &bolt.Options{
		FreelistType:    bolt.FreelistMapType,
		NoFreelistSync:  true,
		NoSync:          !c.Sync,
		NoGrowSync:      !c.Sync,
		NoStatistics:    true,
		InitialMmapSize: int(max(64<<20, 4*c.DataBytes)), // so that it need not map anew while growing
	})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bboltBucket)
		return err
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	s := &bboltStore{db: db, write: db.Update}
	if c.Writers > 1 {
		s.write = db.Batch
		db.MaxBatchSize = c.Writers // a batch is full when every writer waits in it
		db.MaxBatchDelay = time.Millisecond
	}
	return s, nil
}

func (s *bboltStore) Load(b *Batch) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bboltBucket)
		for i, k := range b.Keys {
			if err := bucket.Put(k, b.Values[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *bboltStore) Get(key []byte) (sum uint64, found bool, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		if v := tx.Bucket(bboltBucket).Get(key); v != nil {
			sum, found = touch(v), true
		}
		return nil
	})
	return sum, found, err
}

func (s *bboltStore) Has(key []byte) (found bool, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		found = tx.Bucket(bboltBucket).Get(key) != nil
		return nil
	})
	return found, err
}

func (s *bboltStore) ScanKeys() (t Tally, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(bboltBucket).Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			t.add(k)
			t.Entries++
		}
		return nil
	})
	return t, err
}

func (s *bboltStore) ScanValues() (Tally, error) { return s.SeekN(nil, -1) }

func (s *bboltStore) SeekN(key []byte, n int) (t Tally, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(bboltBucket).Cursor()
		for k, v := c.Seek(key); k != nil && t.Entries != n; k, v = c.Next() {
			t.add(k)
			t.add(v)
			t.Entries++
		}
		return nil
	})
	return t, err
}

func (s *bboltStore) CommitOne(key, value []byte) error {
	return s.write(func(tx *bolt.Tx) error { return tx.Bucket(bboltBucket).Put(key, value) })
}

func (s *bboltStore) Change(changes []Change) error {
	return s.write(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bboltBucket)
		for i := range changes {
			c := &changes[i]
			var err error
			switch {
			case c.Delete:
				err = bucket.Delete(c.Key)
			case c.TTL > 0:
				err = errNoTTL
			default:
				err = bucket.Put(c.Key, c.Value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// WaitQuiet finds bbolt quiet: it does nothing in the background.
func (s *bboltStore) WaitQuiet() (time.Time, error) { return waitIdle() }

func (s *bboltStore) Close() error { return s.db.Close() }
