package brock

import "bytes"

// span is the range of stored keys that an iterator has covered since it was
// last positioned: what its user has learnt, not what was read ahead. Its moving
// end is only brought up to date when the direction changes and at the end.
type span struct {
	lo, hi []byte // [lo, hi)
	active bool   // the iterator was positioned
}

// begin starts an empty span at key, or at the bound that lies nearer.
func (s *span) begin(key, lo, hi []byte) {
	switch {
	case bytes.Compare(key, lo) < 0:
		key = lo
	case bytes.Compare(key, hi) > 0:
		key = hi
	}
	s.lo = append(s.lo[:0], key...)
	s.hi = append(s.hi[:0], key...)
	s.active = true
}

// extend extends the span, which grew in the direction turned, to key.
func (s *span) extend(key []byte, turned bool) {
	if turned {
		if bytes.Compare(key, s.lo) < 0 {
			s.lo = append(s.lo[:0], key...)
		}
	} else if bytes.Compare(key, s.hi) >= 0 {
		s.hi = append(append(s.hi[:0], key...), 0)
	}
}

// end extends the span to the bound it ran into.
func (s *span) end(lo, hi []byte, turned bool) {
	if turned {
		s.lo = append(s.lo[:0], lo...)
	} else {
		s.hi = append(s.hi[:0], hi...)
	}
}
