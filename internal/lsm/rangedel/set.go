package rangedel

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
)

// Set is a set of range deletes in memory, which never changes: With makes the next one. The nil
// Set is empty. Any number of goroutines may use a Set.
//
// It is a forest, grown as in the logarithmic method (Bentley and Saxe, "Decomposable Searching
// Problems I", J. Algorithms 1980). A leaf is one range delete; a node above lays its children over
// each other, so that one search finds the newest of many range deletes at a key. Its children are
// searched only where that one is newer than the reader's version. Adding n range deletes makes
// about n·log n spans in all, however they overlap: cutting each range at the bounds of all others
// would make n².
//
// The shape of the forest follows from the number of range deletes alone: node i of level k has
// those from i·fanout^k on. So the nodes of a level are kept as one array, which sets that were
// made one from the other share.
type Set struct {
	list   list          // the range deletes, in order of arrival
	levels []level       // levels[k-1] is level k; the leaves are list
	shared *int          // length of the longest of the sets that share the arrays
	bytes  int           // sum of the bounds' lengths
	min    entry.Version // least version
	max    entry.Version // greatest version
	ahead  entry.Version // 1 for emptied ranges, which readers see one version earlier; else 0
}

// level is all nodes of one level, in the order of their range deletes.
type level struct {
	spans    []span     // spans of all nodes, one node behind the other
	ends     []uint32   // where the spans of each node end
	versions []versions // of the range deletes below each node
}

// versions is the least and the greatest version of some range deletes.
type versions struct{ min, max entry.Version }

// fanout is how many nodes of one level are laid over each other by one of the next.
const fanout = 4

// mostLevels bounds the work of one With: a node of the highest level has 4^7 = 16,384 range
// deletes, which are laid over each other in some milliseconds.
const mostLevels = 7

// New returns the set of the range deletes; it keeps their bounds.
func New(rangeDeletes ...Delete) *Set {
	if len(rangeDeletes) == 0 {
		return nil
	}
	s := &Set{shared: new(int), list: make(list, 0, len(rangeDeletes))}
	for _, t := range rangeDeletes {
		s.addDirect(t)
	}
	return s
}

// With returns the set that has t too; it keeps t's bounds. Calls of With on sets that were
// made from one another must not run together.
func (s *Set) With(t Delete) *Set {
	if s == nil {
		return New(t)
	}
	// There is a longer set already, which has the rest of the arrays: to append in place would
	// overwrite what it has.
	if *s.shared > len(s.list) {
		n := New(append(slices.Clip(s.list), t)...)
		n.ahead = s.ahead
		return n
	}
	n := *s
	// The headers of levels are copied, not the arrays: n may grow them in place.
	n.levels = slices.Clone(s.levels)
	n.addDirect(t)
	return &n
}

// addDirect adds t to s itself, which nobody else has yet.
func (s *Set) addDirect(t Delete) {
	if len(s.list) == 0 {
		s.min = t.Version
	}
	s.list = append(s.list, t)
	s.min, s.max = min(s.min, t.Version), max(s.max, t.Version)
	s.bytes += len(t.Lo) + len(t.Hi)
	*s.shared = len(s.list)
	// Each full group of children becomes a node, as a carry when one counts in base fanout.
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
	v := s.nodeVersions(k-1, i*fanout)
	for j := range fanout {
		child := i*fanout + j
		below := s.nodeVersions(k-1, child)
		v = versions{min(v.min, below.min), max(v.max, below.max)}
		// Newer children come later, but versions decide, not the order.
		spans = s.list.layOver(spans, s.nodeSpans(k-1, child, &leaves[j]))
	}
	l := &s.levels[k-1]
	l.spans = append(l.spans, spans...)
	l.ends = append(l.ends, uint32(len(l.spans)))
	l.versions = append(l.versions, v)
}

// nodeSpans returns the spans of node i of level k. That of a leaf is made in leaf.
func (s *Set) nodeSpans(k, i int, leaf *[1]span) []span {
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

func (s *Set) nodeVersions(k, i int) versions {
	if k == 0 {
		v := s.list[i].Version
		return versions{v, v}
	}
	return s.levels[k-1].versions[i]
}

// findRoots returns which nodes of level k have no parent. They are the newest range deletes of the
// level.
func (s *Set) findRoots(k int) (from, to int) {
	to = len(s.list)
	if k > 0 {
		to = len(s.levels[k-1].ends)
	}
	if k < len(s.levels) {
		from = len(s.levels[k].ends) * fanout
	}
	return from, to
}

// orNone returns s, and for nil an empty Set.
func (s *Set) orNone() *Set {
	if s == nil {
		return new(Set)
	}
	return s
}

// Len is the number of range deletes.
func (s *Set) Len() int { return len(s.orNone().list) }

// Bytes is the sum of the bounds' lengths.
func (s *Set) Bytes() int { return s.orNone().bytes }

// Memory is how many bytes the set takes beside the bounds.
func (s *Set) Memory() (n int) {
	s = s.orNone()
	const rangeDelete, span, end, versions = 56, 12, 4, 16 // bytes of one
	n = cap(s.list) * rangeDelete
	for k := range s.levels {
		l := &s.levels[k]
		n += cap(l.spans)*span + cap(l.ends)*end + cap(l.versions)*versions
	}
	return n
}

// MaxVersion is the greatest version of a range delete; 0 if there is none.
func (s *Set) MaxVersion() entry.Version { return s.orNone().max }

// Versions are the least and the greatest version of a range delete. Of emptied ranges, least is
// that of the oldest reader that may use one.
func (s *Set) Versions() (least, greatest entry.Version) {
	if s == nil {
		return failed, 0
	}
	return s.min - s.ahead, s.max
}

// All returns the range deletes in the order of Compare, each once.
func (s *Set) All() []Delete {
	all := slices.Clone(s.orNone().list)
	slices.SortFunc(all, Compare)
	return slices.CompactFunc(all, func(a, b Delete) bool { return Compare(a, b) == 0 })
}

// Since calls fn for the range deletes newer than v.
func (s *Set) Since(v entry.Version, fn func(Delete) error) error {
	s = s.orNone()
	// The nodes of the highest level have the first range deletes, so this is the order of arrival.
	for k := len(s.levels); k >= 0; k-- {
		from, to := s.findRoots(k)
		for i := from; i < to; i++ {
			if err := s.eachSince(k, i, v, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachSince is Since for the range deletes below node i of level k.
func (s *Set) eachSince(k, i int, v entry.Version, fn func(Delete) error) error {
	if s.nodeVersions(k, i).max <= v {
		return nil
	}
	if k == 0 {
		return fn(s.list[i])
	}
	for j := range fanout {
		if err := s.eachSince(k-1, i*fanout+j, v, fn); err != nil {
			return err
		}
	}
	return nil
}

// Newest returns the newest version, up to at, of a range delete that covers key; 0 if there is
// none.
func (s *Set) Newest(key []byte, at entry.Version) entry.Version { return s.newestAround(key, at, nil) }

// Find is the method of a Source. An emptied range counts for readers from the version on as
// of which it is empty.
func (s *Set) Find(key []byte, at entry.Version, around *Stretch) (entry.Version, error) {
	return s.newestAround(key, at+s.ahead, around), nil
}

// newestAround is Newest, and limits around, unless that is nil, to where the answer is the same.
func (s *Set) newestAround(key []byte, at entry.Version, around *Stretch) (v entry.Version) {
	if s == nil {
		return 0
	}
	// The newest range deletes are asked first: what is older than the answer does not limit the
	// stretch.
	for k := range len(s.levels) + 1 {
		from, to := s.findRoots(k)
		for i := to - 1; i >= from; i-- {
			v = s.lookInNode(k, i, key, at, v, around)
		}
	}
	return v
}

// lookInNode returns the greater of v and what Newest finds in node i of level k.
func (s *Set) lookInNode(k, i int, key []byte, at, v entry.Version, around *Stretch) entry.Version {
	// Nothing newer than v, or nothing that the reader sees.
	if n := s.nodeVersions(k, i); n.max <= v || n.min > at {
		return v
	}
	// The span has the newest of all below it: older ones count only for a reader
	// that doesn't see it.
	var leaf [1]span
	spans := s.nodeSpans(k, i, &leaf)
	j, covered := s.list.findSpan(spans, key)
	if !covered {
		// No child covers the key either, so all of the gap has this answer.
		if around != nil {
			s.limitToGap(spans, j, around)
		}
		return v
	}
	t := spans[j]
	if around != nil {
		around.Within(s.list.boundKey(t.lo), s.list.boundKey(t.hi))
	}
	// The newest of all below is visible, so no child can have a better answer.
	if newest := s.list.version(t); newest <= at {
		return max(v, newest)
	}
	for child := i*fanout + fanout - 1; k > 0 && child >= i*fanout; child-- {
		v = s.lookInNode(k-1, child, key, at, v, around)
	}
	return v
}

// limitToGap limits a stretch to the gap before the j-th span.
func (s *Set) limitToGap(spans []span, j int, around *Stretch) {
	var lo, hi []byte
	if j > 0 {
		lo = s.list.boundKey(spans[j-1].hi)
	}
	if j < len(spans) {
		hi = s.list.boundKey(spans[j].lo)
	}
	around.Within(lo, hi)
}

// ChangedSince reports whether a range delete newer than since covers a key in [lo, hi); a nil hi
// is no bound.
func (s *Set) ChangedSince(lo, hi []byte, since entry.Version) bool {
	if s = s.orNone(); s.max <= since || hi != nil && bytes.Compare(lo, hi) >= 0 {
		return false
	}
	for k := range len(s.levels) + 1 {
		from, to := s.findRoots(k)
		for i := to - 1; i >= from; i-- {
			if s.changedBelow(k, i, lo, hi, since) {
				return true
			}
		}
	}
	return false
}

// changedBelow is ChangedSince for node i of level k.
func (s *Set) changedBelow(k, i int, lo, hi []byte, since entry.Version) bool {
	var leaf [1]span
	n := s.nodeVersions(k, i)
	switch {
	case n.max <= since || !s.list.overlapsRange(s.nodeSpans(k, i, &leaf), lo, hi):
		return false
	// All below are newer, or it is a single one: one that overlaps is enough.
	case n.min > since || k == 0:
		return true
	}
	for child := i*fanout + fanout - 1; child >= i*fanout; child-- {
		if s.changedBelow(k-1, child, lo, hi, since) {
			return true
		}
	}
	return false
}
