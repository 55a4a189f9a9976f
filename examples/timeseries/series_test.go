package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// clock is a clock that tests set.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func open(t *testing.T, raw, hours time.Duration) (*Series, *clock) {
	t.Helper()
	c := new(clock)
	c.ms.Store(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixMilli())
	o := brock.DefaultOptions(t.TempDir())
	o.Now = c.now
	db, err := brock.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := NewSeries(db, raw, hours)
	s.now = c.now
	return s, c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hoursOf returns the hours of a series, by their begin.
func hoursOf(t *testing.T, s *Series, tenant, series string) map[int64]Hour {
	t.Helper()
	got := make(map[int64]Hour)
	must(t, s.Hours(tenant, series, time.Unix(0, 0), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), func(h Hour) error {
		got[h.Begin.UnixMilli()] = h
		return nil
	}))
	return got
}

// Random points, late ones too, are summed up as a model sums them.
func TestDownsample(t *testing.T) {
	s, c := open(t, 48*time.Hour, 1000*time.Hour)
	rng := rand.New(rand.NewPCG(1, 2))
	type place struct {
		tenant, series string
		at             int64
	}
	points := make(map[place]float64)
	for range 30 {
		for range 100 {
			p := place{fmt.Sprint(rng.IntN(3)), fmt.Sprint("s", rng.IntN(4)), c.now().Add(-time.Duration(rng.IntN(20*3600)) * time.Second).UnixMilli()}
			points[p] = float64(rng.IntN(1000))
			must(t, s.Add(p.tenant, p.series, Point{time.UnixMilli(p.at), points[p]}))
		}
		for tenant := range 3 {
			_, err := s.Downsample(t.Context(), fmt.Sprint(tenant))
			must(t, err)
		}
		want := make(map[place]Hour)
		for p, v := range points {
			hour := time.UnixMilli(p.at).Truncate(time.Hour)
			at := place{p.tenant, p.series, hour.UnixMilli()}
			h, ok := want[at]
			if !ok {
				h = Hour{Begin: hour, Min: math.Inf(1), Max: math.Inf(-1)}
			}
			h.Count, h.Sum, h.Min, h.Max = h.Count+1, h.Sum+v, min(h.Min, v), max(h.Max, v)
			want[at] = h
		}
		n := 0
		for tenant := range 3 {
			for series := range 4 {
				for begin, h := range hoursOf(t, s, fmt.Sprint(tenant), fmt.Sprint("s", series)) {
					n++
					w := want[place{fmt.Sprint(tenant), fmt.Sprint("s", series), begin}]
					if h.Count != w.Count || h.Sum != w.Sum || h.Min != w.Min || h.Max != w.Max {
						t.Fatalf("%+v instead of %+v", h, w)
					}
				}
			}
		}
		if n != len(want) {
			t.Fatalf("%d hours instead of %d", n, len(want))
		}
		c.advance(30 * time.Minute)
	}
}

func TestOnlyNewPointsAreRead(t *testing.T) {
	s, c := open(t, 48*time.Hour, 1000*time.Hour)
	for i := range 10 {
		must(t, s.Add("a", "x", Point{c.now().Add(-time.Duration(i) * time.Hour), 1}))
	}
	for _, want := range []int{10, 0} {
		if n, err := s.Downsample(t.Context(), "a"); err != nil || n != want {
			t.Fatalf("%d hours, %v; want %d", n, err, want)
		}
	}
	must(t, s.Add("a", "x", Point{c.now().Add(-3 * time.Hour), 7}))
	if n, err := s.Downsample(t.Context(), "a"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
}

// Points expire, what they were summed up to stays, and a late point does not change it for the worse.
func TestExpiry(t *testing.T) {
	s, c := open(t, 10*time.Hour, 1000*time.Hour)
	begin := c.now()
	for i := range 60 {
		must(t, s.Add("a", "x", Point{begin.Add(time.Duration(i) * time.Minute), 1}))
	}
	c.advance(2 * time.Hour)
	_, err := s.Downsample(t.Context(), "a")
	must(t, err)
	c.advance(8*time.Hour + 30*time.Minute)
	n := 0
	must(t, s.Points("a", "x", begin, begin.Add(time.Hour), func(Point) error {
		n++
		return nil
	}))
	if n >= 60 || n == 0 {
		t.Fatalf("%d points are left", n)
	}
	must(t, s.Add("a", "x", Point{begin.Add(50*time.Minute + time.Second), 1}))
	_, err = s.Downsample(t.Context(), "a")
	must(t, err)
	if h := hoursOf(t, s, "a", "x")[begin.UnixMilli()]; h.Count != 60 {
		t.Fatalf("%+v", h)
	}
	c.advance(2000 * time.Hour)
	if h := hoursOf(t, s, "a", "x"); len(h) != 0 {
		t.Fatal(h)
	}
}

func TestDrop(t *testing.T) {
	s, c := open(t, time.Hour, time.Hour)
	for _, tenant := range []string{"a", "b"} {
		must(t, s.Add(tenant, "x", Point{c.now(), 1}))
	}
	must(t, s.Drop(t.Context(), "a"))
	for tenant, want := range map[string]int{"a": 0, "b": 1} {
		n := 0
		must(t, s.Points(tenant, "x", c.now().Add(-time.Hour), c.now().Add(time.Hour), func(Point) error {
			n++
			return nil
		}))
		if n != want {
			t.Errorf("tenant %s has %d points", tenant, n)
		}
	}
}

func TestNames(t *testing.T) {
	s, c := open(t, time.Hour, time.Hour)
	for _, name := range []string{"", "a\x00b"} {
		if err := s.Add("a", name, Point{c.now(), 1}); err != errName {
			t.Errorf("%q: %v", name, err)
		}
	}
	// A name that begins with another one is another series.
	must(t, s.Add("a", "cpu", Point{c.now(), 1}))
	must(t, s.Add("a", "cpu2", Point{c.now(), 2}))
	must(t, s.Points("a", "cpu", c.now().Add(-time.Hour), c.now().Add(time.Hour), func(p Point) error {
		if p.Value != 1 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	}))
}

func TestShow(t *testing.T) {
	db, err := brock.Open(brock.DefaultOptions(t.TempDir()))
	must(t, err)
	must(t, show(db, NewSeries(db, 1000*time.Hour, 1000*time.Hour), 2, 3, 200))
	must(t, db.Close())
}
