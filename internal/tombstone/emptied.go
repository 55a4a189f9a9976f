package tombstone

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/entry"
)

// Emptied says that deletes have left nothing of the keys in [lo, hi) as of version v:
// readers at v, and later ones, may skip every entry there up to v. It keeps the bounds.
func Emptied(lo, hi []byte, v entry.Version) Tombstone {
	return Tombstone{Lo: lo, Hi: hi, Version: v + 1}
}

// EmptiedSet returns the set of ranges that Emptied made. In a Cover it counts as they
// say: what a tombstone of version v+1 covers has version v at most, and a reader at v
// may skip it.
func EmptiedSet(ranges ...Tombstone) *Set {
	s := level(ranges)
	if s == nil {
		s = New(ranges...)
	}
	if s != nil {
		s.ahead = 1
	}
	return s
}

// level returns the set of tombstones of one version that are apart from each other
// and in order, without laying one over the other; nil if they aren't.
func level(tombstones []Tombstone) *Set {
	if len(tombstones) == 0 {
		return nil
	}
	tombstones = slices.Clone(tombstones)
	v := tombstones[0].Version
	s := &Set{count: len(tombstones), min: v, max: v}
	leaves := make([]node, len(tombstones))
	top := &node{spans: make(spans, 0, len(tombstones)), min: v, max: v, weight: len(tombstones), children: make([]*node, len(tombstones))}
	for i, t := range tombstones {
		if t.Version != v || i > 0 && bytes.Compare(tombstones[i-1].Hi, t.Lo) > 0 {
			return nil
		}
		top.spans = top.spans.add(t)
		leaves[i] = node{spans: tombstones[i : i+1 : i+1], min: v, max: v, weight: 1}
		top.children[i] = &leaves[i]
		s.bytes += len(t.Lo) + len(t.Hi)
	}
	if s.roots = []*node{top}; len(tombstones) == 1 {
		s.roots[0] = top.children[0]
	}
	return s
}
