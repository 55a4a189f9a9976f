package tree

import (
	"errors"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/tombstone"
)

// The tree is the conflict index: what the commit leader asks before it lets a
// transaction pass. The leader has no Pin, but a slot of its own.

// mapped is the file that a memory fault is blamed on where nothing below
// knows better.
const mapped = "a mapped file"

// lead is the current View for the commit leader, to whom it stays until leave(t.leader).
func (t *Tree) lead() *View {
	t.leader.announce(noVersion)
	return t.views.take(t.leader)
}

// Newest returns the newest version of key, published or not, be it that of a
// range tombstone, if it is newer than since: what a transaction has read lies in
// old runs, which are not asked again. Only the commit leader may call it.
func (t *Tree) Newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	defer t.leave(t.leader)
	return t.lead().Newest(key, h, since)
}

// Newest returns the newest version of key in v, if it is newer than since.
func (v *View) Newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	var e entry.Entry
	for _, m := range v.tables {
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
	for _, r := range v.runs {
		if r.MaxVersion() <= since {
			continue
		}
		newest = r.Tombstones().Newest(key, entry.MaxVersion)
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

// ChangedSince reports whether [lo, hi) has an entry newer than since, or meets a
// range tombstone that is; a nil hi is no bound. Only the commit leader may call it.
func (t *Tree) ChangedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	defer t.leave(t.leader)
	return t.lead().ChangedSince(lo, hi, since)
}

// ChangedSince is that of the Tree, for all that is in v.
func (v *View) ChangedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	for _, m := range v.tables {
		if m.MaxVersion() > since && (m.Tombstones().ChangedSince(lo, hi, since) || m.ChangedSince(lo, hi, since)) {
			return true, nil
		}
	}
	for _, r := range v.runs {
		if r.MaxVersion() <= since {
			continue
		}
		if r.Tombstones().ChangedSince(lo, hi, since) {
			return true, nil
		}
		if changed, err := r.ChangedSince(lo, hi, since); changed || err != nil {
			return changed, err
		}
	}
	return false, nil
}

// touchedSince reports whether touches accepts a key, or the bounds of a range
// tombstone, that is newer than since. It looks at all changes, of which there
// should be few.
func (v *View) touchedSince(since entry.Version, touches func(lo, hi []byte) (bool, error)) (touched bool, err error) {
	look := func(key []byte) bool {
		touched, err = touches(key, nil)
		return !touched && err == nil
	}
	lookAll := func(set *tombstone.Set) bool {
		for _, t := range set.All() {
			if t.Version <= since {
				continue
			}
			if touched, err = touches(t.Lo, t.Hi); touched || err != nil {
				return false
			}
		}
		return true
	}
	for _, m := range v.tables {
		if m.MaxVersion() <= since {
			continue
		}
		if !lookAll(m.Tombstones()) {
			return touched, err
		}
		it := m.Iterator()
		for ok := it.First(); ok; ok = it.Next() {
			if e := it.Entry(); e.Version > since && !look(e.Key) {
				break
			}
		}
		it.Close()
		if touched || err != nil {
			return touched, err
		}
	}
	for _, r := range v.runs {
		if r.MaxVersion() <= since {
			continue
		}
		if !lookAll(r.Tombstones()) {
			return touched, err
		}
		if failed := r.EachSince(since, look); failed != nil || touched || err != nil {
			return touched, errors.Join(failed, err)
		}
	}
	return false, nil
}
