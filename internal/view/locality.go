package view

import (
	"github.com/brockdb/brock/internal/base/entry"
)

// jumpBytes is how much of a value's length counts as jumped bytes, at most. A read from
// another place costs about as much as 4 KiB more from the same place. So jumps to
// large values matter little, and are no reason to rewrite them.
const jumpBytes = 4 << 10

// Jump returns the jumped bytes of an iterator whose next value, that of e, does not lie
// directly behind the last one. It is 0 if the value's segment is clustered already, so
// that clustering can't change it.
func (p *Pin) Jump(e *entry.Entry) uint64 {
	if !hasNum(p.view.Unclustered.Segments, e.Handle.Segment) {
		return 0
	}
	return min(e.Handle.Length, jumpBytes)
}

// hasNum reports whether num is in list, which is sorted. It is called for each value of a scan:
// slices.BinarySearch takes three times as many instructions.
func hasNum(list []entry.FileNum, num entry.FileNum) bool {
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
