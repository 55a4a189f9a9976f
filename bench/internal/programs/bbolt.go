package programs

import (
	"errors"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

var bucket = []byte("b")

func openBbolt(dir string, sync bool) (*bolt.DB, error) {
	db, err := bolt.Open(filepath.Join(dir, "bolt.db"), 0o600, &bolt.Options{
		FreelistType: bolt.FreelistMapType, NoFreelistSync: true, NoSync: !sync, NoGrowSync: !sync, NoStatistics: true, InitialMmapSize: 256 << 20,
	})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func bboltSequence(dir string, n int) (perSecond float64, err error) {
	db, err := openBbolt(dir, true)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.MaxBatchSize, db.MaxBatchDelay = workers, time.Millisecond // full when all workers wait
	return measure(n, func() error {
		return spread(n, func(int) error {
			return db.Batch(func(tx *bolt.Tx) error {
				_, err := tx.Bucket(bucket).NextSequence()
				return err
			})
		})
	})
}

func bboltSorted(dir string, n int) (perSecond float64, err error) {
	db, err := openBbolt(dir, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return measure(n, func() error { return loadBbolt(db, n) })
}

// loadBbolt loads n pairs in order, and syncs at the end.
func loadBbolt(db *bolt.DB, n int) error {
	const each = 50_000 // pairs of a transaction
	for from := 0; from < n; from += each {
		err := db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucket)
			b.FillPercent = 1 // nothing will come between
			for i := from; i < min(from+each, n); i++ {
				if err := b.Put(appendKey(nil, i), valueOf(i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return db.Sync()
}

func bboltFirst(dir string, n int) (perSecond float64, err error) {
	db, err := openBbolt(dir, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := loadBbolt(db, n); err != nil {
		return 0, err
	}
	return measure(n, func() error {
		for range n {
			err := db.Update(func(tx *bolt.Tx) error {
				key, _ := tx.Bucket(bucket).Cursor().First()
				if key == nil {
					return errors.New("no key")
				}
				return tx.Bucket(bucket).Delete(key)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
