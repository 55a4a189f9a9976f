package tombstone

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/entry"
)

// Cover is what the tombstones of several sets, up to a version, cover. It is made
// for walks that ask for one key after the other: it remembers the stretch of keys
// around the last one in which the answer is the same. It is used by one goroutine
// at a time.
type Cover struct {
	sets    []*Set
	at      entry.Version
	pending *Set // the reader's own, newer than all others; nil = none

	known   bool
	lo, hi  []byte // [lo, hi): where version holds; nil is no bound
	version entry.Version
}

// NewCover returns the Cover of the tombstones up to at; nil if there are none.
func NewCover(at entry.Version, sets ...*Set) *Cover {
	sets = slices.DeleteFunc(sets, func(s *Set) bool { return s == nil || s.min > at+s.ahead })
	if len(sets) == 0 {
		return nil
	}
	// The newest set first: once a version is found, older sets are passed over.
	slices.SortFunc(sets, func(a, b *Set) int { return cmp.Compare(b.max, a.max) })
	return &Cover{sets: sets, at: at}
}

// Pending is the version of a reader's own tombstones: above all others.
const Pending = entry.MaxVersion + 1

// WithPending returns a Cover in which the tombstones of own, whatever their
// versions, count as Pending. c may be nil.
func (c *Cover) WithPending(own *Set) *Cover {
	n := &Cover{pending: own}
	if c != nil {
		n.sets, n.at = c.sets, c.at
	}
	if len(n.sets) == 0 && own == nil {
		return nil
	}
	return n
}

// Newest returns the newest version of a tombstone that covers key; 0 if there
// is none.
func (c *Cover) Newest(key []byte) entry.Version {
	if c.known && (c.lo == nil || bytes.Compare(c.lo, key) <= 0) && (c.hi == nil || bytes.Compare(key, c.hi) < 0) {
		return c.version
	}
	c.look(key)
	return c.version
}

// Before returns the newest version less than v of a tombstone that covers key;
// 0 if there is none. Unlike Newest it remembers nothing.
func (c *Cover) Before(key []byte, v entry.Version) (newest entry.Version) {
	if v == 0 {
		return 0
	}
	for _, s := range c.sets {
		if s.max > newest {
			newest = max(newest, s.Newest(key, min(v-1, c.at+s.ahead)))
		}
	}
	return newest
}

// Stretch returns the range [lo, hi) around the key that Newest was last asked
// for in which it returns the same; nil is no bound.
func (c *Cover) Stretch() (lo, hi []byte) { return c.lo, c.hi }

// look finds the answer for key, and the stretch where it holds. The newest
// tombstones are asked first: what is older than the answer does not limit it.
func (c *Cover) look(key []byte) {
	// The stretch begins without bounds; each set that is asked narrows it.
	c.known, c.lo, c.hi, c.version = true, nil, nil, 0
	if c.pending != nil {
		for _, n := range c.pending.roots {
			if i, covered := n.spans.find(key); covered {
				c.version = Pending
				c.within(n.spans[i].Lo, n.spans[i].Hi)
				return
			}
		}
		for _, n := range c.pending.roots {
			c.gap(n.spans, key)
		}
	}
	for _, s := range c.sets {
		if s.max <= c.version {
			continue
		}
		for _, n := range slices.Backward(s.roots) {
			c.lookIn(n, key, c.at+s.ahead)
		}
	}
}

func (c *Cover) lookIn(n *node, key []byte, at entry.Version) {
	if n.max <= c.version || n.min > at {
		return
	}
	i, covered := n.spans.find(key)
	if !covered {
		c.gap(n.spans, key)
		return
	}
	s := &n.spans[i]
	c.within(s.Lo, s.Hi)
	if s.Version <= at {
		c.version = max(c.version, s.Version)
		return
	}
	for _, child := range slices.Backward(n.children) {
		c.lookIn(child, key, at)
	}
}

// gap limits the stretch to the gap between spans that key is in.
func (c *Cover) gap(s spans, key []byte) {
	i, _ := s.find(key)
	var lo, hi []byte
	if i > 0 {
		lo = s[i-1].Hi
	}
	if i < len(s) {
		hi = s[i].Lo
	}
	c.within(lo, hi)
}

// within limits the stretch to [lo, hi).
func (c *Cover) within(lo, hi []byte) {
	if lo != nil && (c.lo == nil || bytes.Compare(lo, c.lo) > 0) {
		c.lo = lo
	}
	if hi != nil && (c.hi == nil || bytes.Compare(hi, c.hi) < 0) {
		c.hi = hi
	}
}
