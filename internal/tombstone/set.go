package tombstone

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/entry"
)

// Set is a set of tombstones, which never changes: With makes the next one. The
// nil Set is empty. Any number of goroutines may use a Set.
//
// It is a forest, grown as in the logarithmic method (Bentley and Saxe, "Decomposable
// Searching Problems I", J. Algorithms 1980). A leaf is one tombstone; a node above
// lays its children over each other, so that one search finds the newest of many
// tombstones at a key. Its children are searched only where that one is newer than
// the reader's version. Adding n tombstones makes about n·log n spans in all, however
// they overlap: cutting each range at the bounds of all others would make n².
type Set struct {
	roots []*node // in order of arrival, ever lighter
	count int
	bytes int
	min   entry.Version
	max   entry.Version
	ahead entry.Version // 1: of emptied ranges, which readers see from the version before on
}

// node is some tombstones that arrived one after the other.
type node struct {
	spans    spans
	min, max entry.Version // of all tombstones below it
	weight   int           // how many
	children []*node       // in order of arrival; none in a leaf
}

// fanout is how many nodes of one weight are laid over each other by one.
const fanout = 4

// New returns the set of the tombstones; it keeps their bounds.
func New(tombstones ...Tombstone) *Set {
	var s *Set
	for _, t := range tombstones {
		s = s.With(t)
	}
	return s
}

// With returns the set that has t too; it keeps t's bounds.
func (s *Set) With(t Tombstone) *Set {
	n := &Set{count: 1, bytes: len(t.Lo) + len(t.Hi), min: t.Version, max: t.Version}
	if s != nil {
		n.ahead = s.ahead
		n.roots = slices.Clone(s.roots)
		n.count, n.bytes = s.count+1, s.bytes+n.bytes
		n.min, n.max = min(s.min, t.Version), max(s.max, t.Version)
	}
	// Four roots of one weight become one, so there are few roots and old ones are
	// seldom joined again.
	n.roots = append(n.roots, &node{spans: spans{t}, min: t.Version, max: t.Version, weight: 1})
	for k := len(n.roots) - fanout; k >= 0 && n.roots[k].weight == n.roots[len(n.roots)-1].weight; k = len(n.roots) - fanout {
		n.roots = append(n.roots[:k], join(n.roots[k:]))
	}
	return n
}

// join lays nodes over each other.
func join(children []*node) *node {
	n := &node{children: slices.Clone(children), min: children[0].min, max: children[0].max}
	for _, c := range children {
		n.spans = over(n.spans, c.spans)
		n.min, n.max = min(n.min, c.min), max(n.max, c.max)
		n.weight += c.weight
	}
	return n
}

// Len is the number of tombstones.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return s.count
}

// Bytes is the sum of the bounds' lengths.
func (s *Set) Bytes() int {
	if s == nil {
		return 0
	}
	return s.bytes
}

// MaxVersion is the greatest version of a tombstone; 0 if there is none.
func (s *Set) MaxVersion() entry.Version {
	if s == nil {
		return 0
	}
	return s.max
}

// All returns the tombstones in the order of Compare, each once.
func (s *Set) All() []Tombstone {
	if s == nil {
		return nil
	}
	all := make([]Tombstone, 0, s.count)
	for _, r := range s.roots {
		all = r.appendAll(all)
	}
	slices.SortFunc(all, Compare)
	return slices.CompactFunc(all, func(a, b Tombstone) bool { return Compare(a, b) == 0 })
}

func (n *node) appendAll(all []Tombstone) []Tombstone {
	if n.children == nil {
		return append(all, n.spans[0])
	}
	for _, c := range n.children {
		all = c.appendAll(all)
	}
	return all
}

// Newest returns the newest version, up to at, of a tombstone that covers key; 0
// if there is none.
func (s *Set) Newest(key []byte, at entry.Version) (v entry.Version) {
	if s == nil {
		return 0
	}
	for _, n := range slices.Backward(s.roots) {
		v = n.newest(key, at, v)
	}
	return v
}

// newest is the greater of v and what Newest finds in n.
func (n *node) newest(key []byte, at, v entry.Version) entry.Version {
	if n.max <= v || n.min > at {
		return v
	}
	// The span has the newest of all below it: older ones count only for a reader
	// that doesn't see it.
	i, covered := n.spans.find(key)
	switch {
	case !covered:
		return v
	case n.spans[i].Version <= at:
		return max(v, n.spans[i].Version)
	}
	for _, c := range slices.Backward(n.children) {
		v = c.newest(key, at, v)
	}
	return v
}

// ChangedSince reports whether a tombstone newer than since covers a key in
// [lo, hi); a nil hi is no bound.
func (s *Set) ChangedSince(lo, hi []byte, since entry.Version) bool {
	if s == nil || s.max <= since || hi != nil && bytes.Compare(lo, hi) >= 0 {
		return false
	}
	for _, n := range slices.Backward(s.roots) {
		if n.changedSince(lo, hi, since) {
			return true
		}
	}
	return false
}

func (n *node) changedSince(lo, hi []byte, since entry.Version) bool {
	switch {
	case n.max <= since || !n.spans.overlaps(lo, hi):
		return false
	case n.min > since:
		return true
	}
	return slices.ContainsFunc(n.children, func(c *node) bool { return c.changedSince(lo, hi, since) })
}

// Union returns the set of all tombstones of the sets, which are given in the
// order of their age, the oldest first.
func Union(sets ...*Set) *Set {
	sets = slices.DeleteFunc(sets, func(s *Set) bool { return s == nil })
	if len(sets) == 0 {
		return nil
	}
	union := sets[0]
	for _, s := range sets[1:] {
		for _, t := range s.All() {
			union = union.With(t)
		}
	}
	return union
}

// Flatten returns, for every place, the newest of the tombstones up to at that
// cover it, as ranges apart from each other and in order.
func Flatten(at entry.Version, sets ...*Set) []Tombstone {
	var flat spans
	for _, s := range sets {
		if s == nil {
			continue
		}
		for _, n := range s.roots {
			flat = over(flat, n.flatten(at))
		}
	}
	return flat
}

func (n *node) flatten(at entry.Version) (flat spans) {
	switch {
	case n.min > at:
		return nil
	case n.max <= at:
		return n.spans
	}
	for _, c := range n.children {
		flat = over(flat, c.flatten(at))
	}
	return flat
}
