// Package brockethdb is a key-value store of go-ethereum (ethdb.KeyValueStore) in a Brock store.
//
// Ranges are deleted by one record, whatever their size, also in batches. Iterators read one version of
// the store, and writers never wait for them. A Database may be used by any number of goroutines, an
// iterator and a batch by one at a time. What is passed in is copied, and what Get returns belongs to
// the caller.
package brockethdb

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/brockdb/brock"
)

// Database is an ethdb.KeyValueStore in one keyspace of a Brock store. Make it by Open or New. After
// Close its methods return brock.ErrClosed.
type Database struct {
	db     *brock.DB
	keys   *brock.Keyspace
	owned  bool // Close closes db
	closed atomic.Bool
	unused sync.Pool // of *brock.Batch, empty, for DeleteRange
}

var _ ethdb.KeyValueStore = (*Database)(nil)

// Open opens the store of o, and makes it if it is not there. Its errors are those of brock.Open.
//
// Without a Durability it is brock.Buffered: a write survives the end of the process, and a power loss
// once SyncKeyValue has returned, as with go-ethereum's other stores. CopyValues is always on: iterators
// copy anyway, and so one that nobody releases keeps no files for ever.
func Open(o brock.Options) (*Database, error) {
	o.Durability = cmp.Or(o.Durability, brock.Buffered)
	o.CopyValues = true
	db, err := brock.Open(o)
	if err != nil {
		return nil, err
	}
	return &Database{db: db, keys: db.Default(), owned: true}, nil
}

// New returns a Database in a keyspace of an open store; nil is the default one. Writes have the
// durability of the store's options. Close leaves the store open. Stat and Compact are about all of the
// store.
func New(db *brock.DB, keys *brock.Keyspace) *Database {
	if keys == nil {
		keys = db.Default()
	}
	return &Database{db: db, keys: keys}
}

// DB returns the store, for backups and metrics.
func (d *Database) DB() *brock.DB { return d.db }

func (d *Database) check() error {
	if d.closed.Load() {
		return brock.ErrClosed
	}
	return nil
}

// Close ends the Database. If Open made it, everything written is durable and the store is closed.
// Iterators that are open end with brock.ErrClosed. It may be called more than once.
func (d *Database) Close() error {
	d.closed.Store(true)
	if !d.owned {
		return nil
	}
	return d.db.Close()
}

// Has reports whether key has a value, which it does not read.
func (d *Database) Has(key []byte) (bool, error) {
	if err := d.check(); err != nil {
		return false, err
	}
	return d.keys.Has(key)
}

// Get returns a copy of the value of key, which is never nil, or brock.ErrKeyNotFound.
func (d *Database) Get(key []byte) ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	return d.keys.Get(key)
}

// Put stores a pair. It returns brock.ErrNoSpace on a full disk, when nothing was written.
func (d *Database) Put(key, value []byte) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.keys.Set(key, value)
}

// Delete removes key. An absent key is no error.
func (d *Database) Delete(key []byte) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.keys.Delete(key)
}

// DeleteRange removes all keys in [start, end) by one record; nil is no bound. It never returns
// ethdb.ErrTooManyKeys.
func (d *Database) DeleteRange(start, end []byte) error {
	if err := d.check(); err != nil {
		return err
	}
	b, ok := d.unused.Get().(*brock.Batch)
	if !ok {
		b = d.keys.NewBatch()
	}
	defer d.unused.Put(b)
	defer b.Reset()
	if err := b.DeleteRange(start, end); err != nil {
		return err
	}
	_, err := b.Commit(context.Background(), brock.DefaultDurability)
	return err
}

// SyncKeyValue returns when all that was written survives a power loss.
func (d *Database) SyncKeyValue() error {
	if err := d.check(); err != nil {
		return err
	}
	if d.db.Options().Mode != brock.ReadWrite {
		return nil // it has written nothing
	}
	return d.db.Sync(context.Background())
}

// Stat returns the store's metrics as text, a line each.
func (d *Database) Stat() (string, error) {
	if err := d.check(); err != nil {
		return "", err
	}
	if err := d.db.Err(); errors.Is(err, brock.ErrClosed) {
		return "", err
	}
	return d.db.Metrics().String(), nil
}

// Compact compacts all runs of the store into one, whatever the range: runs can't be compacted in
// part. If all lies in one run it does nothing, so that the ranges of which go-ethereum compacts one
// after the other cost one compaction together.
func (d *Database) Compact(start, limit []byte) error {
	if err := d.check(); err != nil {
		return err
	}
	tree := d.db.Metrics().Tree
	if (start != nil || limit != nil) && tree.Runs <= 1 && tree.MemtableEntries == 0 && tree.Version > 0 {
		return nil
	}
	return d.db.Compact(context.Background())
}

// NewBatch returns an empty batch.
func (d *Database) NewBatch() ethdb.Batch { return &batch{d: d} }

// NewBatchWithSize returns an empty batch with room for size bytes.
func (d *Database) NewBatchWithSize(size int) ethdb.Batch {
	return &batch{d: d, ops: make([]byte, 0, max(size, 0))}
}
