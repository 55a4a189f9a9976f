package segment

import (
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
)

// Lender lends memory to which a record is read.
type Lender interface {
	// Room returns n bytes, whatever they hold, which stay as the lender says; nil if it has none.
	Room(n int) []byte
}

// records holds buffers for records whose values are then copied. A used buffer is in the
// processor's caches; new memory would not be, and would be garbage at once.
var records = sync.Pool{New: func() any { return new([]byte) }}

// memory is where a record is read to.
type memory struct {
	record []byte
	pooled *[]byte // from records, to be given back; nil: the value may stay in record
	lent   bool    // a Lender has given it
}

// recordMemory returns n bytes of memory for a record with a value of this length. The value
// goes on to dst if cap(dst) is enough. dst has no room for what a record has before the value,
// and what lies behind the value there is the caller's.
func recordMemory(dst []byte, from Lender, length uint64, n int) memory {
	if cap(dst) > 0 && uint64(cap(dst)) >= length && length < entry.PieceSize {
		// The value moves on to dst at once, so the record's memory is free again soon.
		p := records.Get().(*[]byte)
		*p = slices.Grow((*p)[:0], n)
		return memory{record: (*p)[:n], pooled: p}
	}
	if from != nil {
		if record := from.Room(n); record != nil {
			return memory{record: record, lent: true}
		}
	}
	return memory{record: make([]byte, n)}
}

// locateValue returns v, which lies in the record, where the caller finds it.
func (m *memory) locateValue(dst []byte, v entry.Stored) entry.Stored {
	if cap(dst) > 0 && cap(dst) >= len(v.Bytes) && !m.lent {
		v.Bytes = append(dst[:0], v.Bytes...)
	}
	v.Own = !m.lent
	return v
}

// keptRecord is the longest memory that records keeps: a longer record has a long key, as its value
// is shorter than a piece.
const keptRecord = 2 * entry.PieceSize

// returnMemory ends the use of memory that the value has left.
func (m *memory) returnMemory() {
	if m.pooled != nil && cap(*m.pooled) <= keptRecord {
		records.Put(m.pooled)
	}
}
