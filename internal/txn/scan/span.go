package scan

import "bytes"

// Span is the range of stored keys that a scan's user has seen since the last seek. What was
// only read ahead does not count. To keep moves cheap, the moving end is brought up to date
// only when the direction changes and at the end. The user's filter also sees keys: the Span
// is extended to each key before the filter is called.
type Span struct {
	Lo, Hi []byte // [Lo, Hi)
	Active bool   // the scan was positioned
}

// Begin starts an empty span at key, or at the bound that lies nearer.
func (s *Span) Begin(key, lo, hi []byte) {
	switch {
	case bytes.Compare(key, lo) < 0:
		key = lo
	case bytes.Compare(key, hi) > 0:
		key = hi
	}
	s.Lo = append(s.Lo[:0], key...)
	s.Hi = append(s.Hi[:0], key...)
	s.Active = true
}

// Extend extends the span, which grew in the direction backward, to key.
func (s *Span) Extend(key []byte, backward bool) {
	if backward {
		if bytes.Compare(key, s.Lo) < 0 {
			s.Lo = append(s.Lo[:0], key...)
		}
	} else if bytes.Compare(key, s.Hi) >= 0 {
		s.Hi = append(append(s.Hi[:0], key...), 0)
	}
}

// End extends the span to the bound it ran into.
func (s *Span) End(lo, hi []byte, backward bool) {
	if backward {
		s.Lo = append(s.Lo[:0], lo...)
	} else {
		s.Hi = append(s.Hi[:0], hi...)
	}
}
