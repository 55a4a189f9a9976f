package scan

import "sync/atomic"

// Habit is how many values scans of a store read from the disk after a seek. It is used
// by any number of goroutines.
type Habit struct {
	eighths atomic.Int64 // of the average, in which the last scan counts for an eighth
}

// note adds a scan that read n values.
func (h *Habit) note(n int) {
	old := h.eighths.Load()
	if sum := old + int64(min(n, farLength)) - old/8; sum != old {
		h.eighths.Store(sum)
	}
}

// expect is how many entries the next scan is likely to need: some more than the average.
func (h *Habit) expect() int {
	average := h.eighths.Load() / 8
	return int(min(average+average/8+1, farLength))
}

// note has the habit know how many values were read since the last seek.
func (s *Scan) note() {
	if s.habit == nil {
		return
	}
	n := s.asked
	if !s.waited {
		n = min(n, 1) // reading ahead would have been of no use
	}
	s.habit.note(n)
	s.asked, s.waited = 0, false
}

// expect makes the scan, which is about to seek, read ahead as many entries as it will
// need: then all values that it needs are on their way before it waits for the first.
func (s *Scan) expect() {
	s.note()
	n := s.habit.expect()
	guessed := n >= leastExpected
	switch r := s.readahead; {
	case r != nil:
		if !guessed {
			n = nearLength
		}
		r.resize(n)
		r.guessed = guessed
	case guessed:
		r := newReadahead(s, n)
		r.adaptive, r.guessed = true, true
		s.readahead = r
		s.simplify()
	}
}

// leastExpected is the number of entries from which it pays to hold them ahead.
const leastExpected = 3
