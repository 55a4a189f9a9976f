package main

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
)

type pebbleStore struct {
	db    *pebble.DB
	write *pebble.WriteOptions
}

// openPebble uses the options of Pebble's own benchmark command and of
// CockroachDB, without compression and with a cache that holds all data.
func openPebble(c Config) (Store, error) { return newPebble(c, pebbleOptions(c)) }

// openPebbleSep also separates values of 512 bytes and more.
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
		CacheSize:                   max(256<<20, c.DataBytes+c.DataBytes/4),
		FormatMajorVersion:          pebble.FormatNewest,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                16384,
		MemTableSize:                64 << 20,
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

func (s *pebbleStore) Load(b *Batch) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	for i, k := range b.Keys {
		if err := batch.Set(k, b.Values[i], nil); err != nil {
			return err
		}
	}
	return batch.Commit(s.write)
}

func (s *pebbleStore) Get(key []byte) (uint64, bool, error) {
	v, closer, err := s.db.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			err = nil
		}
		return 0, false, err
	}
	sum := touch(v)
	return sum, true, closer.Close()
}

func (s *pebbleStore) Has(key []byte) (bool, error) {
	_, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

func (s *pebbleStore) ScanKeys() (t Tally, err error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return t, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		t.add(it.Key())
		t.Entries++
	}
	return t, it.Close()
}

func (s *pebbleStore) ScanValues() (Tally, error) { return s.SeekN(nil, -1) }

func (s *pebbleStore) SeekN(key []byte, n int) (t Tally, err error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return t, err
	}
	for ok := it.SeekGE(key); ok && t.Entries != n; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return t, errors.Join(err, it.Close())
		}
		t.add(it.Key())
		t.add(v)
		t.Entries++
	}
	return t, it.Close()
}

func (s *pebbleStore) CommitOne(key, value []byte) error { return s.db.Set(key, value, s.write) }

func (s *pebbleStore) Change(changes []Change) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	for i := range changes {
		c := &changes[i]
		var err error
		switch {
		case c.Delete:
			err = batch.Delete(c.Key, nil)
		case c.TTL > 0:
			err = errNoTTL
		default:
			err = batch.Set(c.Key, c.Value, nil)
		}
		if err != nil {
			return err
		}
	}
	return batch.Commit(s.write)
}

func (s *pebbleStore) WaitQuiet() (time.Time, error) {
	if err := s.db.Flush(); err != nil {
		return time.Time{}, err
	}
	for {
		since, err := waitIdle()
		m := s.db.Metrics()
		if err != nil || m.Compact.NumInProgress == 0 && m.Flush.NumInProgress == 0 {
			return since, err
		}
	}
}

func (s *pebbleStore) Close() error { return s.db.Close() }

// silent is a logger for stores that want one.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}
