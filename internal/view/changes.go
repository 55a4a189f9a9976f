package view

import (
	"slices"

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

// ReadBase makes dst the newest entry of key, with its value in memory of dst, which it uses again; a
// delete if there is none. Of a value longer than most, which it does not read, only the length counts:
// most+1 zeros stand for it.
func (p *Pin) ReadBase(key []byte, h uint64, most int, dst *entry.Entry) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, someMapping)
	e := entry.Entry{Kind: entry.Delete}
	found, err := p.Get(key, h, &e)
	if !found {
		e.Kind = entry.Delete
	} else if e.ValueLen() > uint64(most) {
		e.Value = make([]byte, most+1)
	} else if e.Separated {
		e.Value, _, err = p.ReadValue(key, &e, nil, false)
	}
	e.CopyBase(dst, most)
	return err
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

// FindRecent makes dst the newest entry of key, if a memtable has one that is newer than since, with its
// value as ReadBase has it. known is false if it can't tell or can't have the value: if runs have
// something newer than since, or for a separated value.
func (l *Leader) FindRecent(key []byte, h uint64, since entry.Version, most int, dst *entry.Entry) (newer, known bool, err error) {
	defer l.pin.holdView().releaseView()
	var e entry.Entry
	tables := View{Tables: l.pin.view.Tables}
	newest, found, err := tables.FindKey(key, h, since, entry.MaxVersion, &e)
	switch {
	case newest > since && found && e.Separated, err != nil:
		return true, false, err
	case newest > since:
		if !found {
			e.Kind = entry.Delete
		}
		// The memtable may be freed once the View is released.
		e.CopyBase(dst, most)
		return true, true, nil
	// What memtables have is newer than all in runs.
	case newest > 0:
		return false, true, nil
	}
	return false, !slices.ContainsFunc(l.pin.view.Runs, func(r *Run) bool { return !r.lacksNewer(since) }), nil
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
