package kv

import (
	"errors"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

const (
	leveldbModule = "github.com/syndtr/goleveldb"
	leveldbSetup  = "Bloom filters of 10 bits, no compression, and buffers as go-ethereum sets them: a block cache of half and a write buffer of a quarter of the memory for caches; that is 256 MB and more, or a third of a limited memory"
)

// levelStore is goleveldb. Its writes are buffered by default; there is no
// background work that can be asked about.
type levelStore struct {
	db    *leveldb.DB
	write *opt.WriteOptions
}

func openLevelDB(c Config) (Store, error) {
	db, err := leveldb.OpenFile(c.Dir, &opt.Options{
		BlockCacheCapacity:     int(c.cache() / 2),
		WriteBuffer:            int(c.memtable(min(64<<20, c.cache()/4))),
		Compression:            opt.NoCompression,
		Filter:                 filter.NewBloomFilter(10),
		DisableSeeksCompaction: true, // as go-ethereum
		OpenFilesCacheCapacity: 1024,
	})
	if err != nil {
		return nil, err
	}
	return &levelStore{db: db, write: &opt.WriteOptions{Sync: c.Sync}}, nil
}

func (s *levelStore) Get(key []byte) (uint64, bool, error) {
	v, found, err := s.AppendValue(nil, key)
	return Touch(v), found, err
}

// AppendValue copies once more: goleveldb's Get returns a copy of its own.
func (s *levelStore) AppendValue(dst, key []byte) ([]byte, bool, error) {
	v, err := s.db.Get(key, nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return dst, false, nil
	}
	if dst == nil {
		return v, err == nil, err
	}
	return append(dst, v...), err == nil, err
}

func (s *levelStore) Has(key []byte) (bool, error) { return s.db.Has(key, nil) }

func (s *levelStore) Scan(from []byte, limit int, values bool) (t Tally, err error) {
	it := s.db.NewIterator(&util.Range{Start: from}, nil)
	defer it.Release()
	for t.Entries != limit && it.Next() {
		t.Add(it.Key())
		if values {
			t.Add(it.Value())
		}
		t.Entries++
	}
	return t, it.Error()
}

func (s *levelStore) Last() (sum uint64, err error) {
	it := s.db.NewIterator(nil, nil)
	defer it.Release()
	if it.Last() {
		sum = Touch(it.Key())
	}
	return sum, it.Error()
}

func (s *levelStore) Set(key, value []byte) error { return s.db.Put(key, value, s.write) }

func (s *levelStore) Apply(changes []Change) error {
	var b leveldb.Batch
	set := func(key, value []byte) error { b.Put(key, value); return nil }
	remove := func(key []byte) error { b.Delete(key); return nil }
	if err := apply(changes, set, remove); err != nil {
		return err
	}
	return s.db.Write(&b, s.write)
}

func (s *levelStore) Close() error { return s.db.Close() }
