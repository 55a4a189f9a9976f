package brock

import (
	"context"

	"github.com/brockdb/brock/internal/entry"
)

// Keyspace is a named part of a store with keys, options and an end of its own:
// what others call a bucket or a column family. Its keys never meet those of
// another keyspace, or of the default one, which is what DB and a fresh Txn
// address; but one transaction reads and writes any number of keyspaces
// (Txn.In), as one commit. A Keyspace is safe for concurrent use.
//
// After a Drop its calls return ErrKeyspaceNotFound.
type Keyspace struct {
	db    *DB
	name  string
	space *space
}

// usable returns nil while the keyspace is there.
func (k *Keyspace) usable() error {
	if k.db == nil {
		return ErrClosed
	}
	if err := k.db.usable(); err != nil {
		return err
	}
	return k.space.usable()
}

// Name is the keyspace's name.
func (k *Keyspace) Name() string { return k.name }

// Options are the options in force, defaults filled in.
func (k *Keyspace) Options() KeyspaceOptions {
	if k.space == nil {
		return KeyspaceOptions{}
	}
	return *k.space.options.Load()
}

// View is DB.View with a transaction that addresses the keyspace.
func (k *Keyspace) View(fn func(txn *Txn) error) error {
	if err := k.usable(); err != nil {
		return err
	}
	return k.db.View(func(txn *Txn) error { return fn(txn.In(k)) })
}

// Update is DB.Update with a transaction that addresses the keyspace.
func (k *Keyspace) Update(fn func(txn *Txn) error) error {
	if err := k.usable(); err != nil {
		return err
	}
	return k.db.Update(func(txn *Txn) error { return fn(txn.In(k)) })
}

// Get returns a copy of key's newest value, or ErrKeyNotFound.
func (k *Keyspace) Get(key []byte) ([]byte, error) {
	if err := k.usable(); err != nil {
		return nil, err
	}
	return k.db.get(k.space, key)
}

// Has reports whether key has a value, which is not read.
func (k *Keyspace) Has(key []byte) (bool, error) {
	if err := k.usable(); err != nil {
		return false, err
	}
	return k.db.read(k.space, key, found)
}

// Set writes one pair.
func (k *Keyspace) Set(key, value []byte) error {
	if err := k.usable(); err != nil {
		return err
	}
	return k.db.write(k.space, &write{key: key, value: value, kind: entry.Set})
}

// Delete deletes one key, whether or not it is there.
func (k *Keyspace) Delete(key []byte) error {
	if err := k.usable(); err != nil {
		return err
	}
	return k.db.write(k.space, &write{key: key, kind: entry.Delete})
}

// CompareAndSet is DB.CompareAndSet for a key of the keyspace.
func (k *Keyspace) CompareAndSet(key, value []byte, version uint64) error {
	if err := k.usable(); err != nil {
		return err
	}
	return k.db.compareAndWrite(k, &write{key: key, value: value, kind: entry.Set}, version)
}

// CompareAndDelete is DB.CompareAndDelete for a key of the keyspace.
func (k *Keyspace) CompareAndDelete(key []byte, version uint64) error {
	if err := k.usable(); err != nil {
		return err
	}
	return k.db.compareAndWrite(k, &write{key: key, kind: entry.Delete}, version)
}

// NewWriter returns a bulk writer to the keyspace. When ctx ends, its calls
// return ctx's error.
func (k *Keyspace) NewWriter(ctx context.Context) *Writer {
	if k.db == nil {
		return new(Writer)
	}
	return k.db.newWriter(ctx, k)
}

// EstimateSize is DB.EstimateSize for keys of the keyspace; with nil bounds, of
// all of it.
func (k *Keyspace) EstimateSize(lo, hi []byte) (entries, bytes int64) {
	if k.usable() != nil {
		return 0, 0
	}
	return k.db.estimateSize(k.space, lo, hi)
}

// Split is DB.Split for keys of the keyspace.
func (k *Keyspace) Split(lo, hi []byte, n int) [][]byte {
	if k.usable() != nil {
		return nil
	}
	return k.db.split(k.space, lo, hi, n)
}
