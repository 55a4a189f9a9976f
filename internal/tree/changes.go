package tree

import (
	"errors"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/pageio"
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

// Newest returns the newest version of key, published or not, if it is newer
// than since: what a transaction has read lies in old runs, which are not asked
// again. Only the commit leader may call it.
func (t *Tree) Newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	defer t.leave(t.leader)
	return t.lead().newest(key, h, since)
}

func (v *View) newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	var e entry.Entry
	for _, m := range v.tables {
		if m.MaxVersion() > since && m.Get(key, h, entry.MaxVersion, &e) {
			return e.Version, true, nil
		}
	}
	for _, r := range v.runs {
		if r.MaxVersion() <= since || !r.MayContain(key, h) {
			continue
		}
		if found, err := r.Get(key, h, entry.MaxVersion, &e); found || err != nil {
			return e.Version, found, err
		}
	}
	return 0, false, nil
}

// ChangedSince reports whether [lo, hi) has an entry newer than since; a nil hi
// is no bound. Only the commit leader may call it.
func (t *Tree) ChangedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	defer t.leave(t.leader)
	return t.lead().changedSince(lo, hi, since)
}

func (v *View) changedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	for _, m := range v.tables {
		if m.MaxVersion() > since && m.ChangedSince(lo, hi, since) {
			return true, nil
		}
	}
	for _, r := range v.runs {
		if r.MaxVersion() <= since {
			continue
		}
		if changed, err := r.ChangedSince(lo, hi, since); changed || err != nil {
			return changed, err
		}
	}
	return false, nil
}

// touchedSince reports whether touches accepts a key that is newer than since.
// It looks at all changes, of which there should be few.
func (v *View) touchedSince(since entry.Version, touches func(key []byte) (bool, error)) (touched bool, err error) {
	look := func(key []byte) bool {
		touched, err = touches(key)
		return !touched && err == nil
	}
	for _, m := range v.tables {
		if m.Len() == 0 || m.MaxVersion() <= since {
			continue
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
		if failed := r.EachSince(since, look); failed != nil || touched || err != nil {
			return touched, errors.Join(failed, err)
		}
	}
	return false, nil
}
