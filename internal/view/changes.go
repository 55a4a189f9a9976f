package view

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// A View is also the index for conflict checks: the commit leader asks it what has changed
// since a transaction began. It skips a table or run whose newest version is not newer
// than that, which are nearly all.

// Newest returns the newest version of key, published or not, if it is newer than since. The
// version may be that of a range delete over key. Runs without anything newer than since are not
// read, so a check of what a transaction has read rarely reads the disk.
func (p *Pin) Newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, someMapping)
	// Unpublished versions count: the leader also checks against what it has just added.
	var e entry.Entry
	newest, _, err = p.view.FindKey(key, h, since, entry.MaxVersion, &e)
	p.view.NameKeys(err)
	return newest, newest > 0, err
}

// ChangedSince reports whether [lo, hi) has an entry newer than since, or overlaps a range delete
// newer than since. A nil hi is no bound.
func (p *Pin) ChangedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, someMapping)
	for _, m := range p.view.Tables {
		// A table or run has what is newer only if its greatest version is.
		if m.MaxVersion() > since && (m.RangeDeletes().ChangedSince(lo, hi, since) || m.ChangedSince(lo, hi, since)) {
			return true, nil
		}
	}
	for _, r := range p.view.Runs {
		if r.MaxVersion() <= since {
			continue
		}
		if changed, err = r.RangeDeletes().ChangedSince(lo, hi, since); !changed && err == nil {
			changed, err = r.ChangedSince(lo, hi, since)
		}
		if changed || err != nil {
			p.view.NameKeys(err)
			return changed, err
		}
	}
	return false, nil
}

// SortSince sorts what is newer than since in memtables, which makes later calls of
// ChangedSince cheap. It may take long. A committer calls it before its commit, so that
// the commit leader, for whom all others wait, need not sort.
func (p *Pin) SortSince(since entry.Version) {
	for _, m := range p.view.Tables {
		m.SortSince(since)
	}
}

// EachArrival calls fn with each key, and with the bounds of each range delete, that is newer than
// since, until fn returns an error, which it returns. A key has a nil hi. It returns false, and
// calls nothing, if more than most entries of runs would have to be read for that. With a most of 0
// it is for the commit leader: it walks memtables in the order of arrival, and only what is newer
// than since.
func (p *Pin) EachArrival(since entry.Version, most int, fn func(lo, hi []byte) error) (all bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, someMapping)
	// Entries of runs are in the order of keys, so all that may be newer has to be read.
	for _, r := range p.view.Runs {
		if r.MaxVersion() > since {
			most -= r.EntriesSince(since)
		}
	}
	if most < 0 {
		return false, nil
	}
	deletes := func(t rangedel.Delete) error { return fn(t.Lo, t.Hi) }
	for _, m := range p.view.Tables {
		if m.MaxVersion() <= since {
			continue
		}
		// A range delete is no entry, so Arrivals does not have it.
		if err := m.RangeDeletes().Since(since, deletes); err != nil {
			return true, err
		}
		// Not sorted: the commit leader must not wait for that.
		for key := range m.Arrivals(since) {
			if err := fn(key, nil); err != nil {
				return true, err
			}
		}
	}
	for _, r := range p.view.Runs {
		if r.MaxVersion() <= since {
			continue
		}
		if err := r.RangeDeletes().Since(since, deletes); err != nil {
			return true, err
		}
		if err := r.EachSince(since, func(key []byte) error { return fn(key, nil) }); err != nil {
			return true, err
		}
	}
	return true, nil
}

// Leader reads the current View for the commit leader, which needs it again and again: it holds a
// View for the time of one call only, and no version. One goroutine uses it at a time.
type Leader struct{ pin *Pin }

// NewLeader returns a Leader of the Set's Views.
func (s *Set) NewLeader() *Leader { return &Leader{&Pin{slot: s.readers.addSlot(), set: s}} }

// Newest is Pin.Newest.
func (l *Leader) Newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	defer l.pin.holdView().releaseView()
	return l.pin.Newest(key, h, since)
}

// ChangedSince is Pin.ChangedSince.
func (l *Leader) ChangedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	defer l.pin.holdView().releaseView()
	return l.pin.ChangedSince(lo, hi, since)
}

// EachArrival is Pin.EachArrival of what is in memtables.
func (l *Leader) EachArrival(since entry.Version, fn func(lo, hi []byte) error) (all bool, err error) {
	defer l.pin.holdView().releaseView()
	return l.pin.EachArrival(since, 0, fn)
}

// GetAt is Pin.Get at a version.
func (l *Leader) GetAt(key []byte, h uint64, at entry.Version, dst *entry.Entry) (found bool, err error) {
	defer l.pin.holdView().releaseView()
	defer pageio.Guard(pageio.Arm(), &err, someMapping)
	_, found, err = l.pin.view.FindKey(key, h, 0, at, dst)
	return found, err
}

// UnhiddenBytes estimates how many bytes runs have in [lo, hi) that no range delete up to version
// at hides. It is too low if more than about 32 range deletes lie there, and 0 if the runs can't be
// read.
func (l *Leader) UnhiddenBytes(lo, hi []byte, at entry.Version) (n int64) {
	defer l.pin.holdView().releaseView()
	var fault error
	defer pageio.Guard(pageio.Arm(), &fault, someMapping)
	return l.pin.view.unhiddenBytes(lo, hi, at)
}
