package brock

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h histogram
	for i := range 100 {
		h.addDuration(time.Duration(i) * time.Microsecond)
	}
	h.addDuration(-1)
	s := h.copyCounts()
	wantEqual(t, "count", s.Count, 101)
	wantEqual(t, "sum", s.Sum, 4950*time.Microsecond)
	wantEqual(t, "p50", s.Quantile(0.5), 65536*time.Nanosecond)
	wantEqual(t, "all", s.Quantile(1), 131072*time.Nanosecond)
	wantEqual(t, "none", Histogram{}.String(), "none measured")
}
