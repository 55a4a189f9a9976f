package memtable

import (
	"bytes"

	"github.com/brockdb/brock/internal/entry"
)

// scanMax is how many fresh entries are scanned rather than sorted into a view.
const scanMax = 1 << 10

// ChangedSince reports whether any entry of a key in [lo, hi) is newer than
// since; a nil hi is no bound.
func (t *Table) ChangedSince(lo, hi []byte, since entry.Version) bool {
	if entry.Version(t.marks.newest.Load()) <= since {
		return false
	}
	extent := t.extent.Load()
	m, ok := t.marks.last(since)
	if extent == 0 || !ok {
		return false
	}
	end := ref(extent & refMask)
	if m.place >= end {
		return false
	}
	fresh := int(extent>>refBits) - m.count
	// Many are cheaper to find in a view, if extending it makes nobody wait.
	if fresh > scanMax && t.extending.TryLock() {
		v := t.extendLocked()
		t.extending.Unlock()
		if n := v.within(lo, hi); n <= fresh {
			return v.changed(lo, hi, since)
		}
	}
	found := false
	t.arena.walk(m.place, end, func(_ ref, r *record) bool {
		found = r.version() > since && inRange(r.keyBytes(), lo, hi)
		return !found
	})
	return found
}

// Arrivals calls fn for each entry with a version after since and up to another one,
// in the order of their arrival. The key is valid until Release.
func (t *Table) Arrivals(since, upTo entry.Version, fn func(key []byte, kind entry.Kind)) {
	extent := t.extent.Load()
	m, ok := t.marks.last(since)
	if end := ref(extent & refMask); extent != 0 && ok && m.place < end {
		t.arena.walk(m.place, end, func(_ ref, r *record) bool {
			if v := r.version(); v > since && v <= upTo {
				fn(r.keyBytes(), entry.Kind(r.word&kindMask))
			}
			return true
		})
	}
}

func inRange(key, lo, hi []byte) bool {
	return bytes.Compare(key, lo) >= 0 && (hi == nil || bytes.Compare(key, hi) < 0)
}

// Between estimates how many entries lie in [lo, hi), from the view of the latest
// Iterator; a nil hi is no bound.
func (t *Table) Between(lo, hi []byte) int { return t.view.Load().within(lo, hi) }

// Size is how many entries have keys in [lo, hi), all versions counted, and an
// estimate of the memory they take; a nil hi is no bound. It sorts what was
// added since the last view.
func (t *Table) Size(lo, hi []byte) (entries, bytes uint64) {
	v := t.extend()
	if v.count == 0 {
		return 0, 0
	}
	entries = uint64(v.within(lo, hi))
	return entries, uint64(float64(t.Bytes()) * float64(entries) / float64(v.count))
}

// Split returns at most n-1 keys, in order, that cut the entries with keys in
// [lo, hi) into parts of about the same size; a nil hi is no bound. It looks at
// most entries, not at all: what was added last may lie in another part.
func (t *Table) Split(lo, hi []byte, n int) [][]byte {
	// The longest level has nearly all entries, so its parts are about those of all.
	v := t.extend()
	var longest []pair
	for _, level := range v.levels {
		if part := v.cut(level, lo, hi); len(part) > len(longest) {
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
		if !bytes.Equal(last, key) {
			keys = append(keys, bytes.Clone(key))
		}
	}
	return keys
}
