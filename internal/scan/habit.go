package scan

import "sync/atomic"

// mostExpected is how many values a scan reads ahead at most by itself.
const mostExpected = 256

// Habit is how many values scans of a store read from the disk after a seek. It is used
// by any number of goroutines.
type Habit struct {
	eighths atomic.Int64 // of the average, in which the last scan counts for an eighth
}

// note adds a scan that read n values.
func (h *Habit) note(n int) {
	old := h.eighths.Load()
	if sum := old + int64(min(n, mostExpected)) - old/8; sum != old {
		h.eighths.Store(sum)
	}
}

// expect is how many entries the next scan is likely to need: some more than the average.
func (h *Habit) expect() int {
	average := h.eighths.Load() / 8
	return int(min(average+average/8+1, mostExpected))
}
