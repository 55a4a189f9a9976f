// Package brockcometbft is a database of CometBFT (github.com/cometbft/cometbft-db) in a Brock store.
//
// Batches are atomic. Iterators read one version of the store: unlike in other backends, anybody may
// write to their domain meanwhile, and nobody waits. A Database may be used by any number of goroutines,
// an iterator and a batch by one at a time. What is passed in is copied, and what Get returns belongs to
// the caller.
package brockcometbft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	db "github.com/cometbft/cometbft-db"

	"github.com/brockdb/brock"
)

// Database is a db.DB in one keyspace of a Brock store. Make it by Open or New. After Close its methods
// return brock.ErrClosed.
type Database struct {
	store  *brock.DB
	keys   *brock.Keyspace
	owned  bool // Close closes store
	closed atomic.Bool
	unused sync.Pool // of *brock.Batch, empty
}

// keptBatch is the greatest size of a batch whose memory is used again, in bytes.
const keptBatch = 1 << 20

// newWrites returns an empty batch.
func (d *Database) newWrites() *brock.Batch {
	if b, ok := d.unused.Get().(*brock.Batch); ok {
		return b
	}
	return d.keys.NewBatch()
}

// endWrites empties a batch, which nobody uses any more.
func (d *Database) endWrites(b *brock.Batch) {
	small := b.Size() <= keptBatch
	b.Reset()
	if small {
		d.unused.Put(b)
	}
}

var _ db.DB = (*Database)(nil)

// Misuse that cometbft-db has errors of its own for, which it doesn't export.
var (
	errKeyEmpty  = fmt.Errorf("key cannot be empty: %w", brock.ErrInvalid)
	errValueNil  = fmt.Errorf("value cannot be nil: %w", brock.ErrInvalid)
	errBatchDone = fmt.Errorf("batch has been written or closed: %w", brock.ErrInvalid)
)

// Open opens the store of a database in the directory that cometbft-db's backends use, dir/name.db, and
// makes it if it is not there. It sets Options.Dir unless the store is InMemory. Its errors are those of
// brock.Open.
//
// Without a Durability it is brock.Buffered: Set, Delete and Write survive the end of the process, and
// SetSync, DeleteSync and WriteSync a power loss, with all that was written before. CopyValues is always
// on: iterators copy anyway, and so one that nobody closes keeps no files for ever.
func Open(name, dir string, o brock.Options) (*Database, error) {
	if !o.InMemory {
		o.Dir = filepath.Join(dir, name+".db")
	}
	o.Durability = cmp.Or(o.Durability, brock.Buffered)
	o.CopyValues = true
	store, err := brock.Open(o)
	if err != nil {
		return nil, err
	}
	return &Database{store: store, keys: store.Default(), owned: true}, nil
}

// New returns a Database in a keyspace of an open store; nil is the default one. Set, Delete and Write
// have the durability of the store's options. Close leaves the store open. Stats and Compact are about
// all of the store.
func New(store *brock.DB, keys *brock.Keyspace) *Database {
	if keys == nil {
		keys = store.Default()
	}
	return &Database{store: store, keys: keys}
}

// Store returns the store, for backups and metrics.
func (d *Database) Store() *brock.DB { return d.store }

func (d *Database) check() error {
	if d.closed.Load() {
		return brock.ErrClosed
	}
	return nil
}

// checkKey returns nil if the Database is open and the key is not empty.
func (d *Database) checkKey(key []byte) error {
	if len(key) == 0 {
		return errKeyEmpty
	}
	return d.check()
}

// Close ends the Database. If Open made it, everything written is durable and the store is closed.
// Iterators that are open end with brock.ErrClosed. It may be called more than once.
func (d *Database) Close() error {
	d.closed.Store(true)
	if !d.owned {
		return nil
	}
	return d.store.Close()
}

// Get returns a copy of the value of key; nil and no error if there is none. An empty value is not nil.
func (d *Database) Get(key []byte) ([]byte, error) {
	if err := d.checkKey(key); err != nil {
		return nil, err
	}
	value, err := d.keys.Get(key)
	if errors.Is(err, brock.ErrKeyNotFound) {
		return nil, nil
	}
	return value, err
}

// Has reports whether key has a value, which it does not read.
func (d *Database) Has(key []byte) (bool, error) {
	if err := d.checkKey(key); err != nil {
		return false, err
	}
	return d.keys.Has(key)
}

// Set stores a pair. It returns brock.ErrNoSpace on a full disk, when nothing was written.
func (d *Database) Set(key, value []byte) error { return d.set(key, value, brock.DefaultDurability) }

// SetSync is Set, and returns when the pair, and all that was written before, survives a power loss.
func (d *Database) SetSync(key, value []byte) error { return d.set(key, value, brock.Synced) }

func (d *Database) set(key, value []byte, durability brock.Durability) error {
	if err := d.checkKey(key); err != nil {
		return err
	}
	if value == nil {
		return errValueNil
	}
	if durability == brock.DefaultDurability {
		return d.keys.Set(key, value)
	}
	return d.commit(durability, func(b *brock.Batch) error { return b.Set(key, value) })
}

// Delete removes key. An absent key is no error.
func (d *Database) Delete(key []byte) error {
	if err := d.checkKey(key); err != nil {
		return err
	}
	return d.keys.Delete(key)
}

// DeleteSync is Delete, and returns when that, and all that was written before, survives a power loss.
func (d *Database) DeleteSync(key []byte) error {
	if err := d.checkKey(key); err != nil {
		return err
	}
	return d.commit(brock.Synced, func(b *brock.Batch) error { return b.Delete(key) })
}

func (d *Database) commit(durability brock.Durability, fill func(b *brock.Batch) error) error {
	b := d.newWrites()
	defer d.endWrites(b)
	if err := fill(b); err != nil {
		return err
	}
	_, err := b.Commit(context.Background(), durability)
	return err
}

// Print writes the metrics and all pairs to the standard output, in the order of keys.
func (d *Database) Print() error {
	if err := d.check(); err != nil {
		return err
	}
	fmt.Println(d.store.Metrics())
	return d.keys.View(func(txn *brock.Txn) error {
		for item, err := range txn.All() {
			if err != nil {
				return err
			}
			value, err := item.Value()
			if err != nil {
				return err
			}
			fmt.Printf("[%X]:\t[%X]\n", item.Key(), value)
		}
		return nil
	})
}

// Stats returns the store's metrics by name; nil after Close.
func (d *Database) Stats() map[string]string {
	if d.check() != nil {
		return nil
	}
	stats := make(map[string]string)
	m := d.store.Metrics()
	m.Each(func(name, _, _ string, _ brock.MetricKind, v float64) { stats["brock."+name] = fmt.Sprint(v) })
	return stats
}

// Compact compacts all runs of the store into one, whatever the range: runs can't be compacted in
// part. For a range it does nothing if all lies in one run.
func (d *Database) Compact(start, end []byte) error {
	if err := d.check(); err != nil {
		return err
	}
	tree := d.store.Metrics().Tree
	if (start != nil || end != nil) && tree.Runs <= 1 && tree.MemtableEntries == 0 && tree.Version > 0 {
		return nil
	}
	return d.store.Compact(context.Background())
}

// NewBatch returns an empty batch. It need not be closed. A large one keeps its writes in files.
func (d *Database) NewBatch() db.Batch { return &batch{d: d, writes: d.newWrites()} }

// batch is a group of writes that are committed together.
type batch struct {
	d      *Database
	writes *brock.Batch // nil once it was written or closed
}

// Set adds a pair.
func (b *batch) Set(key, value []byte) error {
	switch {
	case len(key) == 0:
		return errKeyEmpty
	case value == nil:
		return errValueNil
	case b.writes == nil:
		return errBatchDone
	}
	return b.writes.Set(key, value)
}

// Delete adds the delete of key.
func (b *batch) Delete(key []byte) error {
	switch {
	case len(key) == 0:
		return errKeyEmpty
	case b.writes == nil:
		return errBatchDone
	}
	return b.writes.Delete(key)
}

// Write commits all or nothing. After that, and after an error, the batch can only be closed.
func (b *batch) Write() error { return b.write(brock.DefaultDurability) }

// WriteSync is Write, and returns when the batch, and all that was written before, survives a power
// loss.
func (b *batch) WriteSync() error { return b.write(brock.Synced) }

func (b *batch) write(durability brock.Durability) error {
	if b.writes == nil {
		return errBatchDone
	}
	if err := b.d.check(); err != nil {
		return err
	}
	writes := b.writes
	b.writes = nil
	defer b.d.endWrites(writes)
	if durability == brock.Synced && writes.Len() == 0 {
		return b.d.store.Sync(context.Background()) // it would wait for nothing
	}
	_, err := writes.Commit(context.Background(), durability)
	return err
}

// Close drops what was not written. It may be called more than once.
func (b *batch) Close() error {
	if b.writes != nil {
		b.d.endWrites(b.writes)
		b.writes = nil
	}
	return nil
}
