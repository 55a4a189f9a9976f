package conflict

import (
	"bytes"
	"slices"
)

// coarseness is how many neighbours become one range when a set is too large.
const coarseness = 8

// bound keeps the set within its Limit.
func (s *ReadSet) bound() {
	if s.Limit > 0 && len(s.bytes)+24*len(s.keys)+40*len(s.ranges) > s.Limit {
		s.coarsen()
	}
}

// coarsen replaces all keys and ranges by ranges that each cover several neighbours
// and what lies between them. So nothing that was read is missed, and some changes of
// what was not read are taken for conflicts.
func (s *ReadSet) coarsen() {
	s.mergeRanges()
	slices.SortFunc(s.keys, func(a, b key) int { return bytes.Compare(s.text(a.at), s.text(b.at)) })
	c := ReadSet{Limit: s.Limit, sorted: true}
	var cover span // of c, being extended; its texts are those of lo and hi
	var lo, hi []byte
	members := 0
	end := func() {
		if members > 0 {
			cover.lo, cover.hi = c.store(lo), c.store(hi)
			c.ranges = append(c.ranges, cover)
		}
		cover, members = span{}, 0
	}
	add := func(from, to []byte, endless bool) {
		if members == 0 {
			lo, hi = append(lo[:0], from...), append(hi[:0], to...)
		} else if bytes.Compare(to, hi) > 0 {
			hi = append(hi[:0], to...)
		}
		cover.endless = cover.endless || endless
		if members++; members == coarseness && !cover.endless {
			end()
		}
	}
	// Merge the sorted keys and ranges into one sequence of ranges.
	var after []byte
	keys, ranges := s.keys, s.ranges
	for len(keys)+len(ranges) > 0 {
		if len(ranges) == 0 || len(keys) > 0 && bytes.Compare(s.text(keys[0].at), s.text(ranges[0].lo)) < 0 {
			after = append(append(after[:0], s.text(keys[0].at)...), 0)
			add(after[:len(after)-1], after, false)
			keys = keys[1:]
			continue
		}
		add(s.text(ranges[0].lo), s.text(ranges[0].hi), ranges[0].endless)
		ranges = ranges[1:]
	}
	end()
	c.sorted = false // a group's last range may reach beyond the next group's first
	*s = c
}
