package memtable

import (
	"bytes"
	"iter"

	"github.com/brockdb/brock/internal/base/entry"
)

// scanMax is how many entries that are in no view yet ChangedSince may have to walk. With more,
// SortSince sorts them.
const scanMax = 1 << 10

// ChangedSince reports whether any entry of a key in [lo, hi) is newer than since; a nil hi is
// no bound. The commit leader calls it, so it sorts nothing. It walks the entries newer than
// since that are in no view yet. Call SortSince before, so that these are few.
func (t *Table) ChangedSince(lo, hi []byte, since entry.Version) bool {
	m, end, _ := t.findFresh(since)
	if m.place >= end {
		return false
	}
	// Use the view only if it has fewer entries in [lo, hi) than there are behind the mark. Else a
	// walk of what is new is shorter.
	from := m.place
	if v := t.view.Load(); v.end > from && v.countWithin(lo, hi) <= v.count-m.count {
		if v.changedWithin(lo, hi, since) {
			// The view has said all about the entries before its end.
			return true
		}
		from = v.end
	}
	if from >= end {
		return false
	}
	// Entries that are not sorted yet are few (SortSince), so they are walked.
	found := false
	t.arena.eachRecord(from, end, func(_ ref, r *record) bool {
		found = r.version() > since && inRange(r.keyBytes(), lo, hi)
		return !found
	})
	return found
}

// SortSince prepares the table for ChangedSince: it makes a new view if many entries newer
// than since are in no view yet.
func (t *Table) SortSince(since entry.Version) {
	m, _, count := t.findFresh(since)
	if count-max(m.count, t.view.Load().count) > scanMax {
		t.extendView()
	}
}

// findFresh returns a mark before which no entry is newer than since, the end of the entries, and
// how many there are. If no entry is newer, the mark is at the end or beyond.
func (t *Table) findFresh(since entry.Version) (m mark, end ref, count int) {
	// extent first: the marks of all entries before it are there, then.
	extent := t.extent.Load()
	if extent == 0 || entry.Version(t.marks.newest.Load()) <= since {
		return mark{}, 0, 0
	}
	m, _ = t.marks.lastMark(since) // there are entries, so there is a mark
	return m, ref(extent & refMask), int(extent >> refBits)
}

// Arrivals yields the keys of the entries whose version is greater than since, in the order in
// which they were added. A key is valid until Release.
func (t *Table) Arrivals(since entry.Version) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		m, end, _ := t.findFresh(since)
		if m.place >= end {
			return
		}
		// Entries behind the mark may be older than since, too.
		t.arena.eachRecord(m.place, end, func(_ ref, r *record) bool {
			return r.version() <= since || yield(r.keyBytes())
		})
	}
}

// inRange reports whether key is in [lo, hi); a nil hi is no bound.
func inRange(key, lo, hi []byte) bool {
	return bytes.Compare(key, lo) >= 0 && (hi == nil || bytes.Compare(key, hi) < 0)
}

// Between estimates how many entries lie in [lo, hi), from the view of the latest
// Iterator; a nil hi is no bound.
func (t *Table) Between(lo, hi []byte) int { return t.view.Load().countWithin(lo, hi) }

// maxSamples is how many entries of a level Size looks at, at most.
const maxSamples = 256

// Size returns how many entries have keys in [lo, hi), with all versions. From some of them it
// estimates the bytes of their keys and inline values, and of separated values. A nil hi is no
// bound. It sorts what was added since the last view.
func (t *Table) Size(lo, hi []byte) (entries, size, separated uint64) {
	v := t.extendView()
	for _, level := range v.levels {
		part := v.cutLevel(level, lo, hi)
		var keys, inline, values, n uint64
		step := len(part)/maxSamples + 1
		for at := 0; at < len(part); at += step {
			// Not at regular distances, since keys of some kind may be, too.
			jitter := uint64(at+1) * 0x9e3779b97f4a7c15
			r := t.arena.at(part[min(at+int((jitter^jitter>>29)>>16%uint64(step)), len(part)-1)].place)
			keys += uint64(r.keyLen())
			if r.word&flagSeparated != 0 {
				values += uint64(r.value)
			} else {
				inline += uint64(r.value)
			}
			n++
		}
		each := float64(len(part)) / float64(max(n, 1))
		entries += uint64(len(part))
		size += uint64(each * float64(keys+inline))
		separated += uint64(each * float64(values))
	}
	return entries, size, separated
}

// Split returns at most n-1 keys, in order, that cut the entries with keys in [lo, hi) into parts
// of about the same size; a nil hi is no bound. It looks only at the largest level of the view.
func (t *Table) Split(lo, hi []byte, n int) [][]byte {
	// The longest level has nearly all entries, so its parts are about those of all.
	v := t.extendView()
	var longest []pair
	for _, level := range v.levels {
		if part := v.cutLevel(level, lo, hi); len(part) > len(longest) {
			longest = part
		}
	}
	var keys [][]byte
	for i := 1; i < n; i++ {
		at := int(int64(i) * int64(len(longest)) / int64(n))
		if at == 0 {
			continue
		}
		key := t.arena.at(longest[at].place).keyBytes()
		last := t.arena.at(longest[0].place).keyBytes() // no cut before the first key
		if len(keys) > 0 {
			last = keys[len(keys)-1]
		}
		// Versions of one key follow each other: a cut between them would be one key twice.
		if !bytes.Equal(last, key) {
			keys = append(keys, bytes.Clone(key))
		}
	}
	return keys
}
