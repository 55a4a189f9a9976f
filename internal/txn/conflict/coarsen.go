package conflict

import (
	"bytes"
	"slices"
)

// coarseness is how many neighbours become one range when a set is too large.
const coarseness = 8

// coarsenToLimit keeps the set within its Limit. What was noted twice goes first: only a set that is too
// large by the different keys and ranges that it has becomes coarser.
func (s *ReadSet) coarsenToLimit() {
	if s.Limit <= 0 || s.usedBytes() <= s.Limit {
		return
	}
	s.dropRepeats()
	// A set that is nearly full again would be searched for repeats at each of the next reads.
	if s.usedBytes() > s.Limit-s.Limit/8 {
		s.coarsen()
	}
}

// usedBytes is how many bytes the keys and ranges of the set take.
func (s *ReadSet) usedBytes() int { return len(s.bytes) + keySize*len(s.keys) + spanSize*len(s.ranges) }

// Memory is how many bytes of memory the set takes, with what it keeps for later keys and ranges.
func (s *ReadSet) Memory() int {
	return cap(s.bytes) + keySize*cap(s.keys) + spanSize*cap(s.ranges)
}

const (
	keySize  = 24 // bytes of a key
	spanSize = 40 // bytes of a span
)

// dropRepeats leaves each key in the set once, and the bytes of keys and ranges that are in it.
func (s *ReadSet) dropRepeats() {
	s.Prepare()
	c := ReadSet{Limit: s.Limit, Seed: s.Seed, sorted: true}
	for i, k := range s.keys {
		repeated := false
		for _, kept := range slices.Backward(c.keys) {
			if kept.hash != k.hash || repeated {
				break
			}
			repeated = bytes.Equal(c.text(kept.at), s.text(s.keys[i].at))
		}
		if !repeated {
			c.keys = append(c.keys, key{k.hash, c.store(s.text(k.at))})
		}
	}
	for _, r := range s.ranges {
		c.ranges = append(c.ranges, span{lo: c.store(s.text(r.lo)), hi: c.store(s.text(r.hi)), endless: r.endless})
	}
	c.hashed = len(c.keys)
	*s = c
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
