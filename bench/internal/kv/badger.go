package kv

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

	badgerSetup          = "its defaults (values up to 1 MB in the tree), no compression; no block cache, as its documents advise without compression and encryption; loads by WriteBatch"
	badgerEncryptedSetup = "the same with an encryption key (AES-256-CTR, without tags), a block cache that holds all data, and an index cache of 100 MB, as its documents advise"
	badgerIndexCache     = 100 << 20

	badgerLogSetup = "the same with values of 1 KB and more in the value log, as in its first releases"

	// Badger's documents have its collection called every few minutes, until it
	// finds nothing; these runs last less.
	collectEvery = 5 * time.Second
	collectShare = 0.5 // of a log file that must be garbage, as in its documents
)

type badgerStore struct{ db *badger.DB }

func openBadger(c Config) (Store, error) { return newBadger(badgerOptions(c)) }

func openBadgerLog(c Config) (Store, error) {
	return newBadger(badgerOptions(c).WithValueThreshold(badgerLogThreshold))
}

// openBadgerEncrypted has a cache of blocks, without which Badger refuses a key.
func openBadgerEncrypted(c Config) (Store, error) {
	o := badgerOptions(c).WithEncryptionKey(encryptionKey)
	return newBadger(o.WithBlockCacheSize(c.cache()).WithIndexCacheSize(badgerIndexCache))
}

// encryptionKey is the key of all stores with encryption.
var encryptionKey = bytes.Repeat([]byte("bench"), 8)[:32]

func badgerOptions(c Config) badger.Options {
	o := badger.DefaultOptions(c.Dir)
	return o.WithCompression(options.None).
		WithBlockCacheSize(0).
		WithMemTableSize(c.memtable(o.MemTableSize)).
		WithValueThreshold(min(o.ValueThreshold, c.memtable(o.MemTableSize)/16)).
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

func (s *badgerStore) Get(key []byte) (sum uint64, found bool, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		found = true
		return item.Value(func(v []byte) error {
			sum = Touch(v)
			return nil
		})
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		err = nil
	}
	return sum, found, err
}

func (s *badgerStore) AppendValue(dst, key []byte) (value []byte, found bool, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		found = true
		return item.Value(func(v []byte) error {
			dst = append(dst, v...)
			return nil
		})
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		err = nil
	}
	return dst, found, err
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

func (s *badgerStore) Scan(from []byte, limit int, values bool) (t Tally, err error) {
	o := badger.DefaultIteratorOptions
	o.PrefetchValues = values
	if limit >= 0 {
		o.PrefetchSize = limit
	}
	err = s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(o)
		defer it.Close()
		value := func(v []byte) error {
			t.Add(v)
			return nil
		}
		for it.Seek(from); it.Valid() && t.Entries != limit; it.Next() {
			item := it.Item()
			t.Add(item.Key())
			if values {
				if err := item.Value(value); err != nil {
					return err
				}
			}
			t.Entries++
		}
		return nil
	})
	return t, err
}

func (s *badgerStore) Last() (sum uint64, err error) {
	o := badger.DefaultIteratorOptions
	o.PrefetchValues, o.Reverse = false, true
	err = s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(o)
		defer it.Close()
		if it.Rewind(); it.Valid() {
			sum = Touch(it.Item().Key())
		}
		return nil
	})
	return sum, err
}

func (s *badgerStore) Set(key, value []byte) error {
	return s.db.Update(func(txn *badger.Txn) error { return txn.Set(key, value) })
}

func (s *badgerStore) Load(changes []Change) error {
	wb := s.db.NewWriteBatch()
	defer wb.Cancel()
	if err := apply(changes, wb.Set, wb.Delete); err != nil {
		return err
	}
	return wb.Flush()
}

func (s *badgerStore) Apply(changes []Change) error {
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

// Badger has no flush before Close, which does it, so badgerStore is no Flusher.

func (s *badgerStore) Close() error { return s.db.Close() }

// BadgerCollected is Badger with its log collected now and then, for runs that
// look at disk space.
func BadgerCollected() Maker {
	return Maker{Name: "badger-log-gc", Module: badgerModule, MinValue: badgerLogThreshold, Open: openBadgerCollected}
}

type collectedBadger struct {
	*badgerStore
	stop, stopped chan struct{}
}

func openBadgerCollected(c Config) (Store, error) {
	s, err := openBadgerLog(c)
	if err != nil {
		return nil, err
	}
	b := &collectedBadger{badgerStore: s.(*badgerStore), stop: make(chan struct{}), stopped: make(chan struct{})}
	go b.run()
	return b, nil
}

func (b *collectedBadger) run() {
	defer close(b.stopped)
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-tick.C:
		}
		for b.db.RunValueLogGC(collectShare) == nil {
			select {
			case <-b.stop:
				return
			default:
			}
		}
	}
}

// Close ends the collection first.
func (b *collectedBadger) Close() error {
	close(b.stop)
	<-b.stopped
	return b.badgerStore.Close()
}
