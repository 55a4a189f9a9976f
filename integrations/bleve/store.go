// Package brockbleve is a store of bleve's index upsidedown (github.com/blevesearch/upsidedown_store_api)
// in a Brock store.
//
// A reader reads one version, and nobody waits for it. A batch is atomic; one with merges is a
// transaction, so that merges of several writers lose nothing. The interface is satisfied without an
// import of bleve itself.
package brockbleve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	store "github.com/blevesearch/upsidedown_store_api"

	"github.com/brockdb/brock"
)

// Name is the name under which programs register New: registry.RegisterKVStore(Name, New).
const Name = "brock"

// Store is a store.KVStore in one keyspace of a Brock store. Make it by New or In. Any number of
// goroutines may use it, readers and writers that it makes included; an iterator and a batch belong to
// one at a time. After Close calls return brock.ErrClosed.
type Store struct {
	db    *brock.DB
	keys  *brock.Keyspace
	merge store.MergeOperator // nil: a Merge is an error
	owned bool                // Close closes db
}

var (
	_ store.KVStore      = (*Store)(nil)
	_ store.KVStoreStats = (*Store)(nil)
)

// New opens a store as bleve's registry asks for it. Of config it looks at
//
//	"path"              string  directory of the store; "" = in memory
//	"create_if_missing" bool    if it is false, a missing store is brock.ErrNotExist
//	"error_if_exists"   bool    if it is true, a store that is there is brock.ErrExist
//	"read_only"         bool    nothing is written
//	"nosync"            bool    a batch survives the end of the process, but not a power loss
//	"memory_limit"      number  brock.Options.MemoryLimit in bytes
//
// and ignores other fields, which are of others. A field of another type is brock.ErrInvalid.
func New(mo store.MergeOperator, config map[string]any) (store.KVStore, error) {
	o := brock.Options{CopyValues: true} // so that a reader that nobody closes keeps no files for ever
	var create, readOnly, noSync bool
	create = true
	for _, field := range []struct {
		name string
		set  func(value any) bool
	}{
		{"path", func(v any) (ok bool) { o.Dir, ok = v.(string); return ok }},
		{"create_if_missing", func(v any) (ok bool) { create, ok = v.(bool); return ok }},
		{"error_if_exists", func(v any) (ok bool) { o.MustBeNew, ok = v.(bool); return ok }},
		{"read_only", func(v any) (ok bool) { readOnly, ok = v.(bool); return ok }},
		{"nosync", func(v any) (ok bool) { noSync, ok = v.(bool); return ok }},
		{"memory_limit", func(v any) bool {
			switch v := v.(type) {
			case float64: // as encoding/json has numbers
				o.MemoryLimit = int64(v)
			case int:
				o.MemoryLimit = int64(v)
			default:
				return false
			}
			return true
		}},
	} {
		if value, ok := config[field.name]; ok && !field.set(value) {
			return nil, fmt.Errorf("brockbleve: field %q of the configuration has a wrong type: %w", field.name, brock.ErrInvalid)
		}
	}
	switch {
	case o.Dir == "":
		o.InMemory = true
	case readOnly:
		o.Mode, o.MustBeNew = brock.ReadOnly, false
	default:
		o.MustExist = !create && !o.MustBeNew
	}
	if noSync {
		o.Durability = brock.Buffered
	}
	db, err := brock.Open(o)
	if err != nil {
		return nil, err
	}
	return &Store{db: db, keys: db.Default(), merge: mo, owned: true}, nil
}

// In returns a Store in a keyspace of an open store; nil is the default one. Batches have the durability
// of the store's options. Close leaves the store open.
func In(db *brock.DB, keys *brock.Keyspace, mo store.MergeOperator) *Store {
	if keys == nil {
		keys = db.Default()
	}
	return &Store{db: db, keys: keys, merge: mo}
}

// DB returns the store, for backups and metrics.
func (s *Store) DB() *brock.DB { return s.db }

// Close ends the store, if New made it. Readers and iterators that are open end with brock.ErrClosed.
// It may be called more than once.
func (s *Store) Close() error {
	if !s.owned {
		return nil
	}
	return s.db.Close()
}

// Writer returns a writer. There may be any number of them.
func (s *Store) Writer() (store.KVWriter, error) {
	if err := s.db.Err(); errors.Is(err, brock.ErrClosed) {
		return nil, err
	}
	return &writer{s}, nil
}

// Reader returns a reader of the version of this moment. Close it: until then it keeps the files that
// it reads.
func (s *Store) Reader() (store.KVReader, error) {
	txn, err := s.db.Begin(context.Background(), brock.TxnOptions{})
	if err != nil {
		return nil, err
	}
	return &reader{txn: txn.In(s.keys)}, nil
}

// Stats returns the metrics of StatsMap, as JSON.
func (s *Store) Stats() json.Marshaler { return stats{s} }

// StatsMap returns the metrics of the store by name.
func (s *Store) StatsMap() map[string]any {
	all := make(map[string]any)
	m := s.db.Metrics()
	m.Each(func(name, _, _ string, _ brock.MetricKind, v float64) { all[name] = v })
	return all
}

type stats struct{ s *Store }

// MarshalJSON returns the metrics of this moment.
func (s stats) MarshalJSON() ([]byte, error) { return json.Marshal(s.s.StatsMap()) }
