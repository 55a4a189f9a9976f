// Package pending holds the writes of a transaction or a batch until they are committed.
// Each write is encoded once, as the record that the journal will hold. An index finds them
// if they can be read before the commit. Writes that are too large for memory are spilled to
// files.
package pending

import (
	"iter"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/commit"
)

// Writes are the pending writes of one transaction or batch, in the order in which they were made
// (its write batch). The zero value is empty. It is used by one goroutine at a time.
//
// An entry that is read from Writes has the version rangedel.Pending, which is greater than all
// committed versions. Its bytes are valid until Payload or Reset.
type Writes struct {
	// Indexed: the writes can be read before the commit. Set it before the first write.
	// Without it Get and Iterator must not be called.
	Indexed bool

	memory     memory
	marks      marks          // places to which they can be rolled back
	spilled    int            // number of records in files
	ranges     *rangedel.Set  // range deletes in memory; the n-th record has version n here
	files      Files          // spilled writes, older than those in memory; nil: none
	given      []commit.Given // versions of parts of the records; nil: they get the next one
	operations                // on values that only the commit leader knows
	failed     error          // error of a spill: the writes are incomplete and can only be discarded
	limiter    *MemoryLimiter // owns the arena's memory (Borrow); nil: it is w's own
	key        []byte         // scratch for a stored key
	packed     []byte         // scratch for a compressed value
}

// MaxPooled is how many bytes of memory are kept in pools for later writes, at most.
const MaxPooled = 1 << 20

// Reset removes all writes, but keeps memory for later ones, of which MemoryBytes tells. What was
// read is no longer valid. The caller must discard the files.
func (w *Writes) Reset() {
	// With the tag invariants, a slice that is used too long now shows garbage.
	invariant.Poison(w.memory.arena)
	if w.limiter != nil {
		w.limiter.ReturnBuffer(w.memory.arena)
		w.memory.arena = nil
	}
	// All state goes: a pooled transaction must not see what another one has written.
	w.memory.clearRecords()
	w.operations = operations{}
	w.Indexed, w.marks, w.spilled, w.ranges, w.files, w.failed, w.limiter = false, marks{}, 0, nil, nil, nil, nil
	w.given = w.given[:0]
}

// MemoryBytes is how many bytes of memory w takes, with what it keeps for later writes.
func (w *Writes) MemoryBytes() int {
	m := &w.memory
	return cap(m.arena) + cap(w.key) + cap(w.packed) + m.indexMemory()
}

// BorrowMemory makes empty Writes use memory of r, with room for n bytes of keys and values. Reset
// gives it back.
func (w *Writes) BorrowMemory(r *MemoryLimiter, n int64) {
	w.limiter = r
	// Beyond keys and values, records have headers, and large ones checksums of their pieces.
	w.memory.arena = r.LendBuffer(int(n + n/1024 + 4096))
}

// Err returns the error of a failed spill. After it the writes are incomplete: nothing can
// be added, and they can't be committed.
func (w *Writes) Err() error { return w.failed }

// Len is the number of writes so far, including those that later ones have replaced.
func (w *Writes) Len() int { return w.spilled + w.memory.count + w.unindexed }

// Bytes is the length of the encoded records, in memory and in files, and about that of operations.
func (w *Writes) Bytes() (n int64) {
	n = int64(len(w.memory.arena) + w.operations.bytes)
	if w.files != nil {
		n += w.files.Bytes()
	}
	return n
}

// BytesInMemory is about how many bytes of memory the writes take.
func (w *Writes) BytesInMemory() int64 {
	n := int64(len(w.memory.arena)+w.operations.bytes) + int64(w.ranges.Bytes()+w.ranges.Memory())
	if w.Indexed {
		n += writeOverhead * int64(w.memory.count)
	}
	return n
}

// writeOverhead is how many bytes an indexed write takes beside its record: in the hash
// index, and in the list in key order.
const writeOverhead = 48

// RangeDeletes returns the range deletes so far. Their versions have a meaning in Writes only.
func (w *Writes) RangeDeletes() (sources []rangedel.Source) {
	if w.ranges != nil {
		sources = append(sources, w.ranges)
	}
	if w.files != nil {
		sources = append(sources, w.files.Ranges()...)
	}
	return sources
}

// RangesInPayload is how many range deletes Payload has.
func (w *Writes) RangesInPayload() int { return w.ranges.Len() }

// Add appends a write to the keyspace of c: a set or a delete of the user's key e.Key, which
// the caller has checked. Key and value are copied. Add changes e.
func (w *Writes) Add(c *Encoder, e *entry.Entry) {
	m := &w.memory
	w.key = AppendKey(w.key[:0], c.Prefix, e.Key)
	// encode reads the stored key from e.
	e.Key = w.key
	arena, at := w.encodeRecord(m.arena, c, e)
	m.arena = arena
	// The key is hashed once, here; the index keeps the hash.
	if w.Indexed {
		m.indexRecord(at, w.key, checksum.HashKey(c.Seed, w.key))
	}
	m.count++
}

// DeleteRange appends a range delete of the stored keys in [lo, hi). It keeps lo and hi. The
// records that it covers stay in memory until Payload, which leaves them out.
func (w *Writes) DeleteRange(lo, hi []byte) {
	m := &w.memory
	// recs has one entry for each record of the arena: Payload finds them by number.
	if w.Indexed {
		m.recs = append(m.recs, record{offset: len(m.arena), ranged: true})
	}
	e := entry.Entry{Key: lo, Value: hi, Kind: entry.RangeDelete}
	m.arena = entry.AppendRecord(growDoubling(m.arena, entry.RecordSize(&e, false)), &e, false)
	m.count++
	// Records have no version before the commit. Their number serves as one: a range delete covers
	// what was written before it, and nothing that comes later.
	w.ranges = w.ranges.With(rangedel.Delete{Lo: lo, Hi: hi, Version: entry.Version(w.spilled + m.count)})
}

// growDoubling makes room for n more bytes, doubling: append's growth by a quarter would
// copy a large transaction several times.
func growDoubling(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	grown := make([]byte, len(b), max(2*cap(b), len(b)+n, 256))
	copy(grown, b)
	return grown
}

// Get finds the newest write of a stored key; h is the key's hash. If that is an operation, and
// Resolve was not called, it returns an entry of the kind Unseen. For a key that a range
// delete covers, it returns a delete.
func (w *Writes) Get(key []byte, h uint64, e *entry.Entry) (found bool, err error) {
	// The newest write of the key counts. Range deletes in memory come first, then writes in
	// memory, then files, which are older.
	m := &w.memory
	i, covered := w.findOwn(key, h)
	switch {
	case covered:
		*e = entry.Entry{Kind: entry.Delete}
	case i >= 0:
		// e points into the arena, which SpillMemory must not reuse from now on.
		m.aliased = true
		if m.fillEntry(i, e); m.recs[i].op > 0 {
			e.Kind = Unseen
		}
	case w.files == nil:
		return false, nil
	// files knows its own range deletes; those in memory were asked above.
	default:
		if found, err = w.files.Get(key, h, e); !found || err != nil {
			return false, err
		}
	}
	e.Version = rangedel.Pending
	return true, nil
}

// findOwn returns the newest record in memory of a stored key, -1 if there is none or no index, and
// whether a range delete in memory covers it or its absence.
func (w *Writes) findOwn(key []byte, h uint64) (i int, covered bool) {
	if !w.Indexed {
		return -1, false
	}
	if i = -1; w.memory.live > 0 { // else there may be no table yet
		_, i = w.memory.findRecord(key, h)
	}
	return i, w.ranges != nil && w.deletedSince(key, i)
}

// deletedSince reports whether a range delete in memory that is newer than the i-th record
// in memory covers key. With an i of -1 any range delete in memory is newer.
func (w *Writes) deletedSince(key []byte, i int) bool {
	return w.ranges.Newest(key, entry.MaxVersion) > entry.Version(w.spilled+i+1)
}

// BeginVersion gives the writes that follow the version v, which is greater than those before. All of
// them must be in memory.
func (w *Writes) BeginVersion(v entry.Version) {
	m := &w.memory
	m.arena = entry.PadRecords(m.arena) // each version has whole units of 8 bytes, as a transaction has
	if n := len(w.given); n > 0 && w.given[n-1].Number == w.Len() {
		w.given = w.given[:n-1] // it has no writes
	}
	w.given = append(w.given, commit.Given{Version: v, Begin: len(m.arena), Number: w.Len()})
}

// Given returns the versions that BeginVersion was given, for those parts that have writes. After
// Payload it says where in the payload they are.
func (w *Writes) Given() []commit.Given {
	if n := len(w.given); n > 0 && w.given[n-1].Number == w.Len() {
		return w.given[:n-1]
	}
	return w.given
}

// HasVersions reports whether there are writes of several versions.
func (w *Writes) HasVersions() bool { return len(w.given) > 1 }

// Records walks the writes in memory in the order in which they were made, also those that later ones
// replace. It does not see what is written later. A record is valid until Payload, SpillMemory or
// Reset, after which the walk must not go on.
func (w *Writes) Records() iter.Seq[entry.Record] {
	return func(yield func(entry.Record) bool) {
		for rest := w.memory.arena; len(rest) > 0; {
			r, _ := entry.DecodeRecord(rest) // it was encoded here
			rest = rest[r.Size:]
			if !yield(r) {
				return
			}
		}
	}
}

// Payload returns the records to commit, in the order in which they were made, padded, and their
// number. The operations among the writes are then what Operations returns. What was read before
// is no longer valid. Call it once, and only if Files is nil.
func (w *Writes) Payload() (payload []byte, records int) {
	m := &w.memory
	records = m.count
	// Unless nothing was replaced or covered: then the arena is the payload, without a copy.
	if w.ranges != nil || w.Indexed && (m.live != m.count || w.ops != nil) {
		records = w.dropReplaced()
	}
	m.arena = entry.PadRecords(m.arena)
	if len(w.Given()) > 0 {
		w.insertVersions()
	}
	return m.arena, records
}

// insertVersions makes the first record of each part say its version. Parts move to higher addresses,
// the last one first.
func (w *Writes) insertVersions() {
	given, m := w.Given(), &w.memory
	end, room := len(m.arena), 0
	for _, g := range given {
		if g.Begin < end && entry.VersionAt(m.arena[g.Begin:]) > 0 {
			room += entry.VersionSize
		}
	}
	m.arena = growDoubling(m.arena, room)[:end+room]
	for i := len(given) - 1; i >= 0; i-- {
		g := &given[i]
		if g.Begin == end { // all of it is operations, which the commit encodes
			break
		}
		// Of a record with its own checksum nothing moves apart: the leader sets its version.
		at := entry.VersionAt(m.arena[g.Begin:end])
		copy(m.arena[g.Begin+at+room:], m.arena[g.Begin+at:end])
		if at > 0 {
			room -= entry.VersionSize
			copy(m.arena[g.Begin+room:], m.arena[g.Begin:g.Begin+at])
			entry.PutVersion(m.arena[g.Begin+room:], at, g.Version)
		}
		end, g.Begin = g.Begin, g.Begin+room
	}
}

// dropReplaced leaves out records that a later record of the key replaces (if there is an index), or
// that a later range delete of the same version covers. It returns how many are left.
func (w *Writes) dropReplaced() (records int) {
	m := &w.memory
	operations := w.unindexedOperations()
	cover := rangedel.NewCover(entry.MaxVersion, w.ranges)
	end, part := 0, w.given
	until := entry.MaxVersion // the number of the last record of the part
	for i, rest := 0, m.arena; len(rest) > 0; i++ {
		if len(part) > 0 && part[0].Number == i {
			end = len(entry.PadRecords(m.arena[:end]))
			part[0].Begin, part = end, part[1:]
			if until = entry.MaxVersion; len(part) > 0 {
				until = entry.Version(part[0].Number)
			}
		}
		r, _ := entry.DecodeRecord(rest) // it was encoded here
		rec := rest[:r.Size]
		rest = rest[r.Size:]
		switch {
		case w.Indexed && m.recs[i].dead:
		// Nothing was spilled, so the i-th record has version i+1. A range delete itself stays: it
		// also deletes keys that were committed earlier.
		case cover != nil && r.Kind != entry.RangeDelete && newestUntil(cover, r.Key, until) > entry.Version(i+1):
		case w.Indexed && m.recs[i].op > 0:
			operations = append(operations, w.ops[m.recs[i].op-1])
		default:
			// In place: records only move to lower addresses. One with its own checksum must
			// begin at a multiple of 8. The zeros behind a short one were for that, and go.
			kept := m.arena[:end]
			if r.Own {
				kept = entry.PadRecords(kept)
			} else {
				rec = rec[:r.UnpaddedSize()]
			}
			end = len(append(kept, rec...))
			records++
		}
	}
	m.arena, w.ops = m.arena[:end], operations
	return records
}

// newestUntil returns the newest version of a range delete over key, up to that of the argument.
func newestUntil(cover *rangedel.Cover, key []byte, until entry.Version) entry.Version {
	v := cover.Newest(key)
	// A later part has another version, and readers may ask for this one.
	if v > until {
		v = cover.Before(key, until+1)
	}
	return v
}
