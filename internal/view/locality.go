package view

import (
	"github.com/brockdb/brock/internal/entry"
)

// jumpBytes is how much of a value's length counts for a jump to it: a read from
// somewhere else costs about as much as 4 KiB more from the same place, and a
// large value is not worth moving for it.
const jumpBytes = 4 << 10

// Jump tells how many bytes count as jumped to when an iterator's next value, that
// of e, does not lie behind the last one; 0 if clustering can't change that.
func (p *Pin) Jump(e *entry.Entry) uint64 {
	if !has(p.view.Unclustered.Segments, e.Handle.Segment) {
		return 0
	}
	return min(e.Handle.Length, jumpBytes)
}

// has reports whether num is in list, which is sorted. It is called for each value of a
// scan: slices.BinarySearch takes three times as many instructions.
func has(list []entry.FileNum, num entry.FileNum) bool {
	for len(list) > 0 {
		switch half := len(list) / 2; {
		case list[half] == num:
			return true
		case list[half] < num:
			list = list[half+1:]
		default:
			list = list[:half]
		}
	}
	return false
}
