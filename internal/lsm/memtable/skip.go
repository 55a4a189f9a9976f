package memtable

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
)

// A range delete hides older entries. Usually few entries of a table are newer than the delete, and
// these came last. So the next entry that it doesn't hide is looked for among them, instead of
// walking over all that it hides.

// skipMax is how many newer entries are looked at; with more, the cursor walks. So it does where it
// has to pass fewer entries than that: a walk over many small ranges that were deleted one by one
// then takes no more steps than there are entries.
const skipMax = 1 << 15

// skipSort is how often they are looked at one by one before they are sorted.
const skipSort = 4

// newer is what a cursor remembers of the entries of its view whose version is at least version.
type newer struct {
	version entry.Version // of the last skip
	asked   int           // how often they were looked for
	sorted  []pair        // by key; nil = not yet
	after   []byte        // the least key after the one looked for; reused
}

// SkipGE seeks, unless too many entries are newer than v.
func (c *cursor) SkipGE(key []byte, v entry.Version) bool {
	if c.level < 0 || bytes.Compare(c.entry.Key, key) >= 0 {
		return c.Next()
	}
	// The next entry that must not be left out: the least newer key, or key itself.
	to := key
	few := c.eachBeside(c.entry.Key, v, c.countUpTo(key), func(k []byte) {
		if bytes.Compare(k, c.entry.Key) > 0 && bytes.Compare(k, to) < 0 {
			to = k
		}
	})
	if !few {
		return c.Next()
	}
	return c.SeekGE(to)
}

// SkipLT seeks backward, unless too many entries are newer than v.
func (c *cursor) SkipLT(key []byte, v entry.Version) bool {
	if c.level < 0 || bytes.Compare(c.entry.Key, key) < 0 {
		return c.Prev()
	}
	var to []byte
	few := c.eachBeside(c.entry.Key, v, -c.countUpTo(key), func(k []byte) {
		if bytes.Compare(k, key) >= 0 && bytes.Compare(k, c.entry.Key) <= 0 && (to == nil || bytes.Compare(k, to) > 0) {
			to = k
		}
	})
	switch {
	case !few || bytes.Equal(to, c.entry.Key): // newer versions of the current key come next
		return c.Prev()
	case to == nil:
		return c.SeekLT(key)
	}
	// The versions of to itself must come: seek behind its last one.
	return c.SeekLT(append(bytes.Clone(to), 0))
}

// countUpTo returns the number of entries from the current one up to key, without key. It is
// negative if key comes before the current entry.
func (c *cursor) countUpTo(key []byte) (n int) {
	for k := range c.count {
		n += c.view.countLess(c.levels[k], key) - c.pos[k]
	}
	return n
}

// eachBeside calls fn for the keys of entries of the view whose version is v or greater: for all,
// in any order, or only for the last one up to key and the first one after it. It reports false,
// and calls nothing, if these are many, or more than most.
func (c *cursor) eachBeside(key []byte, v entry.Version, most int, fn func(key []byte)) bool {
	few := c.eachSince(v, most, func(_ ref, r *record) { fn(r.keyBytes()) })
	if sorted := c.newer.sorted; few && sorted != nil {
		c.newer.after = append(append(c.newer.after[:0], key...), 0)
		i := c.view.countLess(sorted, c.newer.after)
		for _, p := range sorted[max(i-1, 0):min(i+1, len(sorted))] {
			fn(c.view.arena.at(p.place).keyBytes())
		}
	}
	return few
}

// eachSince calls fn for every entry of the view whose version is v or greater, in the order of
// arrival, unless it has sorted them because it was asked often. It reports false, and does
// neither, if these are many, or more than most.
func (c *cursor) eachSince(v entry.Version, most int, fn func(place ref, r *record)) bool {
	// Every version is newer than 0: a walk is as short.
	if v == 0 {
		return false
	}
	if v != c.newer.version {
		c.newer = newer{version: v, after: c.newer.after}
	} else if c.newer.sorted != nil {
		return true
	}
	// Nothing before the mark is as new as v.
	m, ok := c.marks.lastMark(v - 1)
	switch {
	case !ok || entry.Version(c.marks.newest.Load()) < v || m.place >= c.view.end:
		return true
	case c.view.count-m.count > min(skipMax, most):
		return false
	}
	// Looking is cheap once, and sorting pays only for a walk that skips often.
	c.newer.asked++
	sorts := c.newer.asked > skipSort
	pairs := []pair{}
	c.view.arena.eachRecord(m.place, c.view.end, func(p ref, r *record) bool {
		switch {
		case r.version() < v:
		case sorts:
			pairs = append(pairs, pair{entry.Word(r.keyBytes()[len(c.view.prefix):]), p})
		default:
			fn(p, r)
		}
		return true
	})
	if sorts {
		s := sorter{arena: c.view.arena}
		c.newer.sorted = s.sortPairs(pairs, len(c.view.prefix))
		// Not nil, which would say that they are not sorted yet.
		if c.newer.sorted == nil {
			c.newer.sorted = []pair{}
		}
	}
	return true
}
