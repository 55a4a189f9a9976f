package view

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// emptied has the ranges of keys in which seeks have found deletes only, so that later seeks
// skip them.
//
// Invariant: a range as of version v says that no reader at v or later sees an entry in it whose
// version is v or less. This holds in the View in which it was found, and in later ones. Four
// things follow:
//
//   - Later writes have greater versions. They are visible, whatever is known here.
//   - A reader at an older version does not use the range.
//   - Flushes and compactions make later Views. They change nothing that is known.
//   - A reader of an older View does not use the range: it may still see there what a
//     compaction has dropped since, because that expired or its keyspace was dropped. So each
//     View has its own ranges, and inherits those of the View before.
//
// A range looks like a range delete, and iterators skip it in the same way. But it deletes
// nothing, is not recorded, and history and conflict checks ignore it.
//
// It changes under the Set's mutex.
type emptied = atomic.Pointer[rangedel.Set]

const (
	mostEmptied      = 1 << 10 // ranges that are remembered
	mostEmptiedBytes = 1 << 20 // of their bounds
	fewEntries       = 128     // a walk over fewer entries is as fast as a skip
)

// noteEmptied adds a range. It keeps the bounds.
func (v *View) noteEmptied(r rangedel.Delete) {
	if !r.Valid() {
		return
	}
	old := v.emptied.Load()
	switch {
	case old == nil:
		v.emptied.Store(rangedel.EmptiedSet(r))
	case old.Len() < mostEmptied && old.Bytes() < mostEmptiedBytes:
		v.emptied.Store(old.With(r))
	default:
		v.emptied.Store(newerHalf(old).With(r))
	}
}

// newerHalf keeps the ranges with the newest versions, up to half of what may be remembered.
// Of ranges of the same place it keeps one.
func newerHalf(s *rangedel.Set) *rangedel.Set {
	var flat []rangedel.Delete
	sum := 0
	_ = rangedel.NewCover(entry.MaxVersion, s).Flatten([]byte{0}, nil, func(r rangedel.Delete) error {
		flat = append(flat, rangedel.Delete{Lo: bytes.Clone(r.Lo), Hi: bytes.Clone(r.Hi), Version: r.Version})
		return nil
	})
	slices.SortFunc(flat, func(a, b rangedel.Delete) int { return rangedel.Compare(b, a) })
	// Half, not all but one: else each note would flatten the whole set again.
	for i, r := range flat {
		if sum += len(r.Lo) + len(r.Hi); i > 0 && (i >= mostEmptied/2 || sum > mostEmptiedBytes/2) {
			flat = flat[:i]
			break
		}
	}
	return rangedel.EmptiedSet(flat...)
}
