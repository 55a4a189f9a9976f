package conflict

import "slices"

// coarseness is how many neighbours become one range when a set is too large.
const coarseness = 8

// bound keeps the set within its Limit.
func (s *ReadSet) bound() {
	if s.Limit > 0 && len(s.bytes)+24*len(s.keys)+40*len(s.ranges) > s.Limit {
		s.coarsen()
	}
}

// coarsen replaces all keys and ranges by fewer ranges, which each cover several neighbours and
// the keys between them. So every conflict is still found, but a change of a key that was not
// read may count as one, too.
func (s *ReadSet) coarsen() {
	// A key is the range up to the next key there can be.
	for _, k := range s.keys {
		next := s.store(s.text(k.at))
		s.bytes = append(s.bytes, 0)
		next.to++
		s.ranges = append(s.ranges, span{lo: k.at, hi: next})
	}
	s.sorted = false
	s.mergeRanges()
	c := ReadSet{Limit: s.Limit, Seed: s.Seed, sorted: true}
	for group := range slices.Chunk(s.ranges, coarseness) {
		last := group[len(group)-1] // ranges are apart from each other, so it ends last
		c.ranges = append(c.ranges, span{lo: c.store(s.text(group[0].lo)), hi: c.store(s.text(last.hi)), endless: last.endless})
	}
	*s = c
}
