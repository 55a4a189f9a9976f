// Package brocknosql is a database of smallstep's nosql (github.com/smallstep/nosql/database) in a
// Brock store.
//
// All operations of an Update are one serializable transaction, those that make and delete tables
// included; compare-and-swap is atomic among all callers, and a conflict runs it again instead of being
// returned. A DB may be used by any number of goroutines. It copies what it is given, and what it
// returns belongs to the caller.
package brocknosql

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"

	"github.com/smallstep/nosql/database"

	"github.com/brockdb/brock"
)

// DB is a database of named tables. The zero DB is ready for Open, as those of other drivers are;
// New makes one in an open store. Before Open and after Close its methods return brock.ErrClosed.
type DB struct {
	// Options are for Open, which sets Dir and ValueDir. The zero value is good: each commit is durable
	// when it returns.
	Options brock.Options

	mu    sync.RWMutex // guards:
	store *brock.DB
	keys  *brock.Keyspace
	owned bool // Close closes the store
}

var _ database.DB = (*DB)(nil)

// New returns a DB in a keyspace of an open store; nil is the default one. The keyspace must have no
// other use. Close leaves the store open.
func New(store *brock.DB, keys *brock.Keyspace) *DB {
	if keys == nil {
		keys = store.Default()
	}
	return &DB{store: store, keys: keys}
}

// Open opens the store in the directory dataSourceName, and makes it if it is not there. Of the options
// WithValueDir counts; the others are of other drivers, and are ignored. It returns brock.ErrInvalid if
// the DB is open, and else the errors of brock.Open.
func (db *DB) Open(dataSourceName string, opt ...database.Option) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.store != nil {
		return fmt.Errorf("brocknosql: the database is open already: %w", brock.ErrInvalid)
	}
	var chosen database.Options
	for _, set := range opt {
		if err := set(&chosen); err != nil {
			return err
		}
	}
	o := db.Options
	o.Dir = dataSourceName
	// Programs set it to the directory itself, as Badger wants it: to Brock that is no other one.
	if dir := chosen.ValueDir; dir != "" && filepath.Clean(dir) != filepath.Clean(dataSourceName) {
		o.ValueDir = dir
	}
	store, err := brock.Open(o)
	if err != nil {
		return err
	}
	db.store, db.keys, db.owned = store, store.Default(), true
	return nil
}

// Close ends the DB. If Open opened its store, that is closed, and the DB can be opened again. It may
// be called more than once.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	store, owned := db.store, db.owned
	db.store, db.keys, db.owned = nil, nil, false
	if store == nil || !owned {
		return nil
	}
	return store.Close()
}

// Store returns the store, for backups and metrics; nil if the DB is not open.
func (db *DB) Store() *brock.DB {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.store
}

// Compact makes the files as small as they can be. nosql calls it for the sake of Badger, whose share
// of garbage is ignored here; a store also does it by itself.
func (db *DB) Compact(float64) error {
	store := db.Store()
	if store == nil {
		return brock.ErrClosed
	}
	_, err := store.Reclaim(context.Background())
	return err
}

func (db *DB) view(fn func(txn *brock.Txn) error) error {
	db.mu.RLock()
	keys := db.keys
	db.mu.RUnlock()
	return keys.View(fn) // a nil keyspace is one of a closed store
}

func (db *DB) update(fn func(txn *brock.Txn) error) error {
	db.mu.RLock()
	keys := db.keys
	db.mu.RUnlock()
	return keys.Update(fn)
}

// Get returns a copy of the value of key in a table. It returns database.ErrNotFound if there is no
// such key or no such table.
func (db *DB) Get(bucket, key []byte) (value []byte, err error) {
	err = db.view(func(txn *brock.Txn) error {
		value, err = get(txn, bucket, key)
		return err
	})
	return value, err
}

// Set stores a pair in a table. It returns database.ErrNotFound if there is no such table.
func (db *DB) Set(bucket, key, value []byte) error {
	return db.update(func(txn *brock.Txn) error { return set(txn, bucket, key, value) })
}

// Del deletes a key of a table; an absent key is no error. It returns database.ErrNotFound if there is
// no such table.
func (db *DB) Del(bucket, key []byte) error {
	return db.update(func(txn *brock.Txn) error { return del(txn, bucket, key) })
}

// CmpAndSwap stores newValue if the value of key is oldValue, and returns newValue and true. Else it
// returns a copy of the value that is there and false. An absent key has the value nil, which equals an
// empty one, as in other drivers. It returns database.ErrNotFound if there is no such table.
func (db *DB) CmpAndSwap(bucket, key, oldValue, newValue []byte) (value []byte, swapped bool, err error) {
	err = db.update(func(txn *brock.Txn) error {
		value, swapped, err = compareAndSwap(txn, bucket, key, oldValue, newValue)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return value, swapped, nil
}

// List returns all pairs of a table in the order of keys. It returns database.ErrNotFound if there is
// no such table.
func (db *DB) List(bucket []byte) (entries []*database.Entry, err error) {
	err = db.view(func(txn *brock.Txn) error {
		prefix, err := rows(txn, bucket)
		if err != nil {
			return err
		}
		for item, err := range txn.Prefix(prefix) {
			if err != nil {
				return err
			}
			value, err := item.ValueCopy(nil)
			if err != nil {
				return err
			}
			key := bytes.Clone(item.Key()[len(prefix):])
			entries = append(entries, &database.Entry{Bucket: bytes.Clone(bucket), Key: key, Value: value})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// CreateTable makes a table. If there is one of the name, it stays as it is.
func (db *DB) CreateTable(bucket []byte) error {
	return db.update(func(txn *brock.Txn) error { return createTable(txn, bucket) })
}

// DeleteTable deletes a table with all that is in it, by one record. It returns database.ErrNotFound if
// there is no such table.
func (db *DB) DeleteTable(bucket []byte) error {
	return db.update(func(txn *brock.Txn) error { return deleteTable(txn, bucket) })
}

// Update runs all operations in their order as one transaction: each sees what those before it wrote,
// and all are committed or none. It sets Result and Swapped of those that read. If one fails, as a Get
// of an absent key does, Update returns its error and nothing was written. CmpOrRollback is
// database.ErrOpNotSupported, as in all drivers.
func (db *DB) Update(tx *database.Tx) error {
	return db.update(func(txn *brock.Txn) error {
		for _, q := range tx.Operations {
			if err := apply(txn, q); err != nil {
				return err
			}
		}
		return nil
	})
}

func apply(txn *brock.Txn, q *database.TxEntry) (err error) {
	switch q.Cmd {
	case database.CreateTable:
		return createTable(txn, q.Bucket)
	case database.DeleteTable:
		return deleteTable(txn, q.Bucket)
	case database.Get:
		q.Result, err = get(txn, q.Bucket, q.Key)
	case database.Set:
		return set(txn, q.Bucket, q.Key, q.Value)
	case database.Delete:
		return del(txn, q.Bucket, q.Key)
	case database.CmpAndSwap:
		q.Result, q.Swapped, err = compareAndSwap(txn, q.Bucket, q.Key, q.CmpValue, q.Value)
	default:
		return fmt.Errorf("brocknosql: %v: %w", q.Cmd, database.ErrOpNotSupported)
	}
	return err
}

func get(txn *brock.Txn, bucket, key []byte) ([]byte, error) {
	stored, err := row(txn, bucket, key)
	if err != nil {
		return nil, err
	}
	item, err := txn.Get(stored)
	if errors.Is(err, brock.ErrKeyNotFound) {
		return nil, database.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

func set(txn *brock.Txn, bucket, key, value []byte) error {
	stored, err := row(txn, bucket, key)
	if err != nil {
		return err
	}
	return txn.Set(stored, value)
}

func del(txn *brock.Txn, bucket, key []byte) error {
	stored, err := row(txn, bucket, key)
	if err != nil {
		return err
	}
	return txn.Delete(stored)
}

func compareAndSwap(txn *brock.Txn, bucket, key, oldValue, newValue []byte) ([]byte, bool, error) {
	stored, err := row(txn, bucket, key)
	if err != nil {
		return nil, false, err
	}
	var current []byte
	switch item, err := txn.Get(stored); {
	case errors.Is(err, brock.ErrKeyNotFound):
	case err != nil:
		return nil, false, err
	default:
		if current, err = item.ValueCopy(nil); err != nil {
			return nil, false, err
		}
	}
	if !bytes.Equal(current, oldValue) {
		return current, false, nil
	}
	return newValue, true, txn.Set(stored, newValue)
}

func createTable(txn *brock.Txn, bucket []byte) error {
	mark, err := tableMark(bucket)
	if err != nil {
		return err
	}
	// Not written again: programs make all their tables at each start, and all who use a table have
	// read its mark.
	if found, err := txn.Has(mark); found || err != nil {
		return err
	}
	return txn.Set(mark, nil)
}

func deleteTable(txn *brock.Txn, bucket []byte) error {
	prefix, err := rows(txn, bucket)
	if err != nil {
		return err
	}
	mark, err := tableMark(bucket)
	if err != nil {
		return err
	}
	if err := txn.DeletePrefix(prefix); err != nil {
		return err
	}
	return txn.Delete(mark)
}

// The kinds of keys: the first byte of each. A table's mark is its name behind markKind. Its rows are
// rowKind, the length of the name in two bytes, big-endian, the name, and the key: so rows of a table
// lie in the order of their keys, and no table's rows begin like another's.
const (
	markKind = 't'
	rowKind  = 'r'
)

// tableMark returns the key whose presence says that there is a table.
func tableMark(bucket []byte) ([]byte, error) {
	if len(bucket) == 0 || len(bucket) > math.MaxUint16 {
		return nil, fmt.Errorf("brocknosql: a table's name has 1 to %d bytes: %w", math.MaxUint16, brock.ErrInvalid)
	}
	return append([]byte{markKind}, bucket...), nil
}

// rows returns what the stored keys of a table begin with, or database.ErrNotFound if there is no such
// table. It has read the mark: who deletes the table meanwhile causes a conflict.
func rows(txn *brock.Txn, bucket []byte) ([]byte, error) {
	mark, err := tableMark(bucket)
	if err != nil {
		return nil, err
	}
	found, err := txn.Has(mark)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("brocknosql: there is no table %q: %w", bucket, database.ErrNotFound)
	}
	prefix := binary.BigEndian.AppendUint16([]byte{rowKind}, uint16(len(bucket)))
	return append(prefix, bucket...), nil
}

// row returns the stored key of key in a table.
func row(txn *brock.Txn, bucket, key []byte) ([]byte, error) {
	if len(key) == 0 {
		return nil, fmt.Errorf("brocknosql: the key is empty: %w", brock.ErrInvalid)
	}
	prefix, err := rows(txn, bucket)
	if err != nil {
		return nil, err
	}
	return append(prefix, key...), nil
}
