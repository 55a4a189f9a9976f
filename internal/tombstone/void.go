package tombstone

import "github.com/brockdb/brock/internal/entry"

// Void says that nothing is left of the keys in [lo, hi) as of a version: each
// was deleted by itself. Readers at that version, and later ones, need not look at
// any entry there up to it. It keeps the bounds.
func Void(lo, hi []byte, v entry.Version) Tombstone {
	return Tombstone{Lo: lo, Hi: hi, Version: v + 1}
}

// Voids returns the set of voids of which Void made the tombstones. In a Cover it
// counts as they say: what a tombstone of version v+1 covers has version v at most,
// and a reader at v may skip it.
func Voids(voids ...Tombstone) *Set {
	s := New(voids...)
	if s != nil {
		s.ahead = 1
	}
	return s
}
