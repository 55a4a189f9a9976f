package tree

import (
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
	v := t.lead()
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
	v := t.lead()
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
