package memtable

import (
	"cmp"

	"github.com/brockdb/brock/internal/base/entry"
)

// Overhead is how many bytes more an entry or range delete takes in memory than its record in a
// payload, at most.
const Overhead = 32

// Needs are what entries and range deletes to come take of a table, at most.
type Needs struct {
	entries int // number of entries
	records int // bytes of their records
	outside int // bytes of outside values
	bounds  int // bytes of range deletes
}

// Count adds an entry, or a range delete from key to value. Of a value that is separated for sure,
// only the handle counts.
func (n *Needs) Count(kind entry.Kind, key, value []byte, separated bool) {
	// The header, the key, an expiry, what stands for a value that is not in the record, and the
	// padding to a multiple of 8.
	size := keyStart + len(key) + 8 + 20 + 7
	switch {
	case kind == entry.RangeDelete:
		n.bounds += size + len(value)
		return
	case separated:
	case len(value) >= outsideSize:
		n.outside += len(value) + 7
	default:
		size += len(value)
	}
	n.entries++
	n.records += size
}

// CountBytes adds an entry that keeps so many bytes of its record in a payload: all of it, or what
// comes before a separated value. It returns false, and adds nothing, for a value that may lie
// outside of the records: use Count.
func (n *Needs) CountBytes(bytes int) bool {
	if bytes >= outsideSize {
		return false
	}
	n.entries++
	n.records += bytes + Overhead
	return true
}

// HasRoom reports whether a number of records, ranges of them range deletes, which take no more
// than so many bytes of a payload, can be added without another allocation. It may say no where
// there is room. It is the quick check: Needs must decode every record.
func (t *Table) HasRoom(bytes, records, ranges int) bool {
	b := t.byKey.Load()
	bytes += Overhead * records
	// A payload of that length may hold an outside value, which needs room elsewhere.
	return b != nil && t.keys+records-ranges <= b.limit && bytes < outsideSize &&
		t.arena.hasRoomFor(bytes) && (ranges == 0 || t.bounds.hasRoomFor(bytes))
}

// Reserve allocates what n needs: if it returns nil, the calls of Add and DeleteRange that were
// counted don't ask the system for memory. An error is of the class errs.Refused; the
// entries of the table are as before. The writer alone calls it.
func (t *Table) Reserve(n *Needs) error {
	if n.entries > 0 {
		if _, err := t.growBuckets(n.entries); err != nil {
			return err
		}
	}
	return cmp.Or(t.arena.allocateAhead(n.records), t.arena.outside.allocateAhead(n.outside), t.bounds.allocateAhead(n.bounds))
}
