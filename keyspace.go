package brock

import (
	"bytes"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/internal/txn/scan"
	"github.com/brockdb/brock/internal/view"
)

// Keyspace is a named set of keys with options of its own: what others call a bucket
// or a column family. The same key in two keyspaces is two keys. DB and a new Txn
// address the default keyspace, whose name is empty; DB.Default returns it. One transaction
// may read and write any number of keyspaces (Txn.In) and commits them together. A Keyspace
// may be used by any number of goroutines.
//
// After Drop its methods return ErrKeyspaceNotFound.
type Keyspace struct {
	db      *DB             // the store
	at      commit.Keyspace // its number and name, and whether it was dropped
	prefix  []byte          // all its stored keys begin with it
	past    []byte          // upper bound of its stored keys, exclusive
	refused error           // error of all calls, in a stand-in for a keyspace that can't be used

	encoder atomic.Pointer[pending.Encoder] // makes records; a change of options replaces it
	options atomic.Pointer[KeyspaceOptions] // in force
	habit   scan.Habit                      // how iterators of the keyspace have used values, for readahead
}

func newKeyspace(db *DB, id entry.KeyspaceID, name string, o KeyspaceOptions) *Keyspace {
	k := &Keyspace{db: db, prefix: entry.AppendKeyspace(nil, id), past: entry.AfterKeyspace(id)}
	k.at.ID, k.at.Name = id, name
	k.setOptions(o)
	return k
}

// refusingKeyspace returns a stand-in for a keyspace that can't be used: all calls return err.
func refusingKeyspace(err error) *Keyspace { return &Keyspace{refused: err} }

// Default returns the default keyspace, which every store has: what the methods of DB that take keys
// address. So a program can treat it as any other. It can't be dropped, and its options are
// Options.KeyspaceDefaults of each Open: Drop and SetOptions return ErrInvalid.
func (db *DB) Default() *Keyspace {
	if db.main == nil { // the DB was not opened
		return new(Keyspace)
	}
	return db.main
}

// resolveKeyspace returns ks, nil being the default keyspace. For one of another store it returns a
// stand-in.
func resolveKeyspace(db *DB, ks *Keyspace) *Keyspace {
	switch {
	case ks == nil:
		return db.main
	case ks.db != db:
		return refusingKeyspace(errKeyspaceForeign)
	}
	return ks
}

// setOptions sets the options of k. Entries that were written before stay as they are.
func (k *Keyspace) setOptions(o KeyspaceOptions) {
	k.options.Store(&o)
	// A new one, never changed in place: writers use the one before without a lock.
	k.encoder.Store(&pending.Encoder{
		Prefix:        k.prefix,
		Threshold:     o.ValueThreshold,
		TTL:           o.TTL,
		Seed:          k.db.seed,
		Codec:         o.Compression.codec(),
		CompressAbove: max(o.CompressAbove, 1),
		Compression:   &k.db.compression,
	})
}

// checkExists returns nil while the keyspace is there. That of a DB that was not opened is nil.
func (k *Keyspace) checkExists() error {
	switch {
	case k == nil:
		return ErrClosed
	case k.refused != nil:
		return k.refused
	case k.db == nil:
		return ErrClosed
	}
	if err := checkOpen(k.db); err != nil {
		return err
	}
	// After the store is known to be open: a closed one returns ErrClosed for all its keyspaces.
	if k.at.Dropped.Load() {
		return ErrKeyspaceNotFound
	}
	return nil
}

// checkWriteTo returns nil while the keyspace is there and its store can be written to.
func checkWriteTo(k *Keyspace) error {
	if err := k.checkExists(); err != nil {
		return err
	}
	return checkWritable(k.db)
}

// absentFrom reports whether k was dropped before p was acquired. p may then have only a part
// of its entries. In a read-only store the View may lack k a little before Refresh has
// marked k as dropped.
func (k *Keyspace) absentFrom(p *view.Pin) bool {
	readOnly := k.db.commits == nil
	return (k.at.Dropped.Load() || readOnly && k.at.ID != entry.DefaultKeyspace) && !p.HasKeyspace(k.at.ID)
}

// noteWritten adds k to those whose drop would be a conflict. The default keyspace can't be
// dropped, so it is not added.
func (k *Keyspace) noteWritten(to *commit.Keyspaces) {
	if k.at.ID != entry.DefaultKeyspace {
		to.Add(&k.at)
	}
}

// storedKey returns the stored form of key in new memory.
func (k *Keyspace) storedKey(key []byte) []byte {
	return pending.AppendKey(make([]byte, 0, len(k.prefix)+len(key)), k.prefix, key)
}

// storedBounds turns user bounds, nil meaning open, into stored ones of keys that begin with a
// user's prefix. They lie in room, as far as that has capacity.
func (k *Keyspace) storedBounds(room, lo, hi, prefix []byte) (slo, shi []byte, err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	store := func(key []byte) []byte {
		begin := len(room)
		room = pending.AppendKey(room, k.prefix, key)
		return room[begin:len(room):len(room)]
	}
	// An open bound ends at the keyspace: an iterator must never leave it.
	slo, shi = k.prefix, k.past
	if lo != nil {
		slo = store(lo)
	}
	if hi != nil {
		shi = store(hi)
	}
	if len(prefix) > 0 {
		p := store(prefix)
		if bytes.Compare(p, slo) > 0 {
			slo = p
		}
		// It is never nil, which would compare as the least key: no prefix of a keyspace is all
		// 0xff.
		if end := afterPrefix(room[len(room):], p); bytes.Compare(end, shi) < 0 {
			shi = end
		}
	}
	return slo, shi, nil
}

// Name returns the keyspace's name; that of the default keyspace is empty.
func (k *Keyspace) Name() string { return k.at.Name }

// Options returns the options in force, defaults filled in.
func (k *Keyspace) Options() KeyspaceOptions {
	if o := k.options.Load(); o != nil {
		return *o
	}
	return KeyspaceOptions{}
}
