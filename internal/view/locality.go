package view

import (
	"slices"

	"github.com/brockdb/brock/internal/entry"
)

// jumpBytes is how much of a value's length counts for a jump to it: a read from
// somewhere else costs about as much as 4 KiB more from the same place, and a
// large value is not worth moving for it.
const jumpBytes = 4 << 10

// Jump tells how many bytes count as jumped to when an iterator's next value, that
// of e, does not lie behind the last one; 0 if clustering can't change that.
func (p *Pin) Jump(e *entry.Entry) uint64 {
	if _, found := slices.BinarySearch(p.view.Unclustered.Segments, e.Handle.Segment); !found {
		return 0
	}
	return min(e.Handle.Length, jumpBytes)
}
