package view

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// A View is also the index for conflict checks: the commit leader asks it what has changed
// since a transaction began. It skips a table or run whose newest version is not newer
// than that, which are nearly all.

// newest returns the newest version of key, if it is newer than since. The first table or run that
// has one has the newest (see get).
func (v *View) newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	var e entry.Entry
	for _, m := range v.Tables {
		if m.MaxVersion() <= since {
			continue
		}
		// Unpublished versions count: the leader also checks against what it has just added.
		newest = m.RangeDeletes().Newest(key, entry.MaxVersion)
		if m.Get(key, h, entry.MaxVersion, &e) {
			newest = max(newest, e.Version)
		}
		if newest > 0 {
			return newest, true, nil
		}
	}
	for _, r := range v.Runs {
		if r.MaxVersion() <= since { // nearly all runs
			continue
		}
		newest, err = r.RangeDeletes().Newest(key, entry.MaxVersion)
		if err != nil {
			return 0, false, err
		}
		// The filter does not know of range deletes, so it is asked behind them.
		if r.MayContain(key, h) {
			found, err := r.Get(key, h, entry.MaxVersion, &e)
			if err != nil {
				return 0, false, err
			}
			if found {
				newest = max(newest, e.Version)
			}
		}
		if newest > 0 {
			return newest, true, nil
		}
	}
	return 0, false, nil
}

// changedSince reports whether a key in [lo, hi) has changed since a version.
func (v *View) changedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	for _, m := range v.Tables {
		// A table or run has what is newer only if its greatest version is.
		if m.MaxVersion() > since && (m.RangeDeletes().ChangedSince(lo, hi, since) || m.ChangedSince(lo, hi, since)) {
			return true, nil
		}
	}
	for _, r := range v.Runs {
		if r.MaxVersion() <= since {
			continue
		}
		if changed, err := r.RangeDeletes().ChangedSince(lo, hi, since); changed || err != nil {
			return changed, err
		}
		if changed, err := r.ChangedSince(lo, hi, since); changed || err != nil {
			return changed, err
		}
	}
	return false, nil
}

// eachArrival calls fn with each key, and with the bounds of each range delete, that is newer than
// since, until fn returns an error: those of memtables in the order of arrival. The commit leader
// calls it, so it must not sort.
func (v *View) eachArrival(since entry.Version, fn func(lo, hi []byte) error) error {
	for _, m := range v.Tables {
		if m.MaxVersion() <= since {
			continue
		}
		// A range delete is no entry, so Arrivals does not have it.
		if err := m.RangeDeletes().Since(since, bounds(fn)); err != nil {
			return err
		}
		for key := range m.Arrivals(since) {
			if err := fn(key, nil); err != nil {
				return err
			}
		}
	}
	for _, r := range v.Runs {
		if r.MaxVersion() <= since {
			continue
		}
		if err := r.RangeDeletes().Since(since, bounds(fn)); err != nil {
			return err
		}
		if err := r.EachSince(since, func(key []byte) error { return fn(key, nil) }); err != nil {
			return err
		}
	}
	return nil
}

// bounds makes fn a function of range deletes.
func bounds(fn func(lo, hi []byte) error) func(rangedel.Delete) error {
	return func(t rangedel.Delete) error { return fn(t.Lo, t.Hi) }
}
