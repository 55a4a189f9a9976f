package debug

import (
	"math"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// histogramOf makes a histogram of durations.
func histogramOf(durations ...time.Duration) *brock.Histogram {
	h := new(brock.Histogram)
	for _, d := range durations {
		i := 0
		for 1<<i <= d {
			i++
		}
		h.Buckets[i]++
		h.Count++
		h.Sum += d
	}
	return h
}

// A quantile is at most a factor of two away from the true one, as the buckets double.
func TestQuantileIsWithinItsBucket(t *testing.T) {
	var durations []time.Duration
	for i := range 1000 {
		durations = append(durations, time.Duration(i+1)*time.Microsecond)
	}
	h := histogramOf(durations...)
	for _, q := range []float64{0.01, 0.1, 0.5, 0.9, 0.99, 1} {
		want := q * 1e-3
		if got := quantile(h, q); got < want/2 || got > want*2 {
			t.Errorf("quantile %v: %v, true is %v", q, got, want)
		}
	}
	if got := quantile(new(brock.Histogram), 0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	if got := quantile(histogramOf(0, 0), 0.5); got != 0 {
		t.Errorf("of zeros: %v", got)
	}
}

func TestSinceCountsWhatCameLater(t *testing.T) {
	before, now := histogramOf(time.Microsecond), histogramOf(time.Microsecond, time.Millisecond, time.Millisecond)
	if d := since(now, before); d.Count != 2 || quantile(d, 0.01) < 0.0005 {
		t.Errorf("%+v", d)
	}
	// Counters that went back, as buckets are not of one moment, are no negative count.
	if d := since(before, now); d.Count != 0 {
		t.Errorf("%+v", d)
	}
}

func TestRoundKeepsThreeDigits(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 123456: 123000, 0.00012345: 0.000123, -98765: -98800, math.Inf(1): 0, math.MaxFloat64: math.MaxFloat64, 5e-324: 5e-324} {
		if got := round(x); math.Abs(got-want) > math.Abs(want)*1e-9 {
			t.Errorf("round(%v) = %v, want %v", x, got, want)
		}
	}
	if got := round(math.NaN()); got != 0 {
		t.Errorf("NaN: %v", got)
	}
}

// A time in which nobody looked makes no point: its mean would look like the rate of its end.
func TestGapsMakeNoPoint(t *testing.T) {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &sampler{db: db}
	take := func(ago time.Duration) {
		t.Helper()
		s.lastAt = s.lastAt.Add(-ago)
		if _, _, err := s.sample(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	take(0) // the first is only a base
	if n := len(s.after(0)); n != 0 {
		t.Fatalf("%d points of one sample", n)
	}
	take(time.Second)
	take(0) // too soon: shared with another viewer
	take(time.Minute)
	take(time.Second)
	points := s.after(0)
	if len(points) != 2 {
		t.Fatalf("%d points, want 2", len(points))
	}
	if n := len(s.after(points[0].At)); n != 1 && points[0].At != points[1].At {
		t.Errorf("%d points after the first", n)
	}
	for range 2 * maxPoints {
		take(time.Second)
	}
	if n := len(s.after(0)); n != maxPoints {
		t.Errorf("%d points are kept, want %d", n, maxPoints)
	}
}

// The sample of a column has each write with the same chance, and no more than its bound.
func TestSampleOfWritesIsEven(t *testing.T) {
	s := &slot{counts: make(map[string]int64), share: 1}
	const n = 100_000
	for i := range n {
		s.addKey("ks", []byte{byte(i * 256 / n), byte(i)})
	}
	if len(s.keys) != heatKeys || s.seen != n {
		t.Fatalf("%d keys of %d", len(s.keys), s.seen)
	}
	c := s.column("ks", nil, nil, [][]byte{{64}, {128}, {192}})
	for i, v := range c.Rows {
		// A quarter of all: 128 of 512 keys, and six standard deviations are 60.
		if share := v / c.Total; share < 0.13 || share > 0.37 {
			t.Errorf("row %d has %v of the writes: %v", i, share, c.Rows)
		}
	}
	// Many keyspaces and long keys stay within bounds.
	for i := range 1000 {
		s.addKey(string(rune('a'+i)), make([]byte, 1000))
	}
	if len(s.counts) != heatKeyspaces || s.other == 0 {
		t.Errorf("%d keyspaces, %d other writes", len(s.counts), s.other)
	}
	for _, w := range s.keys {
		if len(w.key) > heatKeyBytes {
			t.Fatalf("a key of %d bytes is kept", len(w.key))
		}
	}
}

func TestRowsOfTheHeatMapAreBounded(t *testing.T) {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var s slot
	for i := range 5000 {
		s.keys = append(s.keys, written{"", []byte{byte(i >> 8), byte(i)}})
	}
	bounds := heatBounds(db.Default(), nil, nil, []*slot{&s})
	if len(bounds) != heatRows-1 {
		t.Errorf("%d bounds of %d keys that were written", len(bounds), len(s.keys))
	}
	if bounds := heatBounds(db.Default(), nil, nil, nil); len(bounds) != 0 {
		t.Errorf("bounds of nothing: %q", bounds)
	}
	if bounds := heatBounds(db.Default(), []byte{5}, []byte{6}, []*slot{&s}); len(bounds) == 0 || bounds[0][0] != 5 {
		t.Errorf("bounds within a range: %q", bounds)
	}
}
