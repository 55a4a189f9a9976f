// Package brockds is a datastore of IPFS and libp2p (github.com/ipfs/go-datastore) in a Brock store.
//
// It has all features of go-datastore: batches that are atomic, serializable transactions, entries
// with a time to live, queries that stream from one version of the store, checks of every checksum,
// garbage collection and disk usage. Config is what a plugin of kubo needs.
//
// A Datastore may be used by any number of goroutines. It copies what it is given, and what it
// returns belongs to the caller. After Close, calls return brock.ErrClosed.
package brockds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	ds "github.com/ipfs/go-datastore"

	"github.com/brockdb/brock"
)

// Datastore is a go-datastore in one keyspace of a Brock store. Make it by Open or New.
type Datastore struct {
	db     *brock.DB
	keys   *brock.Keyspace
	owned  bool // Close closes db
	closed atomic.Bool
}

var (
	_ ds.Batching            = (*Datastore)(nil)
	_ ds.TTLDatastore        = (*Datastore)(nil)
	_ ds.TxnDatastore        = (*Datastore)(nil)
	_ ds.GCDatastore         = (*Datastore)(nil)
	_ ds.PersistentDatastore = (*Datastore)(nil)
	_ ds.CheckedDatastore    = (*Datastore)(nil)
	_ ds.ScrubbedDatastore   = (*Datastore)(nil)
)

// Open opens the store of o, and makes it if it is not there. Its errors are those of brock.Open.
//
// Without a Durability it is brock.Buffered: a write survives the end of the process, and a power
// loss once Sync has returned, which is what go-datastore asks for. With brock.Synced each write
// waits for the disk. CopyValues is always on: all results are copies anyway, and so a query that
// nobody closes keeps no files for ever.
func Open(o brock.Options) (*Datastore, error) {
	o.Durability = cmp.Or(o.Durability, brock.Buffered)
	o.CopyValues = true
	db, err := brock.Open(o)
	if err != nil {
		return nil, err
	}
	return &Datastore{db: db, keys: db.Default(), owned: true}, nil
}

// New returns a Datastore in a keyspace of an open store; nil is the default one. Writes have the
// durability of the store's options. Close leaves the store open. DiskUsage, CollectGarbage, Check
// and Scrub are about all of the store.
func New(db *brock.DB, keys *brock.Keyspace) *Datastore {
	if keys == nil {
		keys = db.Default()
	}
	return &Datastore{db: db, keys: keys}
}

// DB returns the store, for backups and metrics.
func (d *Datastore) DB() *brock.DB { return d.db }

// check returns nil while the Datastore is open and ctx has not ended.
func (d *Datastore) check(ctx context.Context) error {
	if d.closed.Load() {
		return brock.ErrClosed
	}
	return ctx.Err()
}

// Close ends the Datastore. If Open made it, everything written is durable and the store is closed.
// Queries and transactions that are open return brock.ErrClosed from then on. It may be called more
// than once.
func (d *Datastore) Close() error {
	d.closed.Store(true)
	if !d.owned {
		return nil
	}
	return d.db.Close()
}

// notFound returns ds.ErrNotFound itself, which callers compare by ==, for an absent key.
func notFound(err error) error {
	if errors.Is(err, brock.ErrKeyNotFound) {
		return ds.ErrNotFound
	}
	return err
}

// Get returns a copy of the value of key, or ds.ErrNotFound. The copy is never nil.
func (d *Datastore) Get(ctx context.Context, key ds.Key) ([]byte, error) {
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	value, err := d.keys.Get(key.Bytes())
	if err != nil {
		return nil, notFound(err)
	}
	return value, nil
}

// Has reports whether key has a value, which it does not read.
func (d *Datastore) Has(ctx context.Context, key ds.Key) (bool, error) {
	if err := d.check(ctx); err != nil {
		return false, err
	}
	return d.keys.Has(key.Bytes())
}

// GetSize returns the length of the value of key, which it does not read; -1 and ds.ErrNotFound if
// there is none.
func (d *Datastore) GetSize(ctx context.Context, key ds.Key) (size int, err error) {
	if err := d.check(ctx); err != nil {
		return -1, err
	}
	err = d.keys.View(func(txn *brock.Txn) error {
		size, err = getSize(txn, key)
		return err
	})
	if err != nil {
		return -1, err
	}
	return size, nil
}

// Put stores a pair. It returns brock.ErrNoSpace on a full disk, when nothing was written.
func (d *Datastore) Put(ctx context.Context, key ds.Key, value []byte) error {
	if err := d.check(ctx); err != nil {
		return err
	}
	return d.keys.Set(key.Bytes(), value)
}

// Delete removes key. An absent key is no error.
func (d *Datastore) Delete(ctx context.Context, key ds.Key) error {
	if err := d.check(ctx); err != nil {
		return err
	}
	return d.keys.Delete(key.Bytes())
}

// Sync returns when all that was written survives a power loss, whatever its prefix. Where the
// store's durability is brock.Synced, that holds already.
func (d *Datastore) Sync(ctx context.Context, prefix ds.Key) error {
	if err := d.check(ctx); err != nil {
		return err
	}
	if o := d.db.Options(); o.Durability == brock.Synced || o.Mode != brock.ReadWrite {
		return nil
	}
	return d.db.Sync(ctx)
}

// PutWithTTL is Put of an entry that is gone after ttl, rounded up to a millisecond. A ttl that is
// not positive is brock.ErrInvalid.
func (d *Datastore) PutWithTTL(ctx context.Context, key ds.Key, value []byte, ttl time.Duration) error {
	if err := d.check(ctx); err != nil {
		return err
	}
	e, err := expiring(key, value, ttl)
	if err != nil {
		return err
	}
	return d.keys.BatchSet([]*brock.Entry{e})
}

// SetTTL gives the entry of key another time to live, from now on. It returns ds.ErrNotFound if
// there is none. The value is written again.
func (d *Datastore) SetTTL(ctx context.Context, key ds.Key, ttl time.Duration) error {
	if err := d.check(ctx); err != nil {
		return err
	}
	return d.keys.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		return setTTL(txn, key, ttl)
	})
}

// GetExpiration returns when the entry of key expires; the zero time is never. It returns
// ds.ErrNotFound if there is none.
func (d *Datastore) GetExpiration(ctx context.Context, key ds.Key) (at time.Time, err error) {
	if err := d.check(ctx); err != nil {
		return time.Time{}, err
	}
	err = d.keys.View(func(txn *brock.Txn) error {
		at, err = getExpiration(txn, key)
		return err
	})
	return at, err
}

// DiskUsage returns how many bytes the files of the store take. It is cheap.
func (d *Datastore) DiskUsage(ctx context.Context) (uint64, error) {
	if err := d.check(ctx); err != nil {
		return 0, err
	}
	if err := d.db.Err(); errors.Is(err, brock.ErrClosed) {
		return 0, err
	}
	tree := d.db.Metrics().Tree
	return uint64(tree.RunBytes + tree.SegmentBytes), nil
}

// CollectGarbage makes the files as small as they can be. A store also does this by itself while it
// is written to and when it is idle, so that nobody has to call it.
func (d *Datastore) CollectGarbage(ctx context.Context) error {
	if err := d.check(ctx); err != nil {
		return err
	}
	_, err := d.db.Reclaim(ctx)
	return err
}

// Check verifies every checksum of every file, and returns the first damage as a
// *brock.CorruptionError.
func (d *Datastore) Check(ctx context.Context) error {
	if err := d.check(ctx); err != nil {
		return err
	}
	return d.db.Verify(ctx, nil)
}

// Scrub is Check. It repairs nothing: brock.Salvage saves what is left of a damaged store.
func (d *Datastore) Scrub(ctx context.Context) error { return d.Check(ctx) }

// expiring returns the entry of PutWithTTL.
func expiring(key ds.Key, value []byte, ttl time.Duration) (*brock.Entry, error) {
	// Not brock's own answer: to it a TTL of 0 is none, so that the entry would stay for ever.
	if ttl <= 0 {
		return nil, fmt.Errorf("brockds: time to live %v is not positive: %w", ttl, brock.ErrInvalid)
	}
	return brock.NewEntry(key.Bytes(), value).WithTTL(ttl), nil
}

func getSize(txn *brock.Txn, key ds.Key) (int, error) {
	item, err := txn.Get(key.Bytes())
	if err != nil {
		return -1, notFound(err)
	}
	return int(item.ValueSize()), nil
}

func getExpiration(txn *brock.Txn, key ds.Key) (time.Time, error) {
	item, err := txn.Get(key.Bytes())
	if err != nil {
		return time.Time{}, notFound(err)
	}
	return item.ExpiresAt(), nil
}

func setTTL(txn *brock.Txn, key ds.Key, ttl time.Duration) error {
	item, err := txn.Get(key.Bytes())
	if err != nil {
		return notFound(err)
	}
	value, err := item.Value()
	if err != nil {
		return err
	}
	e, err := expiring(key, value, ttl)
	if err != nil {
		return err
	}
	return txn.SetEntry(e.WithMeta(item.Meta()))
}
