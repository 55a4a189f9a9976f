package pending

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/hash"
)

// memory is the writes that are not in files, and their index by key. A record
// never changes nor moves within its array until the commit or, if it was lent,
// ever, so what was read of it stays true.
type memory struct {
	arena []byte // records in order of arrival
	count int    // how many
	lent  bool   // something of it was handed out

	recs    []record // of the arena, if they are indexed
	buckets []uint32 // hash table of a power of two: 1 + index of the key's newest record, 0 = free
	live    int      // keys in buckets
	sorted  []uint32 // live records by key, for iterators; replaced, never changed
	upTo    int      // records that sorted knows of
}

type record struct {
	offset int
	hash   uint64
	dead   bool // a later write to the key supersedes it
	ranged bool // a range delete: it is in no bucket
}

const minBuckets = 16

// clearRecords empties it and keeps its memory.
func (m *memory) clearRecords() {
	clear(m.buckets)
	*m = memory{arena: m.arena[:0], recs: m.recs[:0], buckets: m.buckets}
}

// indexMemory is how many bytes of memory the index takes.
func (m *memory) indexMemory() int { return 32*cap(m.recs) + 4*(cap(m.buckets)+cap(m.sorted)) }

// index enters the record of key, which begins at offset in the arena.
func (m *memory) index(offset int, key []byte, seed uint64) {
	h := hash.Sum(seed, key)
	if 2*(m.live+1) > len(m.buckets) {
		m.rehash()
	}
	// The older record stays where it is, as something may refer to it.
	bucket, i := m.findRecord(key, h)
	if i >= 0 {
		m.recs[i].dead = true
	} else {
		m.live++
	}
	m.recs = append(m.recs, record{offset: offset, hash: h})
	m.buckets[bucket] = uint32(len(m.recs))
}

// findRecord returns the record of a stored key and its bucket; or -1, and the bucket where it belongs.
func (m *memory) findRecord(key []byte, h uint64) (bucket, rec int) {
	mask := len(m.buckets) - 1
	for bucket = int(h) & mask; ; bucket = (bucket + 1) & mask {
		i := int(m.buckets[bucket]) - 1
		if i < 0 {
			return bucket, -1
		}
		if m.recs[i].hash == h && bytes.Equal(m.record(i).Key, key) {
			return bucket, i
		}
	}
}

// rehash doubles the table.
func (m *memory) rehash() {
	n := max(2*len(m.buckets), minBuckets)
	m.buckets = make([]uint32, n)
	for i := range m.recs {
		if m.recs[i].dead || m.recs[i].ranged {
			continue
		}
		bucket := int(m.recs[i].hash) & (n - 1)
		for m.buckets[bucket] != 0 {
			bucket = (bucket + 1) & (n - 1)
		}
		m.buckets[bucket] = uint32(i + 1)
	}
}

// record decodes the i-th record; it was encoded here, so it decodes.
func (m *memory) record(i int) entry.Record {
	r, _ := entry.DecodeRecord(m.arena[m.recs[i].offset:])
	return r
}

// fill makes e the entry of the i-th record.
func (m *memory) fill(i int, e *entry.Entry) {
	r := m.record(i)
	*e = entry.Entry{Key: r.Key, Value: r.Value, Expires: r.Expires, Kind: r.Kind, Meta: r.Meta, Codec: r.Codec, Raw: r.Raw}
}

// order returns the records that count by key: not those that deleted, unless
// nil, reports. The slice is never changed, so an iterator may keep it while more
// is written.
func (m *memory) order(deleted func(i int) bool) []uint32 {
	if m.upTo == len(m.recs) {
		return m.sorted
	}
	counts := func(i uint32) bool { return !m.recs[i].dead && (deleted == nil || !deleted(int(i))) }
	var fresh []uint32
	for i := m.upTo; i < len(m.recs); i++ {
		if !m.recs[i].ranged && counts(uint32(i)) {
			fresh = append(fresh, uint32(i))
		}
	}
	// Only what is new is sorted, then merged with what was sorted before: writing and
	// iterating in turn stays linear.
	slices.SortFunc(fresh, m.compareRecords)
	merged := make([]uint32, 0, m.live)
	for _, i := range m.sorted {
		if !counts(i) {
			continue
		}
		for len(fresh) > 0 && m.compareRecords(fresh[0], i) < 0 {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
		merged = append(merged, i)
	}
	m.sorted, m.upTo = append(merged, fresh...), len(m.recs)
	return m.sorted
}

func (m *memory) compareRecords(a, b uint32) int {
	return bytes.Compare(m.record(int(a)).Key, m.record(int(b)).Key)
}
