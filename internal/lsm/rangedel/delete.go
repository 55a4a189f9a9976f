// Package rangedel holds range deletes (Pebble: range deletions):
// each deletes all older entries of a range of keys. A Source finds the newest range delete over a
// key that a reader sees. A Set is a Source in memory; a run is one, too, for the range deletes in
// its files.
package rangedel

import (
	"bytes"
	"cmp"

	"github.com/brockdb/brock/internal/base/entry"
)

// Delete is one range delete: it deletes every entry with a key in [Lo, Hi) and a version less
// than Version. Bounds are stored keys: neither is empty, and Lo is before Hi. All keys between
// them are of one keyspace. Keyspaces retain different versions, and are dropped one by one, so
// what is needed of a range delete over two of them could not be said.
type Delete struct {
	Lo, Hi  []byte
	Version entry.Version
}

// Valid reports whether bounds and version are within their limits, and the bounds in one keyspace.
// A range delete that is not committed yet has version 0, which is valid. Files of range deletes
// are neither written nor read with one that is not valid.
func (t *Delete) Valid() bool {
	return len(t.Lo) > 0 && len(t.Lo) <= entry.MaxKey && len(t.Hi) <= entry.MaxKey &&
		bytes.Compare(t.Lo, t.Hi) < 0 && t.Version <= entry.MaxVersion && entry.OneKeyspace(t.Lo, t.Hi)
}

// sameKeyspace reports whether the keys at and behind two lower bounds are of one keyspace, so that
// ranges which begin there can be joined.
func sameKeyspace(a, b []byte) bool {
	n := entry.PrefixLen(a[0])
	return len(a) >= n && len(b) >= n && bytes.Equal(a[:n], b[:n])
}

// Compare orders range deletes by version, then by bounds: the order in which runs keep them.
func Compare(a, b Delete) int {
	return cmp.Or(cmp.Compare(a.Version, b.Version), bytes.Compare(a.Lo, b.Lo), bytes.Compare(a.Hi, b.Hi))
}

// Source is range deletes that can be searched. Any number of goroutines may use it. A Source in a
// file must be called below a pageio.Guard.
type Source interface {
	// Versions are the least and the greatest version of a range delete; without any, the
	// least is above all.
	Versions() (least, greatest entry.Version)
	// Find returns the newest version, up to at, of a range delete that covers key; 0 if
	// there is none. It limits s, unless that is nil, to keys for which it returns the same.
	Find(key []byte, at entry.Version, s *Stretch) (entry.Version, error)
	// Ordered walks the range deletes that are newer than v. Those of a run that all readers see,
	// at each place the newest, are left out.
	Ordered(v entry.Version) Sequence
}

// Stretch is a range of keys around one key. It keeps copies of its bounds; without
// bounds, as the zero Stretch, it is all keys.
type Stretch struct {
	lo, hi []byte // empty: no bound
	end    *held  // where hi is kept; nil: on the Go heap
}

// forward reports whether s keeps its upper bound only, as keys are asked for in order.
func (s *Stretch) forward() bool { return s.end != nil }

// clearBounds takes the bounds away, and keeps their memory.
func (s *Stretch) clearBounds() { s.lo, s.hi = s.lo[:0], s.hi[:0] }

// Within limits s to keys in [lo, hi) too; nil is no bound. Nothing happens if s is nil.
func (s *Stretch) Within(lo, hi []byte) {
	if s == nil {
		return
	}
	// A walk forward never asks for what comes before, so the lower bound is not kept.
	if lo != nil && !s.forward() && (len(s.lo) == 0 || bytes.Compare(lo, s.lo) > 0) {
		s.lo = append(s.lo[:0], lo...)
	}
	if hi != nil && (len(s.hi) == 0 || bytes.Compare(hi, s.hi) < 0) {
		if s.forward() {
			s.end.copyFrom(hi)
			s.hi = s.end.key
		} else {
			s.hi = append(s.hi[:0], hi...)
		}
	}
}

// contains reports whether key is in s.
func (s *Stretch) contains(key []byte) bool {
	return (len(s.lo) == 0 || bytes.Compare(s.lo, key) <= 0) && (len(s.hi) == 0 || bytes.Compare(key, s.hi) < 0)
}

// Bounds are those of s, nil for none, until it changes.
func (s *Stretch) Bounds() (lo, hi []byte) {
	if len(s.lo) > 0 {
		lo = s.lo
	}
	if len(s.hi) > 0 {
		hi = s.hi
	}
	return lo, hi
}
