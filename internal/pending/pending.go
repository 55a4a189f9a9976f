// Package pending holds the writes of a transaction or a batch until they are
// committed: each as the record that the journal will hold, with an index where
// they can be read before the commit, and in files once they are too large for
// memory.
package pending

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/invariant"
	"github.com/brockdb/brock/internal/tombstone"
	"github.com/brockdb/brock/internal/tree"
)

// Writes are the pending writes of one transaction or batch, in the order in which
// they were made. The zero value is empty. It is used by one goroutine at a time.
//
// An entry that is read from Writes has the version tombstone.Pending, which is
// above all committed ones. Its bytes stay valid until Payload or Reset.
type Writes struct {
	// Indexed says that writes are read before the commit. It is set while there
	// are none; without it there is no Get and no Iterator.
	Indexed bool

	memory memory
	before int            // records in files
	ranges *tombstone.Set // range deletes in memory; the n-th record has version n here
	files  *tree.Spill    // what is older than memory; nil: nothing is
	failed error          // why nothing can be added any more
	lender *Room          // whose memory the arena is; nil: its own
	key    []byte         // scratch for a stored key
	packed []byte         // scratch for a compressed value
}

// MaxPooled is the memory that is worth keeping for later writes, in bytes.
const MaxPooled = 1 << 20

// Reset forgets all writes and reports whether the memory that is kept for later
// ones is small enough for a pool. Nothing that was read is valid any more. The
// caller discards the files.
func (w *Writes) Reset() (small bool) {
	invariant.Poison(w.memory.arena)
	if w.lender != nil {
		w.lender.GiveBack(w.memory.arena)
		w.memory.arena = nil
	}
	w.memory.reset()
	w.Indexed, w.before, w.ranges, w.files, w.failed, w.lender = false, 0, nil, nil, nil, nil
	return cap(w.memory.arena) <= MaxPooled && len(w.memory.buckets) <= MaxPooled/4
}

// Borrow has the writes, which are empty, use memory of r for n bytes of keys and values.
// Reset gives it back.
func (w *Writes) Borrow(r *Room, n int64) {
	w.lender = r
	// Headers of records, and the checksums of pieces, come on top.
	w.memory.arena = r.Lend(int(n + n/1024 + 4096))
}

// Err returns why the writes can't be committed and nothing can be added: an
// attempt to write them to files failed.
func (w *Writes) Err() error { return w.failed }

// Len is the number of writes so far, the superseded ones included.
func (w *Writes) Len() int { return w.before + w.memory.count }

// Bytes is the length of their records.
func (w *Writes) Bytes() (n int64) {
	n = int64(len(w.memory.arena))
	if w.files != nil {
		n += w.files.Bytes()
	}
	return n
}

// InMemory is about the memory that the writes take, in bytes.
func (w *Writes) InMemory() int64 {
	n := int64(len(w.memory.arena)) + int64(w.ranges.Bytes()+w.ranges.Memory())
	if w.Indexed {
		n += writeOverhead * int64(w.memory.count)
	}
	return n
}

// writeOverhead is what an indexed write takes in memory beside its record: in the
// index, and in the order by key.
const writeOverhead = 48

// Ranges are the range deletes so far. Their versions say nothing to others.
func (w *Writes) Ranges() (sources []tombstone.Source) {
	if w.ranges != nil {
		sources = append(sources, w.ranges)
	}
	if w.files != nil {
		sources = append(sources, w.files.Ranges()...)
	}
	return sources
}

// InPayload is how many range deletes Payload has.
func (w *Writes) InPayload() int { return w.ranges.Len() }

// Add appends a write to the keyspace of c: a pair or a delete that can be stored,
// under the user's key. Key and value are copied; e itself is changed.
func (w *Writes) Add(c *Encoder, e *entry.Entry) {
	m := &w.memory
	w.key = AppendKey(w.key[:0], c.Prefix, e.Key)
	e.Key = w.key
	arena, at := w.encode(m.arena, c, e)
	m.arena = arena
	// The key is hashed once, here; the index keeps the hash.
	if w.Indexed {
		m.index(at, w.key, c.Seed)
	}
	m.count++
}

// DeleteRange appends the delete of the stored keys in [lo, hi), which it keeps.
// The records that it covers stay where they are.
func (w *Writes) DeleteRange(lo, hi []byte) {
	m := &w.memory
	if w.Indexed {
		m.recs = append(m.recs, record{offset: len(m.arena), ranged: true})
	}
	e := entry.Entry{Key: lo, Value: hi, Kind: entry.RangeDelete}
	m.arena = entry.AppendRecord(grow(m.arena, entry.RecordSize(&e, false)), &e, false)
	m.count++
	// While it is not committed, the n-th record counts as version n.
	w.ranges = w.ranges.With(tombstone.Tombstone{Lo: lo, Hi: hi, Version: entry.Version(w.Len())})
}

// grow makes room for n more bytes, doubling: append's growth by a quarter would
// copy a large transaction several times.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	grown := make([]byte, len(b), max(2*cap(b), len(b)+n, 256))
	copy(grown, b)
	return grown
}

// Get finds the write of a stored key with the hash h. A range delete gives a
// delete of the key.
func (w *Writes) Get(key []byte, h uint64, e *entry.Entry) (found bool, err error) {
	// The newest word on the key decides: a range delete, a write in memory, or else
	// what is in files, which is older.
	m, i := &w.memory, -1
	if m.live > 0 {
		_, i = m.find(key, h)
	}
	switch {
	case w.ranges != nil && w.deletedSince(key, i):
		*e = entry.Entry{Kind: entry.Delete}
	case i >= 0:
		m.lent = true
		m.fill(i, e)
	case w.files == nil:
		return false, nil
	default:
		if found, err = w.files.Get(key, h, e); !found || err != nil {
			return false, err
		}
	}
	e.Version = tombstone.Pending
	return true, nil
}

// deletedSince reports whether a range delete that came after the i-th record in
// memory covers key; -1 stands for those in files, which know of their own.
func (w *Writes) deletedSince(key []byte, i int) bool {
	return w.ranges.Newest(key, entry.MaxVersion) > entry.Version(w.before+i+1)
}

// Payload returns the records that count, in their order, padded, and their number. What
// was read before is not valid any more. It is asked for once, when nothing is in
// files.
func (w *Writes) Payload() (payload []byte, records int) {
	m := &w.memory
	if w.ranges == nil && (!w.Indexed || m.live == m.count) {
		m.arena = entry.Pad(m.arena)
		return m.arena, m.count
	}
	// Records are left out that a later one of their key supersedes, as far as the
	// index knows, or that a later range delete covers.
	cover := tombstone.NewCover(entry.MaxVersion, w.ranges)
	end := 0
	for i, rest := 0, m.arena; len(rest) > 0; i++ {
		r, _ := entry.DecodeRecord(rest) // it was encoded here
		rec := rest[:r.Size]
		rest = rest[r.Size:]
		switch {
		case w.Indexed && m.recs[i].dead:
		case cover != nil && r.Kind != entry.RangeDelete && cover.Newest(r.Key) > entry.Version(i+1):
		default:
			// In place, since no record moves up: one with its own checksum began at a
			// multiple of 8, too. Zeros behind a short one were for the next, which may be gone.
			kept := m.arena[:end]
			if r.Own {
				kept = entry.Pad(kept)
			} else {
				rec = rec[:r.Bare()]
			}
			end = len(append(kept, rec...))
			records++
		}
	}
	return entry.Pad(m.arena[:end]), records
}
