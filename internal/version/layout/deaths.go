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
	d.Take(Dead{Segment: h.Segment, Bytes: h.Length, Granules: []uint32{uint32(h.Offset / Granule)}})
}

// Take adds a list of records of one segment, which must not be dead in d yet.
func (d *Deaths) Take(list Dead) {
	s := d.segments[list.Segment]
	if s == nil {
		if d.segments == nil {
			d.segments = make(map[entry.FileNum]*Dead)
		}
		s = &Dead{Segment: list.Segment}
		d.segments[list.Segment] = s
	}
	s.Granules = append(s.Granules, list.Granules...)
	s.Bytes += list.Bytes
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
