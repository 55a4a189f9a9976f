package pending

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
)

// memory is the writes that are not in files, and their index by key. Records don't change before
// the commit. Once a reader holds a slice of one (aliased), they never change.
type memory struct {
	arena   []byte // records in order of arrival
	count   int    // how many records
	aliased bool   // a reader holds slices of the arena: it must not be reused

	recs        []record // one for each record of the arena, if Indexed
	buckets     []uint32 // hash table, a power of two long: 1 + index in recs of the key's newest; 0: free
	live        int      // keys in buckets
	sorted      []uint32 // live records by key, for iterators; a new slice replaces it, as they keep it
	sortedCount int      // records that sorted was made of
}

// record is what the index knows of one record.
type record struct {
	offset int    // where it begins in the arena
	hash   uint64 // of its stored key
	op     uint32 // 1 + index of the operation that it stands for, or 0
	dead   bool   // a later write to the key replaces it
	ranged bool   // a range delete: it is in no bucket
}

// minBuckets is the length of the first hash table.
const minBuckets = 16

// clearRecords empties m and keeps its memory. Nothing may alias the arena.
func (m *memory) clearRecords() {
	// sorted is dropped, not reused: iterators keep it.
	clear(m.buckets)
	*m = memory{arena: m.arena[:0], recs: m.recs[:0], buckets: m.buckets}
}

// indexMemory is how many bytes of memory the index takes.
func (m *memory) indexMemory() int { return 32*cap(m.recs) + 4*(cap(m.buckets)+cap(m.sorted)) }

// indexRecord enters the record of a key with this hash, which begins at offset in the arena.
func (m *memory) indexRecord(offset int, key []byte, h uint64) {
	// At most half full: open addressing needs free buckets to end a search soon.
	if 2*(m.live+1) > len(m.buckets) {
		m.growTable()
	}
	i := len(m.recs)
	// Not as a literal: that is made on the stack and copied, which makes a set a tenth slower.
	m.recs = append(m.recs, record{})
	m.recs[i].offset, m.recs[i].hash = offset, h
	m.linkRecord(i, key, h)
}

// linkRecord makes the i-th record, which has this key and hash, the newest of the key.
func (m *memory) linkRecord(i int, key []byte, h uint64) {
	// The older record stays where it is, as a reader may hold its bytes.
	bucket, older := m.findRecord(key, h)
	if older >= 0 {
		m.recs[older].dead = true
	} else {
		m.live++
	}
	m.buckets[bucket] = uint32(i + 1)
}

// truncateRecords forgets all but the first n records, which end at offset in the arena.
func (m *memory) truncateRecords(n, offset int) {
	if m.aliased {
		// Readers and iterators go on to use what is forgotten, so what comes next must not lie in
		// the same memory.
		m.arena, m.recs = m.arena[:offset:offset], slices.Clone(m.recs[:n])
	} else {
		m.arena, m.recs = m.arena[:offset], m.recs[:n]
	}
	m.count, m.live, m.sorted, m.sortedCount = n, 0, nil, 0
	// A record does not know which one it has replaced, so the index is made again.
	clear(m.buckets)
	for i := range m.recs {
		if m.recs[i].dead = false; !m.recs[i].ranged {
			m.linkRecord(i, m.decodeRecord(i).Key, m.recs[i].hash)
		}
	}
}

// findRecord returns the record of a stored key and its bucket; or -1, and the bucket where it
// belongs. There must be a table.
func (m *memory) findRecord(key []byte, h uint64) (bucket, rec int) {
	mask := len(m.buckets) - 1
	for bucket = int(h) & mask; ; bucket = (bucket + 1) & mask {
		i := int(m.buckets[bucket]) - 1
		if i < 0 {
			return bucket, -1
		}
		if m.recs[i].hash == h && bytes.Equal(m.decodeRecord(i).Key, key) {
			return bucket, i
		}
	}
}

// growTable doubles the table. The hashes are stored, so no key is read.
func (m *memory) growTable() {
	n := max(2*len(m.buckets), minBuckets)
	m.buckets = make([]uint32, n)
	for i := range m.recs {
		// These are in no bucket: nothing looks for them.
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

// decodeRecord decodes the i-th record; it was encoded here, so it decodes.
func (m *memory) decodeRecord(i int) entry.Record {
	r, _ := entry.DecodeRecord(m.arena[m.recs[i].offset:])
	return r
}

// fillEntry makes e the entry of the i-th record.
func (m *memory) fillEntry(i int, e *entry.Entry) {
	r := m.decodeRecord(i)
	*e = r.Entry()
}

// orderRecords returns the live records by key, without those for which deleted reports true (nil:
// without none). The slice is never changed, so an iterator may keep it while more is written.
func (m *memory) orderRecords(deleted func(i int) bool) []uint32 {
	// A range delete adds a record, too, so a list that is up to date needs no look at deleted.
	if m.sortedCount == len(m.recs) {
		return m.sorted
	}
	counts := func(i uint32) bool { return !m.recs[i].dead && (deleted == nil || !deleted(int(i))) }
	var fresh []uint32
	for i := m.sortedCount; i < len(m.recs); i++ {
		if !m.recs[i].ranged && counts(uint32(i)) {
			fresh = append(fresh, uint32(i))
		}
	}
	// Only what is new is sorted, then merged with what was sorted before: writing and
	// iterating in turn stays linear.
	slices.SortFunc(fresh, m.compareRecords)
	merged := make([]uint32, 0, m.live)
	for _, i := range m.sorted {
		if !counts(i) { // replaced or deleted since the list was made
			continue
		}
		for len(fresh) > 0 && m.compareRecords(fresh[0], i) < 0 {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
		merged = append(merged, i)
	}
	m.sorted, m.sortedCount = append(merged, fresh...), len(m.recs)
	return m.sorted
}

func (m *memory) compareRecords(a, b uint32) int {
	return bytes.Compare(m.decodeRecord(int(a)).Key, m.decodeRecord(int(b)).Key)
}
