package brock

import (
	"runtime"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/internal/txn/scan"
)

// First returns the item of the least key in [lo, hi) that has a value, nil being no bound, or
// ErrKeyNotFound. It is one seek, without an Iterator to allocate and to close. Many deleted keys in
// front, as at the head of a queue, are skipped. For a prefix, use PrefixRange. The item is valid
// until the transaction ends, and the other errors are those of Get.
//
// The keys from lo up to the one that it returns count as read, and those behind it don't: a
// Serializable transaction conflicts with an insert before the key, with none behind it.
func (t *Txn) First(lo, hi []byte) (*Item, error) { return t.findEnd(lo, hi, false) }

// Last returns the item of the greatest key in [lo, hi) that has a value, as First does that of the
// least. The keys from the one that it returns up to hi count as read.
func (t *Txn) Last(lo, hi []byte) (*Item, error) { return t.findEnd(lo, hi, true) }

// findEnd is First or, backward, Last.
func (t *Txn) findEnd(lo, hi []byte, backward bool) (*Item, error) {
	if err := t.checkAddressed(); err != nil {
		return nil, err
	}
	t.gets++
	item, err := t.seekEnd(lo, hi, backward)
	if item == nil && err == nil {
		err = ErrKeyNotFound
	}
	return item, err
}

// seekEnd returns the item of findEnd, nil if there is none. It is a function of its own because the
// compiler makes defers slow where there are many returns.
func (t *Txn) seekEnd(lo, hi []byte, backward bool) (item *Item, err error) {
	// It covers the copies of bounds, too.
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	d := directPool.Get().(*direct) // for bounds, which nobody needs afterwards
	defer d.returnToPool()
	c := scan.Config{Pin: t.pin, Clock: (*expiryClock)(t.transaction), At: t.at, Prefetch: -1, KeysOnly: true, Limit: 1}
	c.Lo, c.Hi = d.storedBounds(t.keyspace, lo, hi)
	if t.writes != nil {
		c.Writes = &t.writes.Writes
	}
	start := c.Lo
	if backward {
		start = c.Hi
	}
	// Not an Iterator: that is allocated, and entered into the transaction's list.
	s := scan.Begin(&c)
	defer t.freeScan(s)
	found := s.Seek(start, backward)
	// Where the scan has shown an operation, there may be another value, or none.
	for w := t.writes; found && w != nil && len(w.Operations()) > 0; found = s.Seek(start, backward) {
		var e entry.Entry
		key, before := s.Entry().Key, w.Changes()
		if _, err := t.getOwn(key, checksum.HashKey(t.db.seed, key), &e); err != nil {
			return nil, err
		}
		if w.Changes() == before {
			break
		}
	}
	if found {
		item = t.keepEntry(s.Entry())
		// Up to the item and no further: who appends to a queue must not conflict with who takes
		// its first.
		if key := item.e.Key; backward {
			c.Lo = key
		} else {
			begin := len(d.key) // behind the bounds
			d.key = append(append(d.key, key...), 0)
			c.Hi = d.key[begin:]
		}
	} else if err = s.Err(); err != nil {
		return nil, err
	}
	if t.writes != nil && t.isolation == Serializable {
		t.writes.reads.AddRange(c.Lo, c.Hi)
	}
	return item, nil
}

// freeScan ends a scan that jumped to no value.
func (t *transaction) freeScan(s *scan.Scan) {
	s.Close()
	s.FreeMemory()
	runtime.KeepAlive(t) // a leaked transaction must not end during its last call
}

// keepEntry makes an item of an entry of a scan, whose key the next move overwrites.
func (t *Txn) keepEntry(e *entry.Entry) *Item {
	r, stored := t.scratchItem(e.Key[len(t.keyspace.prefix):])
	t.markUsed(r, stored)
	r.entry = *e
	r.entry.Key = stored
	r.item.placeEntry(t.transaction, &r.entry)
	r.item.found = true
	return &r.item
}

// storedBounds is Keyspace.storedBounds in memory of d. The caller has a guard on.
func (d *direct) storedBounds(k *Keyspace, lo, hi []byte) (slo, shi []byte) {
	d.key = pending.AppendKey(d.key[:0], k.prefix, lo)
	end := len(d.key)
	d.key = pending.AppendKey(d.key, k.prefix, hi)
	if slo, shi = d.key[:end:end], d.key[end:len(d.key):len(d.key)]; hi == nil {
		shi = k.past
	}
	return slo, shi
}
