package kv

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

const (
	pebbleModule        = "github.com/cockroachdb/pebble/v2"
	pebbleBlobThreshold = 512 // as in its own benchmarks
	pebbleGarbage       = 0.2 // share of blob files from which on it rewrites them, where values are overwritten

	pebbleSetup    = "the options of its own benchmark command: 64 MB memtables, Bloom filters on all levels, no compression; blocks of 32 KB (faster here than 4 KB); a block cache that holds all data, or a third of a limited memory"
	pebbleSepSetup = "the same with values of 512 B and more in blob files; where values are overwritten, these are rewritten from 20 % garbage on"
)

type pebbleStore struct {
	db    *pebble.DB
	write *pebble.WriteOptions
}

func openPebble(c Config) (Store, error) { return newPebble(c, pebbleOptions(c)) }

func openPebbleSep(c Config) (Store, error) {
	o := pebbleOptions(c)
	policy := pebble.ValueSeparationPolicy{
		Enabled:               true,
		MinimumSize:           pebbleBlobThreshold,
		MaxBlobReferenceDepth: 10,
		RewriteMinimumAge:     5 * time.Minute,
		TargetGarbageRatio:    1, // no rewriting: nothing is overwritten
	}
	if c.Overwrites {
		policy.RewriteMinimumAge, policy.TargetGarbageRatio = time.Second, pebbleGarbage
	}
	o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy { return policy }
	return newPebble(c, o)
}

func pebbleOptions(c Config) *pebble.Options {
	o := &pebble.Options{
		CacheSize:                   c.cache(),
		FormatMajorVersion:          pebble.FormatNewest,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                16384,
		MemTableSize:                uint64(c.memtable(64 << 20)),
		MemTableStopWritesThreshold: 4,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 3 },
		Logger:                      silent{},
	}
	o.Experimental.EnableColumnarBlocks = func() bool { return true }
	for i := range o.Levels {
		o.Levels[i].BlockSize = 32 << 10
		o.Levels[i].IndexBlockSize = 256 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	return o
}

func newPebble(c Config, o *pebble.Options) (Store, error) {
	db, err := pebble.Open(c.Dir, o)
	if err != nil {
		return nil, err
	}
	s := &pebbleStore{db: db, write: pebble.NoSync}
	if c.Sync {
		s.write = pebble.Sync
	}
	return s, nil
}

func (s *pebbleStore) Get(key []byte) (uint64, bool, error) {
	v, closer, err := s.db.Get(key)
	if err != nil {
		return 0, false, pebbleFound(err)
	}
	sum := Touch(v)
	return sum, true, closer.Close()
}

func (s *pebbleStore) AppendValue(dst, key []byte) ([]byte, bool, error) {
	v, closer, err := s.db.Get(key)
	if err != nil {
		return dst, false, pebbleFound(err)
	}
	dst = append(dst, v...)
	return dst, true, closer.Close()
}

func (s *pebbleStore) Has(key []byte) (bool, error) {
	_, closer, err := s.db.Get(key)
	if err != nil {
		return false, pebbleFound(err)
	}
	return true, closer.Close()
}

// pebbleFound drops the error that only says that a key is not there.
func pebbleFound(err error) error {
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	return err
}

func (s *pebbleStore) Scan(from []byte, limit int, values bool) (t Tally, err error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return t, err
	}
	for ok := it.SeekGE(from); ok && t.Entries != limit; ok = it.Next() {
		if values {
			v, err := it.ValueAndErr()
			if err != nil {
				return t, errors.Join(err, it.Close())
			}
			t.Add(v)
		}
		t.Add(it.Key())
		t.Entries++
	}
	return t, it.Close()
}

func (s *pebbleStore) Last() (sum uint64, err error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return 0, err
	}
	if it.Last() {
		sum = Touch(it.Key())
	}
	return sum, it.Close()
}

func (s *pebbleStore) Set(key, value []byte) error { return s.db.Set(key, value, s.write) }

func (s *pebbleStore) Apply(changes []Change) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	set := func(key, value []byte) error { return batch.Set(key, value, nil) }
	remove := func(key []byte) error { return batch.Delete(key, nil) }
	if err := apply(changes, set, remove); err != nil {
		return err
	}
	return batch.Commit(s.write)
}

func (s *pebbleStore) Flush() error { return s.db.Flush() }

func (s *pebbleStore) Busy() bool {
	m := s.db.Metrics()
	return m.Compact.NumInProgress > 0 || m.Flush.NumInProgress > 0
}

func (s *pebbleStore) Close() error { return s.db.Close() }

// silent is a logger for stores that want one.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}
