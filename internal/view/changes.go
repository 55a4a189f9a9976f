package view

import (
	"errors"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tombstone"
)

// A View is the conflict index: the commit leader asks it before it lets a
// transaction pass. Where nothing is newer than the version that is asked about,
// a table or run is not looked at.

func (v *View) newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	var e entry.Entry
	for _, m := range v.Tables {
		if m.MaxVersion() <= since {
			continue
		}
		newest = m.Tombstones().Newest(key, entry.MaxVersion)
		if m.Get(key, h, entry.MaxVersion, &e) {
			newest = max(newest, e.Version)
		}
		if newest > 0 {
			return newest, true, nil
		}
	}
	for _, r := range v.Runs {
		if r.MaxVersion() <= since { // what the reader has read lies in such runs
			continue
		}
		newest, err = r.Tombstones().Newest(key, entry.MaxVersion)
		if err != nil {
			return 0, false, err
		}
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

func (v *View) changedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	for _, m := range v.Tables {
		if m.MaxVersion() > since && (m.Tombstones().ChangedSince(lo, hi, since) || m.ChangedSince(lo, hi, since)) {
			return true, nil
		}
	}
	for _, r := range v.Runs {
		if r.MaxVersion() <= since {
			continue
		}
		if changed, err := r.Tombstones().ChangedSince(lo, hi, since); changed || err != nil {
			return changed, err
		}
		if changed, err := r.ChangedSince(lo, hi, since); changed || err != nil {
			return changed, err
		}
	}
	return false, nil
}

// sortSince has memtables sort what is newer than since, if that is much, so that
// changedSince looks it up.
func (v *View) sortSince(since entry.Version) {
	for _, m := range v.Tables {
		m.SortSince(since)
	}
}

func (v *View) touchedSince(since entry.Version, touches func(lo, hi []byte) (bool, error)) (touched bool, err error) {
	for _, m := range v.Tables {
		if m.MaxVersion() <= since {
			continue
		}
		if touched, err := rangesTouched(m.Tombstones().Since, since, touches); touched || err != nil {
			return touched, err
		}
		if touched, err := m.touchedSince(since, touches); touched || err != nil {
			return touched, err
		}
	}
	for _, r := range v.Runs {
		if r.MaxVersion() <= since {
			continue
		}
		if touched, err := rangesTouched(r.Tombstones().Since, since, touches); touched || err != nil {
			return touched, err
		}
		failed := r.EachSince(since, func(key []byte) bool {
			touched, err = touches(key, nil)
			return !touched && err == nil
		})
		if failed != nil || touched || err != nil {
			return touched, errors.Join(failed, err)
		}
	}
	return false, nil
}

// rangesTouched looks at the range tombstones of a tombstone.Source, whose method each
// is, that are newer than since.
func rangesTouched(each func(entry.Version, func(tombstone.Tombstone) error) error, since entry.Version, touches func(lo, hi []byte) (bool, error)) (bool, error) {
	err := each(since, func(t tombstone.Tombstone) error {
		touched, err := touches(t.Lo, t.Hi)
		if touched && err == nil {
			err = errTouched
		}
		return err
	})
	if err == errTouched {
		return true, nil
	}
	return false, err
}

// errTouched ends a walk that has found what it looks for.
var errTouched = errors.New("touched")

// touchedSince looks at the keys that are newer than since, in the order of their
// arrival: a commit leader asks, so nothing is sorted.
func (t *Table) touchedSince(since entry.Version, touches func(lo, hi []byte) (bool, error)) (bool, error) {
	for key := range t.Arrivals(since, entry.MaxVersion) {
		if touched, err := touches(key, nil); touched || err != nil {
			return touched, err
		}
	}
	return false, nil
}
