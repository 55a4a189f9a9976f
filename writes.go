package brock

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
)

// writes are the pending writes of a transaction: in memory and, once that is
// full, in files, which hold what is older.
type writes struct {
	*pending
	limit  int64 // bytes of memory from which on they spill
	spill  spill // nil: all are in memory
	spills int   // how often memory was full
	failed error // of the spill: the transaction can only be discarded

	reads   conflict.ReadSet
	request commit.Request
}

// pending are the writes in memory: their records, encoded once as the journal
// will hold them, and an index by key. A record never changes nor moves within its
// array until the commit or, if it was lent, ever, so what was read of it stays true.
type pending struct {
	arena  []byte   // records in order of arrival
	recs   []record // of the arena
	slots  []uint32 // hash table of a power of two: 1 + index of the key's newest record, 0 = free
	live   int      // keys
	lent   bool     // something of it was handed out
	sorted []uint32 // live records by key, for iterators; replaced, never changed
	upTo   int      // records that sorted knows of
	key    []byte   // scratch for a stored key
}

type record struct {
	offset int
	hash   uint64
	dead   bool // a later write to the key supersedes it
}

const (
	minSlots      = 16
	maxPooledSize = 1 << 20 // bytes of arena, and slots, worth keeping for the next transaction
)

var writesPool = sync.Pool{New: func() any { return &writes{pending: new(pending)} }}

func newWrites() *writes { return writesPool.Get().(*writes) }

// recycle gives w to later transactions. Nothing may refer to it any more.
func (w *writes) recycle() {
	poison(w.arena)
	if cap(w.arena) > maxPooledSize || len(w.slots) > maxPooledSize/4 {
		return
	}
	w.pending.reset()
	w.spill, w.spills, w.failed = nil, 0, nil
	w.reads.Reset()
	w.request = commit.Request{}
	writesPool.Put(w)
}

// reset empties it and keeps its memory.
func (w *pending) reset() {
	w.arena, w.recs, w.sorted, w.upTo, w.live, w.lent = w.arena[:0], w.recs[:0], nil, 0, 0, false
	clear(w.slots)
}

// size is about the memory that the writes take.
func (w *pending) size() int64 { return int64(len(w.arena)) + writeOverhead*int64(len(w.recs)) }

// writeOverhead is what a write takes in memory beside its record: in the index,
// and in the order by key.
const writeOverhead = 48

// encoder says how a store's records are made.
type encoder struct {
	threshold int           // values from here on get their own checksum; <0 = none
	ttl       time.Duration // of entries that don't say
	seed      uint64        // of hashes
	now       func() uint64 // Unix milliseconds
}

// append appends the record of w, which was checked, to dst. key is scratch for
// the stored key and is returned holding it.
func (c *encoder) append(dst []byte, w *write, now func() uint64, key []byte) (out, stored []byte) {
	stored = appendStored(key[:0], w.key)
	e := entry.Entry{Key: stored, Value: w.value, Kind: w.kind, Meta: w.meta, Expires: w.expires(c.ttl, now)}
	own := c.separates(w)
	dst = growArena(dst, entry.RecordSize(&e, own))
	return entry.AppendRecord(dst, &e, own), stored
}

// maxInline is the length from which a value is separated whatever the
// threshold: it would be a chunk of a run, and its memtable, by itself.
const maxInline = 1 << 20

// separates reports whether the value of w stays out of the tree.
func (c *encoder) separates(w *write) bool {
	if w.kind == entry.Delete {
		return false
	}
	return len(w.value) >= maxInline || c.threshold >= 0 && len(w.value) >= c.threshold
}

// growArena makes room for n more bytes, doubling: append's growth by a quarter
// would copy a large transaction several times.
func growArena(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	grown := make([]byte, len(b), max(2*cap(b), len(b)+n, 256))
	copy(grown, b)
	return grown
}

// add appends a write, which was checked, and indexes it.
func (w *pending) add(c *encoder, wr *write, now func() uint64) {
	offset := len(w.arena)
	w.arena, w.key = c.append(w.arena, wr, now, w.key)
	h := hash.Sum(c.seed, w.key)
	if 2*(w.live+1) > len(w.slots) {
		w.rehash()
	}
	slot, i := w.find(w.key, h)
	if i >= 0 {
		w.recs[i].dead = true
	} else {
		w.live++
	}
	w.recs = append(w.recs, record{offset: offset, hash: h})
	w.slots[slot] = uint32(len(w.recs))
}

// find returns the record of a stored key and its slot; or -1, and the slot where it belongs.
func (w *pending) find(key []byte, h uint64) (slot, rec int) {
	mask := len(w.slots) - 1
	for slot = int(h) & mask; ; slot = (slot + 1) & mask {
		i := int(w.slots[slot]) - 1
		if i < 0 {
			return slot, -1
		}
		if w.recs[i].hash == h && bytes.Equal(w.record(i).Key, key) {
			return slot, i
		}
	}
}

// rehash doubles the table.
func (w *pending) rehash() {
	n := max(2*len(w.slots), minSlots)
	w.slots = make([]uint32, n)
	for i := range w.recs {
		if w.recs[i].dead {
			continue
		}
		slot := int(w.recs[i].hash) & (n - 1)
		for w.slots[slot] != 0 {
			slot = (slot + 1) & (n - 1)
		}
		w.slots[slot] = uint32(i + 1)
	}
}

// record decodes the i-th record; it was encoded here, so it decodes.
func (w *pending) record(i int) entry.Record {
	r, _ := entry.DecodeRecord(w.arena[w.recs[i].offset:])
	return r
}

// fill makes e the entry of the i-th record, of version 0.
func (w *pending) fill(i int, e *entry.Entry) {
	r := w.record(i)
	*e = entry.Entry{Key: r.Key, Value: r.Value, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta}
}

// get finds the pending write of a stored key with the hash h.
func (w *pending) get(key []byte, h uint64, e *entry.Entry) bool {
	if w.live == 0 {
		return false
	}
	_, i := w.find(key, h)
	if i < 0 {
		return false
	}
	w.lent = true
	w.fill(i, e)
	return true
}

// order returns the live records by key. The slice is never changed, so an
// iterator may keep it while more is written.
func (w *pending) order() []uint32 {
	if w.upTo == len(w.recs) {
		return w.sorted
	}
	var fresh []uint32
	for i := w.upTo; i < len(w.recs); i++ {
		if !w.recs[i].dead {
			fresh = append(fresh, uint32(i))
		}
	}
	slices.SortFunc(fresh, w.compare)
	merged := make([]uint32, 0, w.live)
	for _, i := range w.sorted {
		if w.recs[i].dead {
			continue
		}
		for len(fresh) > 0 && w.compare(fresh[0], i) < 0 {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
		merged = append(merged, i)
	}
	w.sorted, w.upTo = append(merged, fresh...), len(w.recs)
	return w.sorted
}

func (w *pending) compare(a, b uint32) int {
	return bytes.Compare(w.record(int(a)).Key, w.record(int(b)).Key)
}

// payload returns the live records alone, in order of arrival. Nothing that was
// read of pending writes is valid afterwards.
func (w *pending) payload() []byte {
	if w.live == len(w.recs) {
		return w.arena
	}
	end := 0
	for i := range w.recs {
		if w.recs[i].dead {
			continue
		}
		rec := w.arena[w.recs[i].offset:]
		size, _ := entry.RawSize(rec)
		end += copy(w.arena[end:], rec[:size])
	}
	return w.arena[:end]
}
