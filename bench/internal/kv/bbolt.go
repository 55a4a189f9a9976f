package kv

import (
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

const (
	bboltModule = "go.etcd.io/bbolt"
	bboltSetup  = "hash-map free list, not synced, as it advises for write speed; Update for one writer and Batch, full when all writers wait, for several"
)

var bboltBucket = []byte("b")

type bboltStore struct {
	db    *bolt.DB
	write func(func(*bolt.Tx) error) error // Update, or Batch when there are several writers
}

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

func (s *bboltStore) Get(key []byte) (sum uint64, found bool, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		if v := tx.Bucket(bboltBucket).Get(key); v != nil {
			sum, found = Touch(v), true
		}
		return nil
	})
	return sum, found, err
}

func (s *bboltStore) AppendValue(dst, key []byte) (value []byte, found bool, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		if v := tx.Bucket(bboltBucket).Get(key); v != nil {
			dst, found = append(dst, v...), true
		}
		return nil
	})
	return dst, found, err
}

func (s *bboltStore) Has(key []byte) (found bool, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		found = tx.Bucket(bboltBucket).Get(key) != nil
		return nil
	})
	return found, err
}

func (s *bboltStore) Scan(from []byte, limit int, values bool) (t Tally, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(bboltBucket).Cursor()
		for k, v := c.Seek(from); k != nil && t.Entries != limit; k, v = c.Next() {
			t.Add(k)
			if values {
				t.Add(v)
			}
			t.Entries++
		}
		return nil
	})
	return t, err
}

func (s *bboltStore) Last() (sum uint64, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		k, _ := tx.Bucket(bboltBucket).Cursor().Last()
		sum = Touch(k)
		return nil
	})
	return sum, err
}

func (s *bboltStore) Set(key, value []byte) error {
	return s.write(func(tx *bolt.Tx) error { return tx.Bucket(bboltBucket).Put(key, value) })
}

// Load writes in a transaction of its own, whatever other writers do.
func (s *bboltStore) Load(changes []Change) error { return s.change(changes, s.db.Update) }

func (s *bboltStore) Apply(changes []Change) error { return s.change(changes, s.write) }

func (s *bboltStore) change(changes []Change, write func(func(*bolt.Tx) error) error) error {
	return write(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bboltBucket)
		return apply(changes, bucket.Put, bucket.Delete)
	})
}

// bbolt does nothing in the background, so bboltStore is no Flusher.

func (s *bboltStore) Close() error { return s.db.Close() }
