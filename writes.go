package brock

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/commit"
	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/tombstone"
	"github.com/brockdb/brock/internal/tree"
)

// writes are the pending writes of a transaction: in memory and, once that is
// full, in files, which hold what is older.
type writes struct {
	*pending
	limit  int64       // bytes of memory from which on they spill
	spill  *tree.Spill // nil: all are in memory
	spills int         // how often memory was full
	failed error       // of the spill: the transaction can only be discarded

	written   conflict.Keyspaces // keyspaces that are written to
	addressed conflict.Keyspaces // keyspaces that a Serializable transaction may have read
	reads     conflict.ReadSet
	request   commit.Request
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

	before int            // how many records of the transaction are in files
	ranges *tombstone.Set // all its range deletes; its n-th record has version n here
}

type record struct {
	offset int
	hash   uint64
	dead   bool // a later write to the key supersedes it
	ranged bool // a range delete: it is in no slot
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
	w.before, w.ranges = 0, nil
	w.spill, w.spills, w.failed = nil, 0, nil
	w.written.Reset()
	w.addressed.Reset()
	w.reads.Reset()
	w.request = commit.Request{}
	writesPool.Put(w)
}

// last is the number of the newest record, counted from the transaction's begin.
func (w *pending) last() int { return w.before + len(w.recs) }

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

// encoder says how the records of a keyspace are made. It never changes: other
// options are another encoder.
type encoder struct {
	prefix    []byte        // of the keyspace
	threshold int           // values from here on get their own checksum; <0 = none
	ttl       time.Duration // of entries that don't say
	seed      uint64        // of hashes
	now       func() uint64 // Unix milliseconds
	compressor
}

// append appends the record of w, which was checked, to dst. key is scratch for
// the stored key and is returned holding it.
func (c *encoder) append(dst []byte, w *write, now func() uint64, key []byte) (out, stored []byte) {
	stored = appendStored(key[:0], c.prefix, w.key)
	e := entry.Entry{Key: stored, Value: w.value, Kind: w.kind, Meta: w.meta, Expires: w.expires(c.ttl, now)}
	own := c.separates(w)
	if own && c.codec != codec.None && len(w.value) >= c.from {
		if buf := c.compress(&e); buf != nil {
			defer recycleValue(buf)
		}
	}
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

// addRange appends a range delete. The records that it covers stay where they
// are: whoever meets one asks deleted.
func (w *pending) addRange(d *rangeDelete) {
	offset := len(w.arena)
	w.arena = d.append(w.arena)
	w.recs = append(w.recs, record{offset: offset, ranged: true})
	w.ranges = w.ranges.With(d.after(w.last()))
}

// deleted reports whether a range delete covers the i-th record, which was
// written before it.
func (w *pending) deleted(i int) bool {
	return w.ranges != nil && w.ranges.Newest(w.record(i).Key, entry.MaxVersion) > entry.Version(w.before+i+1)
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
		if w.recs[i].dead || w.recs[i].ranged {
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
	*e = entry.Entry{Key: r.Key, Value: r.Value, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta, Codec: r.Codec, Raw: r.Raw}
}

// get finds the pending write of a stored key with the hash h, unless that is in
// files; a range delete gives a delete of the key.
func (w *pending) get(key []byte, h uint64, e *entry.Entry) bool {
	i := -1
	if w.live > 0 {
		_, i = w.find(key, h)
	}
	if w.ranges != nil && w.ranges.Newest(key, entry.MaxVersion) > entry.Version(w.before+i+1) {
		*e = entry.Entry{Kind: entry.Delete}
		return true
	}
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
		if !w.recs[i].dead && !w.recs[i].ranged && !w.deleted(i) {
			fresh = append(fresh, uint32(i))
		}
	}
	slices.SortFunc(fresh, w.compare)
	merged := make([]uint32, 0, w.live)
	for _, i := range w.sorted {
		if w.recs[i].dead || w.deleted(int(i)) {
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

// payload returns the records that count, in order of arrival, and their number.
// Nothing that was read of pending writes is valid afterwards.
func (w *pending) payload() (payload []byte, records int) {
	if w.live == len(w.recs) {
		return w.arena, w.live
	}
	return surviving(w.arena, w.ranges, func(i int) bool { return w.recs[i].dead })
}
