// Package brockfiber is a storage of the web framework Fiber (github.com/gofiber/fiber, version 2 and
// 3) in a Brock store: for sessions, caches, rate limits, CSRF tokens and idempotency keys that survive
// a restart.
//
// Fiber's interface is satisfied without an import of Fiber. Entries expire to the millisecond, and
// their space comes back without a goroutine that looks for them. A Storage may be used by any number
// of goroutines. It copies keys and values, and what it returns belongs to the caller.
package brockfiber

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
)

// Storage is a storage in one keyspace of a Brock store. Make it by Open or New. After Close its
// methods return brock.ErrClosed.
type Storage struct {
	db     *brock.DB
	keys   *brock.Keyspace
	owned  bool // Close closes db
	closed atomic.Bool
}

// Open opens the store of o, and makes it if it is not there. Its errors are those of brock.Open.
//
// Without a Durability it is brock.Buffered: what is set survives the end of the process, but the
// newest of it may be lost with the power. With brock.Synced each Set and Delete waits for the disk.
func Open(o brock.Options) (*Storage, error) {
	o.Durability = cmp.Or(o.Durability, brock.Buffered)
	db, err := brock.Open(o)
	if err != nil {
		return nil, err
	}
	return &Storage{db: db, keys: db.Default(), owned: true}, nil
}

// New returns a Storage in a keyspace of an open store; nil is the default one. Give sessions, limits
// and caches a keyspace each: Reset empties it. Writes have the durability of the store's options, and
// an expiration of 0 is the keyspace's TTL. Close leaves the store open.
func New(db *brock.DB, keys *brock.Keyspace) *Storage {
	if keys == nil {
		keys = db.Default()
	}
	return &Storage{db: db, keys: keys}
}

// Conn returns the store, for backups and metrics.
func (s *Storage) Conn() *brock.DB { return s.db }

// check returns nil while the Storage is open and ctx has not ended.
func (s *Storage) check(ctx context.Context) error {
	if s.closed.Load() {
		return brock.ErrClosed
	}
	return ctx.Err()
}

// Get is GetWithContext without a context.
func (s *Storage) Get(key string) ([]byte, error) {
	return s.GetWithContext(context.Background(), key)
}

// GetWithContext returns a copy of the value of key; nil and no error if there is none or it has
// expired.
func (s *Storage) GetWithContext(ctx context.Context, key string) ([]byte, error) {
	if err := s.check(ctx); err != nil || key == "" {
		return nil, err
	}
	value, err := s.keys.Get([]byte(key))
	if errors.Is(err, brock.ErrKeyNotFound) {
		return nil, nil
	}
	return value, err
}

// Set is SetWithContext without a context.
func (s *Storage) Set(key string, val []byte, exp time.Duration) error {
	return s.SetWithContext(context.Background(), key, val, exp)
}

// SetWithContext stores a pair that expires after exp; 0 is never. As Fiber asks for, an empty key or
// value is ignored. What expires before now is deleted. It returns brock.ErrNoSpace on a full disk,
// when nothing was written.
func (s *Storage) SetWithContext(ctx context.Context, key string, val []byte, exp time.Duration) error {
	if err := s.check(ctx); err != nil || key == "" || len(val) == 0 {
		return err
	}
	switch {
	case exp < 0:
		return s.keys.Delete([]byte(key))
	case exp == 0:
		return s.keys.Set([]byte(key), val)
	}
	return s.keys.BatchSet([]*brock.Entry{{Key: []byte(key), Value: val, TTL: exp}})
}

// Delete is DeleteWithContext without a context.
func (s *Storage) Delete(key string) error {
	return s.DeleteWithContext(context.Background(), key)
}

// DeleteWithContext removes key. An absent key is no error.
func (s *Storage) DeleteWithContext(ctx context.Context, key string) error {
	if err := s.check(ctx); err != nil || key == "" {
		return err
	}
	return s.keys.Delete([]byte(key))
}

// Reset is ResetWithContext without a context.
func (s *Storage) Reset() error { return s.ResetWithContext(context.Background()) }

// ResetWithContext removes all keys of the keyspace, by one record, however many there are.
func (s *Storage) ResetWithContext(ctx context.Context) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.keys.Clear(ctx)
}

// Close ends the Storage. If Open made it, everything written is durable and the store is closed. It
// may be called more than once.
func (s *Storage) Close() error {
	s.closed.Store(true)
	if !s.owned {
		return nil
	}
	return s.db.Close()
}
