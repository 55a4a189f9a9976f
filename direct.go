package brock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/internal/view"
)

// The operations here are transactions of one call each.

// direct is the scratch memory of a read that has no Txn.
type direct struct {
	key   []byte      // scratch for the stored key
	entry entry.Entry // what was found
}

var directPool = sync.Pool{New: func() any { return new(direct) }}

// keptKey is the longest memory of a key that the pool keeps, in bytes.
const keptKey = 4 << 10

// returnToPool keeps d for later reads, unless its key was long.
func (d *direct) returnToPool() {
	if cap(d.key) <= keptKey {
		directPool.Put(d)
	}
}

// Get returns a copy of key's newest value, or ErrKeyNotFound. The copy belongs to the
// caller. To read many values of 64 KB or more, use Item.ValueCopy with the same memory
// again, or Item.ValueFunc: then time goes into no allocation, nor into the collection
// of garbage.
func (db *DB) Get(key []byte) ([]byte, error) { return db.main.Get(key) }

// Get is DB.Get for a key of the keyspace.
func (k *Keyspace) Get(key []byte) ([]byte, error) {
	value, err := k.AppendValue(empty, key)
	if err != nil {
		return nil, err
	}
	return value, nil
}

// AppendValue appends key's newest value to dst and returns the longer slice, or returns dst and
// an error: ErrKeyNotFound, or one of Txn.Get. After an error the room behind dst may have changed.
// It allocates nothing if dst has room. A program that reads large values at a
// high rate spends less time on the collection of garbage so than with Get.
func (db *DB) AppendValue(dst, key []byte) ([]byte, error) { return db.main.AppendValue(dst, key) }

// AppendValue is DB.AppendValue for a key of the keyspace.
func (k *Keyspace) AppendValue(dst, key []byte) ([]byte, error) {
	err := k.readKey(key, func(p *view.Pin, d *direct) error {
		v, own := d.entry.Value, false
		if d.entry.Separated {
			// What has to be decoded or decrypted goes to the room behind dst, if that is enough.
			var err error
			if v, own, err = p.ReadValue(d.key, &d.entry, dst[len(dst):], false); err != nil {
				return err
			}
		}
		if own && len(dst) == 0 { // it needs no second copy
			dst = v
			return nil
		}
		// The bytes may lie in a mapped file, which only the pin keeps.
		dst = append(dst, v...)
		return nil
	})
	return dst, err
}

// Has reports whether key has a value now. It does not read the value. Its errors are those of
// Txn.Has.
func (db *DB) Has(key []byte) (bool, error) { return db.main.Has(key) }

// Has is DB.Has for a key of the keyspace.
func (k *Keyspace) Has(key []byte) (bool, error) {
	return wasFound(k.readKey(key, func(*view.Pin, *direct) error { return nil }))
}

// readKey looks key up and calls fn, while what it found is valid and below a guard. It returns
// ErrKeyNotFound if there is nothing.
func (k *Keyspace) readKey(key []byte, fn func(*view.Pin, *direct) error) error {
	if err := k.checkExists(); err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	p, err := k.db.engine.Views.Acquire(0)
	if err != nil {
		return err
	}
	// The pin keeps what is read until the copy is made.
	defer p.Release()
	// Asked of the pin: a drop may have come between the check above and Acquire. Then the View may
	// have lost a part of the keyspace, and would answer wrongly that a key is absent.
	if k.absentFrom(p) {
		return ErrKeyspaceNotFound
	}
	return k.readFrom(p, key, fn)
}

// readFrom is a function of its own because the compiler makes defers slow where there
// are many, and many returns.
func (k *Keyspace) readFrom(p *view.Pin, key []byte, fn func(*view.Pin, *direct) error) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	db := k.db
	// Without a Txn there is nothing to allocate: key and entry come from a pool.
	d := directPool.Get().(*direct)
	defer d.returnToPool()
	d.key = pending.AppendKey(d.key[:0], k.prefix, key)
	// At random, as Go does not tell on which core this runs: one counter for all would slow every
	// get down.
	db.counters.addReads(1, 0, rand.Uint32())
	found, err := p.Get(d.key, checksum.HashKey(db.seed, d.key), &d.entry)
	switch e := &d.entry; {
	case err != nil:
		return err
	case !found, e.Kind == entry.Delete, e.Expires != 0 && !e.Live(db.now()):
		return ErrKeyNotFound
	}
	return fn(p, d)
}

// Set writes one pair, in a commit of its own, with the durability of Options. Key and
// value are copied. For a write with another durability, use UpdateContext or a Batch, which take
// one. While Sets of many goroutines take much memory, Set waits for its
// turn. A value of more than 1/8 of MemoryLimit is written to a file of its own; it is
// durable when Set returns. Set returns ErrInvalid for a key or value that can't be stored, and
// the errors of Txn.Commit, but no ErrConflict.
func (db *DB) Set(key, value []byte) error { return db.main.Set(key, value) }

// Set is DB.Set for a key of the keyspace.
func (k *Keyspace) Set(key, value []byte) error {
	return k.commitWrite(&Entry{Key: key, Value: value}, entry.Set)
}

// Delete deletes one key, whether or not it has a value, in a commit of its own, with
// the durability of Options. Its errors are those of Set.
func (db *DB) Delete(key []byte) error { return db.main.Delete(key) }

// Delete is DB.Delete for a key of the keyspace.
func (k *Keyspace) Delete(key []byte) error {
	return k.commitWrite(&Entry{Key: key}, entry.Delete)
}

// leastWaiting is the length in bytes of key and value from which a write waits while such
// writes take too much memory. A smaller write takes no more than its goroutine does.
const leastWaiting = 16 << 10

// commitWrite commits one write by itself.
func (k *Keyspace) commitWrite(e *Entry, kind entry.Kind) error {
	if err := checkWriteTo(k); err != nil {
		return err
	}
	db := k.db
	n := int64(len(e.Key) + len(e.Value))
	if n > db.direct.Size() { // it never has room; a batch writes the value to a file at once
		return k.commitBatch(context.Background(), func(b *Batch) error { return b.addWrite(e, kind) })
	}
	// Without a bound, many goroutines with large values could take any amount of memory while they
	// wait for one sync.
	if n >= leastWaiting {
		db.direct.TakeBytes(n)
		defer db.direct.ReturnBytes(n)
	}
	// One write that reads nothing needs no snapshot, no index and no check.
	w := newWrites()
	// Defers run backwards: the memory is given back before Leave lets the next writer in, who then
	// finds it and allocates none.
	defer w.returnToPool()
	w.limit = db.direct.Size()
	if n > pending.MaxPooled { // a pool would keep memory for each processor
		w.BorrowMemory(db.direct, n)
	}
	if err := w.addWrite(context.Background(), k, e, kind, db.now); err != nil {
		return err
	}
	_, err := w.commitUnchecked(context.Background(), db, db.opts.isSynced(DefaultDurability))
	return err
}

// CompareAndSet writes a pair if version is still the version of the key (Item.Version); 0 means
// that the key has no value. Else it writes nothing and returns ErrVersionMismatch. Comparison and
// write are one transaction, with the durability of Options. Key and value are copied. Its other
// errors are those of Txn.Get and Set.
func (db *DB) CompareAndSet(key, value []byte, version uint64) error {
	return db.main.CompareAndSet(key, value, version)
}

// CompareAndSet is DB.CompareAndSet for a key of the keyspace.
func (k *Keyspace) CompareAndSet(key, value []byte, version uint64) error {
	return k.compareAndWrite(&Entry{Key: key, Value: value}, entry.Set, version)
}

// CompareAndDelete deletes a key if version is still its version. Else it returns
// ErrVersionMismatch. Durability and other errors are as for CompareAndSet.
func (db *DB) CompareAndDelete(key []byte, version uint64) error {
	return db.main.CompareAndDelete(key, version)
}

// CompareAndDelete is DB.CompareAndDelete for a key of the keyspace.
func (k *Keyspace) CompareAndDelete(key []byte, version uint64) error {
	return k.compareAndWrite(&Entry{Key: key}, entry.Delete, version)
}

// compareAndWrite compares again after a conflict. Somebody else has written the key, so the
// comparison fails then, unless that write is gone again.
func (k *Keyspace) compareAndWrite(e *Entry, kind entry.Kind, version uint64) error {
	err := k.Update(func(t *Txn) error {
		// The read makes the comparison hold at the commit too: the transaction is
		// Serializable.
		var now uint64
		switch it, err := t.Get(e.Key); {
		case err == nil:
			now = it.Version()
		case err != ErrKeyNotFound:
			return err
		}
		if now != version {
			return ErrVersionMismatch
		}
		return t.addWrite(e, kind)
	})
	if errors.Is(err, ErrConflict) {
		return ErrVersionMismatch
	}
	return err
}
