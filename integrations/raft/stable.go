package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"context"

	"github.com/brockdb/brock"
)

// Set stores a value under key. It returns when it is on the disk. Key and value are copied. A key has
// at most brock.MaxKeySize bytes, and may be empty.
func (s *Store) Set(key, value []byte) error {
	if s.closed.Load() {
		return brock.ErrClosed
	}
	// A batch, not Keyspace.Set, as it waits for the disk whatever the store's Durability is.
	b := s.stable.NewBatch()
	err := b.Set(key, value)
	if err == nil {
		_, err = b.Commit(context.Background(), brock.Synced)
	}
	if err != nil {
		return fmt.Errorf("raftstore: set a stable key of group %q: %w", s.opts.Group, err)
	}
	return nil
}

// Get returns the value of key, which belongs to the caller. For a key that was never set it returns
// nil, or ErrKeyNotFound if Options.MissingKeyError is set. An empty value is not nil.
func (s *Store) Get(key []byte) ([]byte, error) {
	if s.closed.Load() {
		return nil, brock.ErrClosed
	}
	value, err := s.stable.Get(key)
	switch {
	case errors.Is(err, brock.ErrKeyNotFound) && s.opts.MissingKeyError:
		return nil, ErrKeyNotFound
	case errors.Is(err, brock.ErrKeyNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("raftstore: get a stable key of group %q: %w", s.opts.Group, err)
	}
	return value, nil
}

// SetUint64 is Set for a number.
func (s *Store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 returns a number that SetUint64 has set. For a key that was never set it returns 0, and
// ErrKeyNotFound if Options.MissingKeyError is set; for a value that is no number, ErrNotUint64.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	switch {
	case err != nil || value == nil:
		return 0, err
	case len(value) != 8:
		return 0, fmt.Errorf("%w: group %q: it has %d bytes", ErrNotUint64, s.opts.Group, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}
