package memtable

import (
	"bytes"
	"sort"

	"github.com/brockdb/brock/internal/entry"
)

// mark says how new the entries before a place in the order of arrival are: a
// question about what is newer than a version needs to look only behind the last
// mark that isn't.
type mark struct {
	place  ref
	count  int           // entries before it
	newest entry.Version // of these
}

const (
	markEvery = 64
	scanMax   = 1 << 10 // entries that are scanned rather than folded
)

// mark is called by the writer, before the entry at place is published.
func (t *Table) mark(place ref, count uint64) {
	var marks []mark
	if p := t.marks.Load(); p != nil {
		marks = *p
	}
	// Readers know only what is before len(marks), so appending in place is safe.
	marks = append(marks, mark{place, int(count), entry.Version(t.newest.Load())})
	t.marks.Store(&marks)
}

// ChangedSince reports whether any entry of a key in [lo, hi) is newer than
// since; a nil hi is no bound.
func (t *Table) ChangedSince(lo, hi []byte, since entry.Version) bool {
	if entry.Version(t.newest.Load()) <= since {
		return false
	}
	extent := t.extent.Load()
	m, ok := t.lastMark(since)
	if extent == 0 || !ok {
		return false
	}
	end := ref(extent & refMask)
	if m.place >= end {
		return false
	}
	fresh := int(extent>>refBits) - m.count
	if fresh > scanMax && t.folding.TryLock() {
		v := t.foldLocked()
		t.folding.Unlock()
		if n := t.within(v, lo, hi); n <= fresh {
			return t.viewChanged(v, lo, hi, since)
		}
	}
	found := false
	t.walk(m.place, end, func(_ ref, r *record) bool {
		found = r.version() > since && inRange(r.keyBytes(), lo, hi)
		return !found
	})
	return found
}

// Arrivals calls fn for each entry with a version after since and up to another one,
// in the order of their arrival. The key is valid until Release.
func (t *Table) Arrivals(since, upTo entry.Version, fn func(key []byte, kind entry.Kind)) {
	extent := t.extent.Load()
	m, ok := t.lastMark(since)
	if end := ref(extent & refMask); extent != 0 && ok && m.place < end {
		t.walk(m.place, end, func(_ ref, r *record) bool {
			if v := r.version(); v > since && v <= upTo {
				fn(r.keyBytes(), entry.Kind(r.word&kindMask))
			}
			return true
		})
	}
}

// lastMark is the last mark before which nothing is newer than since.
func (t *Table) lastMark(since entry.Version) (mark, bool) {
	marks := t.marks.Load()
	if marks == nil {
		return mark{}, false
	}
	i := sort.Search(len(*marks), func(i int) bool { return (*marks)[i].newest > since })
	return (*marks)[i-1], true // the first one has no entries before it
}

func inRange(key, lo, hi []byte) bool {
	return bytes.Compare(key, lo) >= 0 && (hi == nil || bytes.Compare(key, hi) < 0)
}

// Between is about how many entries there are in [lo, hi): as many as the latest
// Iterator has met there.
func (t *Table) Between(lo, hi []byte) int { return t.within(t.view.Load(), lo, hi) }

// within is the number of entries of v in [lo, hi).
func (t *Table) within(v *view, lo, hi []byte) int {
	n := 0
	for _, level := range v.levels {
		n += len(t.cut(v, level, lo, hi))
	}
	return n
}

func (t *Table) viewChanged(v *view, lo, hi []byte, since entry.Version) bool {
	for _, level := range v.levels {
		for _, p := range t.cut(v, level, lo, hi) {
			if (*record)(t.arena.at(p.place)).version() > since {
				return true
			}
		}
	}
	return false
}

// cut is the part of a level in [lo, hi).
func (t *Table) cut(v *view, level []pair, lo, hi []byte) []pair {
	from, to := t.seek(v, level, lo), len(level)
	if hi != nil {
		to = t.seek(v, level, hi)
	}
	return level[min(from, to):to]
}
