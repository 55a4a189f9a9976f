package scan

import "sync/atomic"

// mostExpected is how many values a scan reads ahead at most by itself.
const mostExpected = 256

// Habit is how many values scans of a store read from the disk after a seek. It is used
// by any number of goroutines. Without it a cold seek with 50 values that jump takes 1.2 to
// 1.9 times as long in the median, and 1.6 to 2.2 times the processor's time.
type Habit struct {
	eighths atomic.Int64 // 8 times the moving average; the last scan has a weight of 1/8
	apart   atomic.Int64 // 8 times the average distance from that average, by the same weights
}

// recordScan adds a scan that read n values.
func (h *Habit) recordScan(n int) {
	next := int64(min(n, mostExpected))
	average := h.eighths.Load() / 8
	addToAverage(&h.apart, max(next-average, average-next))
	addToAverage(&h.eighths, next)
}

// addToAverage adds n to an average. What does not change is not written, as others read it.
func addToAverage(eighths *atomic.Int64, n int64) {
	if old := eighths.Load(); n != old/8 {
		eighths.Store(old + n - old/8)
	}
}

// predictReads is how many entries the next scan is likely to need: one more than the average,
// as most scans move once more than they read, and some more if they differ.
func (h *Habit) predictReads() int {
	average := h.eighths.Load() / 8
	return int(min(average+min(average, h.apart.Load())/8+1, mostExpected))
}
