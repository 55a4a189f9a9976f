package layout

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
)

// Deaths gathers dead records in any order and makes the Dead lists of an edit.
// The zero value is empty and ready.
type Deaths struct {
	segments map[entry.FileNum]*Dead
}

// Add notes that the entry that owned the record at h is gone.
func (d *Deaths) Add(h entry.Handle) {
	s := d.of(h.Segment)
	s.Granules = append(s.Granules, uint32(h.Offset/Granule))
	s.Bytes += h.Length
}

// Take adds a list of records of one segment, which must not be dead in d yet.
func (d *Deaths) Take(list Dead) {
	s := d.of(list.Segment)
	s.Granules = append(s.Granules, list.Granules...)
	s.Bytes += list.Bytes
}

// of returns the list of the segment, which it makes if there is none.
func (d *Deaths) of(segment entry.FileNum) *Dead {
	s := d.segments[segment]
	if s == nil {
		if d.segments == nil {
			d.segments = make(map[entry.FileNum]*Dead)
		}
		s = &Dead{Segment: segment}
		d.segments[segment] = s
	}
	return s
}

// Lists returns the lists, ascending by segment. They share memory with d, which
// must not be used afterwards.
func (d *Deaths) Lists() []Dead {
	lists := make([]Dead, 0, len(d.segments))
	for _, s := range d.segments {
		slices.Sort(s.Granules) // compactions find the dead in key order
		lists = append(lists, *s)
	}
	slices.SortFunc(lists, func(a, b Dead) int { return cmp.Compare(a.Segment, b.Segment) })
	return lists
}
