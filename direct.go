package brock

import (
	"math/rand/v2"
	"sync"

	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/pending"
	"github.com/brockdb/brock/internal/view"
)

// The operations here are transactions of one call each.

// direct is the scratch memory of a read without a Txn.
type direct struct {
	key   []byte
	entry entry.Entry
}

var directPool = sync.Pool{New: func() any { return new(direct) }}

// Get returns a copy of key's newest value, or ErrKeyNotFound.
func (db *DB) Get(key []byte) ([]byte, error) { return db.get(db.main, key) }

func (db *DB) get(s *space, key []byte) ([]byte, error) {
	var value []byte
	found, err := db.read(s, key, func(p *view.Pin, d *direct) error {
		v := d.entry.Value
		if d.entry.Separated {
			var err error
			if v, err = p.Value(d.key, &d.entry, nil); err != nil {
				return err
			}
		}
		if value = v; d.entry.Raw == 0 { // else it was decoded into memory of its own
			value = append(make([]byte, 0, len(v)), v...)
		}
		return nil
	})
	if err == nil && !found {
		err = ErrKeyNotFound
	}
	return value, err
}

// Has reports whether key has a value, which is not read.
func (db *DB) Has(key []byte) (bool, error) {
	return db.read(db.main, key, found)
}

// found is enough to know of a key that was found.
func found(*view.Pin, *direct) error { return nil }

// read looks key up and calls fn, while what it found is valid.
func (db *DB) read(s *space, key []byte, fn func(*view.Pin, *direct) error) (bool, error) {
	if err := db.usable(); err != nil {
		return false, err
	}
	if err := checkKey(key); err != nil {
		return false, err
	}
	p, err := db.tree.Acquire(0)
	if err != nil {
		return false, err
	}
	defer p.Release()
	d := directPool.Get().(*direct)
	defer directPool.Put(d)
	d.key = pending.AppendKey(d.key[:0], s.prefix, key)
	db.counters.addReads(1, 0, rand.Uint32())
	found, err := p.Get(d.key, &d.entry)
	if err != nil || !found {
		return false, err
	}
	if d.entry.Kind == entry.Delete || d.entry.Expires != 0 && !d.entry.Live(db.now()) {
		return false, nil
	}
	return true, fn(p, d)
}

// Set writes one pair.
func (db *DB) Set(key, value []byte) error {
	return db.write(db.main, &write{key: key, value: value, kind: entry.Set})
}

// Delete deletes one key, whether or not it is there.
func (db *DB) Delete(key []byte) error {
	return db.write(db.main, &write{key: key, kind: entry.Delete})
}

func (db *DB) write(s *space, wr *write) error {
	if err := db.writable(); err != nil {
		return err
	}
	if err := wr.check(); err != nil {
		return err
	}
	w := newWrites()
	defer w.recycle()
	c := s.encoder.Load()
	e := wr.entry(c, db.now)
	w.Add(c, &e)
	s.note(&w.written)
	_, err := db.commit(nil, w, conflict.Check{Isolation: conflict.LastWriterWins, Written: w.written}, db.synced(DefaultDurability))
	return err
}

// CompareAndSet writes a pair if the key's version is still version, 0 meaning
// that it has no value; else it is ErrVersionMismatch.
func (db *DB) CompareAndSet(key, value []byte, version uint64) error {
	return db.compareAndWrite(nil, &write{key: key, value: value, kind: entry.Set}, version)
}

// CompareAndDelete deletes a key if its version is still version; else it is
// ErrVersionMismatch.
func (db *DB) CompareAndDelete(key []byte, version uint64) error {
	return db.compareAndWrite(nil, &write{key: key, kind: entry.Delete}, version)
}

// compareAndWrite writes to ks, nil being the default keyspace. It runs again after a conflict: then somebody wrote the key, and
// the comparison fails, unless what they wrote is gone again.
func (db *DB) compareAndWrite(ks *Keyspace, wr *write, version uint64) error {
	err := db.update(nil, TxnOptions{Update: true}, func(t *Txn) error {
		if ks != nil {
			t = t.In(ks)
		}
		var now uint64
		switch it, err := t.Get(wr.key); {
		case err == nil:
			now = it.Version()
		case err != ErrKeyNotFound:
			return err
		}
		if now != version {
			return ErrVersionMismatch
		}
		return t.write(wr)
	})
	if err == ErrConflict {
		return ErrVersionMismatch
	}
	return err
}
