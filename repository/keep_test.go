package repository

import (
	"slices"
	"testing"
	"time"
)

// TestKeepAfterAJumpedClock: a clock was a year ahead for one backup, so that each later one is 1 ms
// later than the one before. The rules keep as many of these as if it had not been, also of those
// that earlier calls have kept.
func TestKeepAfterAJumpedClock(t *testing.T) {
	real := time.Date(2026, 11, 22, 0, 5, 0, 0, time.UTC)
	made := func(at, clock time.Time) *index {
		return &index{Time: at, Files: []file{{Name: "MANIFEST-000001"}, {Name: "SUPER", Modified: clock.UnixNano()}}}
	}
	keep := Keep{Hourly: 24, Daily: 7}
	var list []*index
	hours := map[time.Time]bool{}
	for i := range 10 * 24 * 6 { // for ten days, every ten minutes
		clock := real.Add(time.Duration(i) * 10 * time.Minute)
		at := clock
		if i == 100 {
			at = clock.AddDate(1, 0, 0)
			clock = at
		} else if i > 100 {
			at = list[len(list)-1].Time.Add(time.Millisecond)
		}
		list, _ = keep.choose(append(list, made(at, clock)))
		hours[clock.Truncate(time.Hour)] = true
		// Of a day that is over, its last backup may be that of its last hour.
		if want := min(len(hours), keep.Hourly); len(list) < want {
			t.Fatalf("after %d backups %d are kept, not %d", i+1, len(list), want)
		}
	}
	var kept []time.Time
	for _, at := range clockTimes(list) {
		kept = append(kept, at.Truncate(time.Hour))
	}
	newest := kept[len(kept)-1]
	for i := range keep.Hourly - 1 { // the backup from the future takes one of the hours
		if at := newest.Add(-time.Duration(i) * time.Hour); !slices.Contains(kept, at) {
			t.Errorf("no backup of %v in %v", at, kept)
		}
	}
	for i := range keep.Daily - 1 {
		if day := newest.AddDate(0, 0, -i).Truncate(24 * time.Hour).Add(23 * time.Hour); day.Before(newest) && !slices.Contains(kept, day) {
			t.Errorf("no backup of %v in %v", day, kept)
		}
	}
	if len(kept) > keep.Hourly+keep.Daily {
		t.Errorf("%d are kept", len(kept))
	}

	// Where files have a wrong time, it counts for nothing.
	list = list[:0]
	for i := range 48 {
		list = append(list, made(real.Add(time.Duration(i)*time.Hour), time.Unix(0, 1)))
	}
	if list, _ = (Keep{Hourly: 24}).choose(list); len(list) != 24 {
		t.Errorf("%d are kept, not 24", len(list))
	}
}
