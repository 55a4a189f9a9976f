package memtable

import (
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/lsm/iterator"
)

// cursor is an iterator of a view.
//
// Invariant: pos[k] is the first entry of level k that is not less than the current entry,
// in whatever direction the cursor moves. So it can turn round at any time.
type cursor struct {
	view   *view
	marks  *marks
	levels [3][]pair // the levels of the view that are not empty
	count  int       // how many these are
	pos    [3]int
	level  int   // level of the current entry; -1 = not at an entry
	ties   uint8 // bit set of levels whose entry at pos is shadowed by the current one
	entry  entry.Entry
	newer  newer // than what was left out last
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
	return c.least()
}

func (c *cursor) Last() bool {
	for k := range c.count {
		c.pos[k] = len(c.levels[k])
	}
	return c.greatestBefore()
}

func (c *cursor) SeekGE(key []byte) bool {
	c.seekKey(key)
	return c.least()
}

func (c *cursor) SeekLT(key []byte) bool {
	c.seekKey(key)
	return c.greatestBefore()
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
	c.pos[c.level]++
	if c.ties != 0 {
		for k := range c.count {
			c.pos[k] += int(c.ties >> k & 1)
		}
	}
	return c.least()
}

// SkipNewer moves to the newest entry of the current key with a version up to v; if there is
// none, to the next key. It seeks, and does not pass the newer versions one by one.
func (c *cursor) SkipNewer(v entry.Version) bool {
	if c.level < 0 || c.entry.Version <= v {
		return c.Next()
	}
	for k := range c.count {
		c.pos[k] = c.view.seekVersion(c.levels[k], c.entry.Key, v)
	}
	return c.least()
}

func (c *cursor) Prev() bool { return c.level >= 0 && c.greatestBefore() }

// least makes the least of the entries at pos the current one.
func (c *cursor) least() bool {
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
	return c.arrive(best, ties)
}

// greatestBefore makes the greatest of the entries before pos the current one.
func (c *cursor) greatestBefore() bool {
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
	if best >= 0 {
		c.pos[best]--
	}
	for k := range c.count {
		c.pos[k] -= int(ties >> k & 1)
	}
	return c.arrive(best, ties)
}

func (c *cursor) arrive(level int, ties uint8) bool {
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

// Close drops the view, whose memory can then be freed, and gives the cursor to other readers.
func (c *cursor) Close() {
	invariant.Check(c.view != nil, "an iterator is closed twice")
	*c = cursor{level: -1}
	if !invariant.Enabled { // else one that is used after Close is found out
		cursors.Put(c)
	}
}
