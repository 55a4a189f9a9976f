package repository

import (
	"fmt"
	"slices"
	"time"

	"github.com/brockdb/brock"
)

// Keep says which backups of a store stay. A backup stays if one of the rules keeps it; the
// newest one always does. The zero value keeps all. The rules go by the clock of the machine that
// made a backup. Once a clock that was ahead has been set right, they go by the right time again.
type Keep struct {
	Last   int           // the newest backups, this many
	Within time.Duration // backups that are at most this much older than the newest one
	// The newest backup of an hour, a day, a week (from Monday on), a month or a year, in UTC,
	// for this many of them. Those without a backup are not counted.
	Hourly, Daily, Weekly, Monthly, Yearly int
}

// checkRules refuses a number below 0, which would keep only the newest backup.
func (k Keep) checkRules() error {
	for _, rule := range []struct {
		name string
		n    int64
	}{
		{"Last", int64(k.Last)}, {"Within", int64(k.Within)}, {"Hourly", int64(k.Hourly)}, {"Daily", int64(k.Daily)},
		{"Weekly", int64(k.Weekly)}, {"Monthly", int64(k.Monthly)}, {"Yearly", int64(k.Yearly)},
	} {
		if rule.n < 0 {
			return &brock.OptionError{Field: "Keep." + rule.name, Reason: "is negative"}
		}
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

// choose divides the backups of one store, which are sorted from the oldest to the newest.
func (k Keep) choose(list []*index) (keep, remove []*index) {
	if k == (Keep{}) || len(list) == 0 {
		return list, nil
	}
	stays := make([]bool, len(list))
	at := clockTimes(list)
	newest := at[len(at)-1]
	for i := range list {
		last := len(list) - 1 - i
		// The newest stays in any case: a rule can't remove all backups.
		// Within counts from the newest backup, not from now: after a long pause the old backups
		// would all go at once.
		stays[i] = last == 0 || last < k.Last || k.Within > 0 && newest.Sub(at[i]) <= k.Within
	}
	for p, most := range [...]int{k.Hourly, k.Daily, k.Weekly, k.Monthly, k.Yearly} {
		before, n := "", 0
		for i, t := range slices.Backward(at) {
			// From the newest on: the first of each period that is met is its newest.
			if in := periods[p](t.UTC()); in != before && n < most {
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

// While the newest backup has a later time than the clock, each backup gets a time of 1 ms after
// the one before. Times that are at most stuck apart may be such times.
const stuck = time.Minute

// clockTimes returns the time of each backup by the clock. That is Time. But if it is at most stuck
// after the one before, it is the modification time of SUPER, which each backup's checkpoint has
// written, if that is earlier.
func clockTimes(list []*index) []time.Time {
	at := make([]time.Time, len(list))
	for i, x := range list {
		at[i] = x.Time
		if i == 0 || x.Time.Sub(list[i-1].Time) > stuck || len(x.Files) == 0 {
			continue
		}
		super := x.Files[len(x.Files)-1].Modified
		if t := time.Unix(0, super); super != 0 && t.Before(x.Time) {
			at[i] = t
		}
	}
	return at
}
