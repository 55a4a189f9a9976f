package repository

import (
	"fmt"
	"slices"
	"time"

	"github.com/brockdb/brock"
)

// Keep says which backups of a store stay. A backup stays if one of the rules keeps it; the
// newest one always does. The zero value keeps all.
type Keep struct {
	Last   int           // the newest backups, this many
	Within time.Duration // backups that are at most this much older than the newest one
	// The newest backup of an hour, a day, a week (from Monday on), a month or a year, in UTC,
	// for this many of them. Those without a backup are not counted.
	Hourly, Daily, Weekly, Monthly, Yearly int
}

// valid refuses a number below 0, which would keep only the newest backup.
func (k Keep) valid() error {
	if min(k.Last, k.Hourly, k.Daily, k.Weekly, k.Monthly, k.Yearly) < 0 || k.Within < 0 {
		return fmt.Errorf("%w: a rule below 0", brock.ErrInvalid)
	}
	return nil
}

// periods name the time that a backup belongs to.
var periods = [...]func(t time.Time) string{
	func(t time.Time) string { return t.Format("2006-01-02 15") },
	func(t time.Time) string { return t.Format("2006-01-02") },
	func(t time.Time) string {
		year, week := t.ISOWeek()
		return fmt.Sprint(year, "-", week)
	},
	func(t time.Time) string { return t.Format("2006-01") },
	func(t time.Time) string { return t.Format("2006") },
}

// choose divides the backups of one store, which come oldest first.
func (k Keep) choose(list []*index) (keep, remove []*index) {
	if k == (Keep{}) || len(list) == 0 {
		return list, nil
	}
	stays := make([]bool, len(list))
	newest := list[len(list)-1].Time
	for i, x := range list {
		last := len(list) - 1 - i
		stays[i] = last == 0 || last < k.Last || k.Within > 0 && newest.Sub(x.Time) <= k.Within
	}
	for p, most := range [...]int{k.Hourly, k.Daily, k.Weekly, k.Monthly, k.Yearly} {
		before, n := "", 0
		for i, x := range slices.Backward(list) {
			if in := periods[p](x.Time.UTC()); in != before && n < most {
				before, n = in, n+1
				stays[i] = true
			}
		}
	}
	for i, x := range list {
		if stays[i] {
			keep = append(keep, x)
		} else {
			remove = append(remove, x)
		}
	}
	return keep, remove
}
