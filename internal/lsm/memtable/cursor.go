package memtable

import (
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/lsm/iterator"
)

// cursor is an iterator of a view.
//
// Invariant: pos[k] is the first entry of level k that is not less than the current entry, in
// whatever direction the cursor moves. So it can turn round at any time.
type cursor struct {
	view   *view       // the sorted entries that it walks; nil after Close
	marks  *marks      // of the table, for skips
	levels [3][]pair   // the levels of the view that are not empty
	count  int         // number of levels
	pos    [3]int      // by level, see above
	level  int         // level of the current entry; -1 = not at an entry
	ties   uint8       // bit set of the levels whose entry at pos the current one shadows
	entry  entry.Entry // the current entry
	newer  newer       // state of skips
}

var _ iterator.Iterator = (*cursor)(nil)

// cursors has those that were closed: a short walk would otherwise be mostly their allocation.
var cursors = sync.Pool{New: func() any { return new(cursor) }}

func newCursor(v *view, m *marks) *cursor {
	c := cursors.Get().(*cursor)
	c.view, c.marks, c.level = v, m, -1
	for _, level := range v.levels {
		if len(level) > 0 {
			c.levels[c.count] = level
			c.count++
		}
	}
	return c
}

func (c *cursor) First() bool {
	c.pos = [3]int{}
	return c.moveToLeast()
}

func (c *cursor) Last() bool {
	for k := range c.count {
		c.pos[k] = len(c.levels[k])
	}
	return c.moveToGreatest()
}

func (c *cursor) SeekGE(key []byte) bool {
	c.seekKey(key)
	return c.moveToLeast()
}

func (c *cursor) SeekLT(key []byte) bool {
	c.seekKey(key)
	return c.moveToGreatest()
}

func (c *cursor) seekKey(key []byte) {
	for k := range c.count {
		c.pos[k] = c.view.countLess(c.levels[k], key)
	}
}

func (c *cursor) Next() bool {
	if c.level < 0 {
		return false
	}
	// Ties are passed together with the current entry, or the shadowed entry would come next.
	c.pos[c.level]++
	if c.ties != 0 {
		for k := range c.count {
			c.pos[k] += int(c.ties >> k & 1)
		}
	}
	return c.moveToLeast()
}

// SkipNewer moves to the newest entry of the current key with a version up to v; if there is
// none, to the next key. It seeks, and does not pass the newer versions one by one.
func (c *cursor) SkipNewer(v entry.Version) bool {
	if c.level < 0 || c.entry.Version <= v {
		return c.Next()
	}
	// A binary search: thousands of versions of a hot key would be passed one by one.
	for k := range c.count {
		c.pos[k] = c.view.seekVersion(c.levels[k], c.entry.Key, v)
	}
	return c.moveToLeast()
}

func (c *cursor) Prev() bool { return c.level >= 0 && c.moveToGreatest() }

// moveToLeast makes the least of the entries at pos the current one.
func (c *cursor) moveToLeast() bool {
	// Of equal entries, that of the newest level counts. The others, the ties, are passed
	// together with it.
	best, ties := -1, uint8(0)
	for k := range c.count {
		if c.pos[k] == len(c.levels[k]) {
			continue
		}
		if best < 0 {
			best = k
			continue
		}
		switch x := c.view.arena.comparePairs(c.levels[k][c.pos[k]], c.levels[best][c.pos[best]]); {
		case x < 0:
			best, ties = k, 0
		case x == 0:
			best, ties = k, ties|1<<best
		}
	}
	return c.setCurrent(best, ties)
}

// moveToGreatest makes the greatest of the entries before pos the current one.
func (c *cursor) moveToGreatest() bool {
	// This is least for the other direction.
	best, ties := -1, uint8(0)
	for k := range c.count {
		if c.pos[k] == 0 {
			continue
		}
		if best < 0 {
			best = k
			continue
		}
		switch x := c.view.arena.comparePairs(c.levels[k][c.pos[k]-1], c.levels[best][c.pos[best]-1]); {
		case x > 0:
			best, ties = k, 0
		case x == 0:
			best, ties = k, ties|1<<best
		}
	}
	// Move back to the chosen entry, so that the invariant holds: pos is at the current entry, and
	// at the others of equal rank.
	if best >= 0 {
		c.pos[best]--
	}
	for k := range c.count {
		c.pos[k] -= int(ties >> k & 1)
	}
	return c.setCurrent(best, ties)
}

// setCurrent makes the entry at pos of this level the current one; -1: there is none.
func (c *cursor) setCurrent(level int, ties uint8) bool {
	c.level, c.ties = level, ties
	if level < 0 {
		return false
	}
	p := c.levels[level][c.pos[level]]
	a := c.view.arena
	a.readRecord(a.at(p.place), &c.entry)
	return true
}

func (c *cursor) Entry() *entry.Entry {
	invariant.Check(c.level >= 0, "Entry of an iterator that is not at one")
	return &c.entry
}

func (c *cursor) Err() error { return nil }

// Close drops the view and gives the cursor to other readers. A view is memory of the Go heap, so
// the collector frees it then.
func (c *cursor) Close() {
	invariant.Check(c.view != nil, "an iterator is closed twice")
	*c = cursor{level: -1}
	if !invariant.Enabled { // else one that is used after Close is found out
		cursors.Put(c)
	}
}
