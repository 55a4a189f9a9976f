package rangedel

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
)

// Set is a set of tombstones in memory, which never changes: With makes the next one.
// The nil Set is empty. Any number of goroutines may use a Set.
//
// It is a forest, grown as in the logarithmic method (Bentley and Saxe, "Decomposable
// Searching Problems I", J. Algorithms 1980). A leaf is one tombstone; a node above
// lays its children over each other, so that one search finds the newest of many
// tombstones at a key. Its children are searched only where that one is newer than
// the reader's version. Adding n tombstones makes about n·log n spans in all, however
// they overlap: cutting each range at the bounds of all others would make n².
//
// The shape of the forest follows from the number of tombstones alone: node i of level
// k has those from i·fanout^k on. So the nodes of a level are kept as one array, which
// sets that were made one from the other share.
type Set struct {
	list   list
	levels []level // levels[k-1] is level k; the leaves are list
	shared *int    // tombstones of the longest of the sets that share the arrays
	bytes  int
	min    entry.Version
	max    entry.Version
	ahead  entry.Version // 1: of emptied ranges, which readers see from the version before on
}

// level is all nodes of one level, in the order of their tombstones.
type level struct {
	spans    []span
	ends     []uint32   // where the spans of each node end
	versions []versions // of the tombstones below each node
}

type versions struct{ min, max entry.Version }

// fanout is how many nodes of one level are laid over each other by one of the next.
const fanout = 4

// mostLevels bounds the work of one With: a node of the highest level has 4^7 = 16,384
// tombstones, which are laid over each other in some milliseconds.
const mostLevels = 7

// New returns the set of the tombstones; it keeps their bounds.
func New(tombstones ...Tombstone) *Set {
	if len(tombstones) == 0 {
		return nil
	}
	s := &Set{shared: new(int), list: make(list, 0, len(tombstones))}
	for _, t := range tombstones {
		s.addDirect(t)
	}
	return s
}

// With returns the set that has t too; it keeps t's bounds. Calls of With on sets that were
// made from one another must not run together.
func (s *Set) With(t Tombstone) *Set {
	n := &Set{shared: new(int)}
	if s != nil {
		*n = *s
		n.levels = slices.Clone(s.levels)
	}
	if *n.shared > len(n.list) {
		// There is a longer set already, which has the rest of the arrays.
		n.unshare()
	}
	n.addDirect(t)
	return n
}

// unshare makes the next tombstone go to arrays of its own.
func (s *Set) unshare() {
	s.shared, s.list = new(int), slices.Clip(s.list)
	for k := range s.levels {
		l := &s.levels[k]
		l.spans, l.ends, l.versions = slices.Clip(l.spans), slices.Clip(l.ends), slices.Clip(l.versions)
	}
}

// addDirect adds t to s itself, which nobody else has yet.
func (s *Set) addDirect(t Tombstone) {
	if len(s.list) == 0 {
		s.min = t.Version
	}
	s.list = append(s.list, t)
	s.min, s.max = min(s.min, t.Version), max(s.max, t.Version)
	s.bytes += len(t.Lo) + len(t.Hi)
	*s.shared = len(s.list)
	for k, n := 1, len(s.list); k <= mostLevels && n%fanout == 0; k++ {
		n /= fanout
		s.joinChildren(k, n-1)
	}
}

// joinChildren makes node i of level k of its children.
func (s *Set) joinChildren(k, i int) {
	if k > len(s.levels) {
		s.levels = append(s.levels, level{})
	}
	var leaves [fanout][1]span
	var spans []span
	v := s.versions(k-1, i*fanout)
	for j := range fanout {
		child := i*fanout + j
		below := s.versions(k-1, child)
		v = versions{min(v.min, below.min), max(v.max, below.max)}
		spans = s.list.over(spans, s.node(k-1, child, &leaves[j]))
	}
	l := &s.levels[k-1]
	l.spans = append(l.spans, spans...)
	l.ends = append(l.ends, uint32(len(l.spans)))
	l.versions = append(l.versions, v)
}

// node returns the spans of node i of level k. That of a leaf is made in leaf.
func (s *Set) node(k, i int, leaf *[1]span) []span {
	if k == 0 {
		leaf[0] = span{bound(2 * i), bound(2*i + 1), uint32(i)}
		return leaf[:]
	}
	l, from := &s.levels[k-1], uint32(0)
	if i > 0 {
		from = l.ends[i-1]
	}
	return l.spans[from:l.ends[i]]
}

func (s *Set) versions(k, i int) versions {
	if k == 0 {
		v := s.list[i].Version
		return versions{v, v}
	}
	return s.levels[k-1].versions[i]
}

// roots returns which nodes of level k have no parent.
func (s *Set) roots(k int) (from, to int) {
	to = len(s.list)
	if k > 0 {
		to = len(s.levels[k-1].ends)
	}
	if k < len(s.levels) {
		from = len(s.levels[k].ends) * fanout
	}
	return from, to
}

// Len is the number of tombstones.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.list)
}

// Bytes is the sum of the bounds' lengths.
func (s *Set) Bytes() int {
	if s == nil {
		return 0
	}
	return s.bytes
}

// Memory is how many bytes the set takes beside the bounds.
func (s *Set) Memory() (n int) {
	if s == nil {
		return 0
	}
	const tombstone, span, end, versions = 56, 12, 4, 16 // bytes of one
	n = cap(s.list) * tombstone
	for k := range s.levels {
		l := &s.levels[k]
		n += cap(l.spans)*span + cap(l.ends)*end + cap(l.versions)*versions
	}
	return n
}

// MaxVersion is the greatest version of a tombstone; 0 if there is none.
func (s *Set) MaxVersion() entry.Version {
	if s == nil {
		return 0
	}
	return s.max
}

// Versions are the least and the greatest version of a tombstone. Of emptied ranges, least is
// that of the oldest reader that may use one.
func (s *Set) Versions() (least, greatest entry.Version) {
	if s == nil {
		return failed, 0
	}
	return s.min - s.ahead, s.max
}

// All returns the tombstones in the order of Compare, each once.
func (s *Set) All() []Tombstone {
	if s == nil {
		return nil
	}
	all := slices.Clone(s.list)
	slices.SortFunc(all, Compare)
	return slices.CompactFunc(all, func(a, b Tombstone) bool { return Compare(a, b) == 0 })
}

// Since calls fn for the tombstones newer than v.
func (s *Set) Since(v entry.Version, fn func(Tombstone) error) error {
	if s == nil {
		return nil
	}
	// The nodes of the highest level have the first tombstones.
	for k := len(s.levels); k >= 0; k-- {
		from, to := s.roots(k)
		for i := from; i < to; i++ {
			if err := s.since(k, i, v, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// since is Since for the tombstones below node i of level k.
func (s *Set) since(k, i int, v entry.Version, fn func(Tombstone) error) error {
	if s.versions(k, i).max <= v {
		return nil
	}
	if k == 0 {
		return fn(s.list[i])
	}
	for j := range fanout {
		if err := s.since(k-1, i*fanout+j, v, fn); err != nil {
			return err
		}
	}
	return nil
}

// Newest returns the newest version, up to at, of a tombstone that covers key; 0
// if there is none.
func (s *Set) Newest(key []byte, at entry.Version) entry.Version { return s.newestAround(key, at, nil) }

// Find is the method of a Source. An emptied range counts for readers from the version on as
// of which it is empty.
func (s *Set) Find(key []byte, at entry.Version, around *Stretch) (entry.Version, error) {
	return s.newestAround(key, at+s.ahead, around), nil
}

// newestAround is Newest, and limits around, unless that is nil.
func (s *Set) newestAround(key []byte, at entry.Version, around *Stretch) (v entry.Version) {
	if s == nil {
		return 0
	}
	// The newest tombstones are asked first: what is older than the answer does not
	// limit the stretch.
	for k := range len(s.levels) + 1 {
		from, to := s.roots(k)
		for i := to - 1; i >= from; i-- {
			v = s.lookInNode(k, i, key, at, v, around)
		}
	}
	return v
}

// lookInNode returns the greater of v and what newest finds in node i of level k.
func (s *Set) lookInNode(k, i int, key []byte, at, v entry.Version, around *Stretch) entry.Version {
	if n := s.versions(k, i); n.max <= v || n.min > at {
		return v
	}
	// The span has the newest of all below it: older ones count only for a reader
	// that doesn't see it.
	var leaf [1]span
	spans := s.node(k, i, &leaf)
	j, covered := s.list.findSpan(spans, key)
	if !covered {
		if around != nil {
			s.gap(spans, j, around)
		}
		return v
	}
	t := spans[j]
	if around != nil {
		around.Within(s.list.boundKey(t.lo), s.list.boundKey(t.hi))
	}
	if newest := s.list.version(t); newest <= at {
		return max(v, newest)
	}
	for child := i*fanout + fanout - 1; k > 0 && child >= i*fanout; child-- {
		v = s.lookInNode(k-1, child, key, at, v, around)
	}
	return v
}

// gap limits a stretch to the gap before the j-th span.
func (s *Set) gap(spans []span, j int, around *Stretch) {
	var lo, hi []byte
	if j > 0 {
		lo = s.list.boundKey(spans[j-1].hi)
	}
	if j < len(spans) {
		hi = s.list.boundKey(spans[j].lo)
	}
	around.Within(lo, hi)
}

// ChangedSince reports whether a tombstone newer than since covers a key in
// [lo, hi); a nil hi is no bound.
func (s *Set) ChangedSince(lo, hi []byte, since entry.Version) bool {
	if s == nil || s.max <= since || hi != nil && bytes.Compare(lo, hi) >= 0 {
		return false
	}
	for k := range len(s.levels) + 1 {
		from, to := s.roots(k)
		for i := to - 1; i >= from; i-- {
			if s.changed(k, i, lo, hi, since) {
				return true
			}
		}
	}
	return false
}

// changed is ChangedSince for node i of level k.
func (s *Set) changed(k, i int, lo, hi []byte, since entry.Version) bool {
	var leaf [1]span
	n := s.versions(k, i)
	switch {
	case n.max <= since || !s.list.overlaps(s.node(k, i, &leaf), lo, hi):
		return false
	case n.min > since || k == 0:
		return true
	}
	for child := i*fanout + fanout - 1; child >= i*fanout; child-- {
		if s.changed(k-1, child, lo, hi, since) {
			return true
		}
	}
	return false
}
