package commit

import (
	"bytes"
	"slices"
)

// coarseness is how many neighbours become one range when a set is too large.
const coarseness = 8

// coarsenToLimit keeps the set within its Limit. Repeats are dropped first. Only a set that has too
// many different keys and ranges becomes coarser.
func (s *ReadSet) coarsenToLimit() {
	if s.Limit <= 0 || s.usedBytes() <= s.Limit {
		return
	}
	// Repeats are dropped first because that loses nothing. Coarser ranges may cause conflicts over
	// keys that were not read.
	s.dropRepeats()
	// A set that is still nearly full would be searched for repeats again after the next few reads,
	// so it also becomes coarser.
	if s.usedBytes() > s.Limit-s.Limit/8 {
		s.coarsenKeys()
	}
}

// usedBytes is how many bytes the keys and ranges of the set take.
func (s *ReadSet) usedBytes() int { return len(s.bytes) + keySize*len(s.keys) + spanSize*len(s.ranges) }

// Memory is how many bytes of memory the set takes, with what it keeps for later keys and ranges.
func (s *ReadSet) Memory() int {
	return cap(s.bytes) + keySize*cap(s.keys) + spanSize*cap(s.ranges)
}

const (
	keySize  = 24 // bytes of a key in memory
	spanSize = 40 // bytes of a span in memory
)

// dropRepeats leaves each key in the set once, and the bytes of keys and ranges that are in it.
func (s *ReadSet) dropRepeats() {
	s.Prepare()
	// A new set, because s.bytes also has what extended ranges have left behind: only live bytes
	// are copied.
	c := ReadSet{Limit: s.Limit, Seed: s.Seed, sorted: true}
	for i, k := range s.keys {
		repeated := false
		// Equal keys have equal hashes, so they are among the neighbours in the order of hashes.
		for _, kept := range slices.Backward(c.keys) {
			if kept.hash != k.hash || repeated {
				break
			}
			repeated = bytes.Equal(c.textOf(kept.at), s.textOf(s.keys[i].at))
		}
		if !repeated {
			c.keys = append(c.keys, key{k.hash, c.storeText(s.textOf(k.at))})
		}
	}
	for _, r := range s.ranges {
		c.ranges = append(c.ranges, span{lo: c.storeText(s.textOf(r.lo)), hi: c.storeText(s.textOf(r.hi)), endless: r.endless})
	}
	c.hashed = len(c.keys)
	*s = c
}

// coarsenKeys replaces all keys and ranges by fewer ranges, which each cover several neighbours and
// the keys between them. So every conflict is still found, but a change of a key that was not
// read may count as one, too.
func (s *ReadSet) coarsenKeys() {
	// A key k is the range [k, k+"\0"): there is no key between the two.
	for _, k := range s.keys {
		next := s.storeText(s.textOf(k.at))
		s.bytes = append(s.bytes, 0)
		// The zero was appended behind the copy, which is the last piece: it becomes a part of it.
		next.to++
		s.ranges = append(s.ranges, span{lo: k.at, hi: next})
	}
	s.sorted = false
	s.mergeRanges()
	c := ReadSet{Limit: s.Limit, Seed: s.Seed, sorted: true}
	// Only the least and the greatest bound of each chunk stay. All that lies between counts as
	// read from now on.
	for group := range slices.Chunk(s.ranges, coarseness) {
		last := group[len(group)-1] // ranges are sorted and disjoint: the last has the greatest end
		c.ranges = append(c.ranges, span{lo: c.storeText(s.textOf(group[0].lo)), hi: c.storeText(s.textOf(last.hi)), endless: last.endless})
	}
	*s = c
}
