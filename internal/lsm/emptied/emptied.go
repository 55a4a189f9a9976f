// Package emptied finds and remembers ranges of keys in which deletes have left
// nothing visible, so that seeks skip them.
//
// # What a range says
//
// Invariant: a Range [Lo, Hi) as of version v says that no reader at v or later
// sees an entry in it whose version is v or less. This holds in the View in which
// the range was found, and in later ones. Four things follow:
//
//   - Later writes have greater versions. They are visible, whatever is known here.
//   - A reader at an older version does not use the range.
//   - Flushes and compactions make later Views. They change nothing that is known.
//   - A reader of an older View does not use the range: it may still see there what
//     a compaction has dropped since, because that expired or its keyspace was
//     dropped. So each View has its own Known, and inherits from the View before.
//
// A Range looks like a range tombstone, and iterators skip it in the same way. But
// it deletes nothing, is not recorded, and history and conflict checks ignore it.
//
// # Where ranges come from
//
//   - A Tracker counts deletes and searches around the late ones. This finds what is
//     deleted in the order of keys, before a seek has to walk it.
//   - A seek that had to walk past many deleted keys notes them (Known.Note).
//   - A transaction larger than its memory is searched before it commits.
package emptied

import (
	"bytes"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// Range is a range of keys that is emptied as of a version; tombstone.Emptied makes one.
type Range = rangedel.Tombstone

const (
	mostRanges = 1 << 10 // that are remembered of searches, and of seeks
	mostNoted  = 1 << 20 // bytes of the bounds of those of seeks
)

// Known has the emptied ranges that are known in one View. AppendTo may be called at any time,
// all other methods under the lock that guards the installation of Views.
type Known struct {
	searched atomic.Pointer[searched]
	noted    atomic.Pointer[rangedel.Set]
}

// searched has the ranges of the last search, and those of the search before it. Readers that
// were pinned between the two are too old to use the ranges of the last one.
type searched struct{ last, before *rangedel.Set }

// Inherit adds to k the ranges that an older View knows.
func (k *Known) Inherit(older *Known) {
	k.searched.Store(older.searched.Load())
	k.noted.Store(older.noted.Load())
}

// any reports whether there may be ranges.
func (k *Known) any() bool {
	s := k.searched.Load()
	return s != nil && s.last != nil || k.noted.Load() != nil
}

// AppendTo appends the ranges as sources of a tombstone.Cover.
func (k *Known) AppendTo(sources []rangedel.Source) []rangedel.Source {
	if noted := k.noted.Load(); noted != nil {
		sources = append(sources, noted)
	}
	if s := k.searched.Load(); s != nil && (s.last != nil || s.before != nil) {
		sources = append(sources, s.last, s.before) // a Cover leaves nil out
	}
	return sources
}

// Note adds a range that a reader of this View, or of an older one, has walked past.
// It keeps the bounds.
func (k *Known) Note(r Range) {
	if !r.Valid() {
		return
	}
	old := k.noted.Load()
	switch {
	case old == nil:
		k.noted.Store(rangedel.EmptiedSet(r))
	case old.Len() < mostRanges && old.Bytes() < mostNoted:
		k.noted.Store(old.With(r))
	default:
		k.noted.Store(newerHalf(old).With(r))
	}
}

// newerHalf keeps the ranges with the newest versions, up to half of what may be remembered.
// Of ranges of the same place it keeps one.
func newerHalf(s *rangedel.Set) *rangedel.Set {
	var flat []Range
	sum := 0
	_ = rangedel.NewCover(entry.MaxVersion, s).Flatten([]byte{0}, nil, func(r Range) error {
		flat = append(flat, Range{Lo: bytes.Clone(r.Lo), Hi: bytes.Clone(r.Hi), Version: r.Version})
		return nil
	})
	slices.SortFunc(flat, func(a, b Range) int { return rangedel.Compare(b, a) })
	for i, r := range flat {
		if sum += len(r.Lo) + len(r.Hi); i > 0 && (i >= mostRanges/2 || sum > mostNoted/2) {
			flat = flat[:i]
			break
		}
	}
	return rangedel.EmptiedSet(flat...)
}

// Change says which ranges the current View learns or forgets. The zero Change changes
// nothing.
type Change struct {
	searched *searched // nil = as before
	notes    []Range

	pruned      bool // replace was by remain, unless other ranges were noted meanwhile
	was, remain *rangedel.Set
}

// Apply applies c to k, which must be that of the current View.
func (k *Known) Apply(c Change) {
	if c.searched != nil {
		k.searched.Store(c.searched)
	}
	if c.pruned {
		k.noted.CompareAndSwap(c.was, c.remain)
	}
	for _, r := range c.notes {
		k.Note(r)
	}
}

// Within reports whether one of the ranges has the key. The ranges are in order.
func Within(ranges []Range, key []byte) bool {
	i := sort.Search(len(ranges), func(i int) bool { return bytes.Compare(ranges[i].Hi, key) > 0 })
	return i < len(ranges) && bytes.Compare(ranges[i].Lo, key) <= 0
}

// Cut cuts keys out of ranges, both in order. Ranges without such a key stay whole. Of the
// others, the parts stay for which worth returns true.
func Cut(ranges []Range, keys [][]byte, worth func(lo, hi []byte) bool) (parts []Range) {
	slices.SortFunc(keys, bytes.Compare)
	for _, r := range ranges {
		lo, whole := r.Lo, true
		for ; len(keys) > 0 && bytes.Compare(keys[0], r.Hi) < 0; keys = keys[1:] {
			if bytes.Compare(keys[0], lo) < 0 {
				continue // before the range, or once more the last key
			}
			if part := (Range{Lo: lo, Hi: bytes.Clone(keys[0]), Version: r.Version}); part.Valid() && worth(part.Lo, part.Hi) {
				parts = append(parts, part)
			}
			lo, whole = append(bytes.Clone(keys[0]), 0), false
		}
		if part := (Range{Lo: lo, Hi: r.Hi, Version: r.Version}); whole || part.Valid() && worth(part.Lo, part.Hi) {
			parts = append(parts, part)
		}
	}
	return parts
}

// join adds a range to ordered ranges of the same version, and makes one range of those that
// meet.
func join(ranges []Range, r Range) []Range {
	from := sort.Search(len(ranges), func(i int) bool { return bytes.Compare(ranges[i].Hi, r.Lo) >= 0 })
	to := from
	for ; to < len(ranges) && bytes.Compare(ranges[to].Lo, r.Hi) <= 0; to++ {
		r.Lo = slices.MinFunc([][]byte{r.Lo, ranges[to].Lo}, bytes.Compare)
		r.Hi = slices.MaxFunc([][]byte{r.Hi, ranges[to].Hi}, bytes.Compare)
	}
	return slices.Replace(ranges, from, to, r)
}
