package rangedel

import "github.com/brockdb/brock/internal/base/entry"

// Emptied says that deletes have left nothing of the keys in [lo, hi) as of version v: readers at
// v, and later ones, may skip every entry there up to v. It keeps the bounds.
func Emptied(lo, hi []byte, v entry.Version) Delete {
	return Delete{Lo: lo, Hi: hi, Version: v + 1}
}

// EmptiedSet returns the set of ranges that Emptied made. In a Cover, a range that is empty as of
// version v counts for readers at v and later, and covers entries up to v: its range delete has
// version v+1, so Find looks one version further than the reader sees.
func EmptiedSet(ranges ...Delete) *Set {
	s := New(ranges...)
	if s != nil {
		s.ahead = 1
	}
	return s
}
