package memtable

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/invariant"
	"github.com/brockdb/brock/internal/iterator"
)

// cursor walks a view.
//
// pos[k] is always the first entry of level k that is not before the current
// one, in both directions: so a step either way needs no other state.
type cursor struct {
	view   *view
	marks  *marks
	levels [3][]pair // the view's, without the empty ones
	count  int
	pos    [3]int
	level  int   // that the current entry is in; -1 = not at an entry
	ties   uint8 // levels whose entry at pos is shadowed by the current one
	entry  entry.Entry
	newer  newer // than what was left out last
}

var _ iterator.Iterator = (*cursor)(nil)

func newCursor(v *view, m *marks) *cursor {
	c := &cursor{view: v, marks: m, level: -1}
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
	return c.before()
}

func (c *cursor) SeekGE(key []byte) bool {
	c.seek(key)
	return c.least()
}

func (c *cursor) SeekLT(key []byte) bool {
	c.seek(key)
	return c.before()
}

func (c *cursor) seek(key []byte) {
	for k := range c.count {
		c.pos[k] = c.view.seek(c.levels[k], key)
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

// SkipNewer seeks the version.
func (c *cursor) SkipNewer(v entry.Version) bool {
	if c.level < 0 || c.entry.Version <= v {
		return c.Next()
	}
	for k := range c.count {
		c.pos[k] = c.view.seekVersion(c.levels[k], c.entry.Key, v)
	}
	return c.least()
}

func (c *cursor) Prev() bool { return c.level >= 0 && c.before() }

// least makes the least entry at pos the current one.
func (c *cursor) least() bool {
	// Of equal entries the newest level's is current; the ties move on with it.
	best, ties := -1, uint8(0)
	for k := range c.count {
		if c.pos[k] == len(c.levels[k]) {
			continue
		}
		if best < 0 {
			best = k
			continue
		}
		switch x := c.view.arena.compare(c.levels[k][c.pos[k]], c.levels[best][c.pos[best]]); {
		case x < 0:
			best, ties = k, 0
		case x == 0:
			best, ties = k, ties|1<<best
		}
	}
	return c.arrive(best, ties)
}

// before makes the greatest entry before pos the current one.
func (c *cursor) before() bool {
	// As least, among the entries that lie before pos.
	best, ties := -1, uint8(0)
	for k := range c.count {
		if c.pos[k] == 0 {
			continue
		}
		if best < 0 {
			best = k
			continue
		}
		switch x := c.view.arena.compare(c.levels[k][c.pos[k]-1], c.levels[best][c.pos[best]-1]); {
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
	a.read(a.at(p.place), &c.entry)
	return true
}

func (c *cursor) Entry() *entry.Entry {
	invariant.Check(c.level >= 0, "Entry of an iterator that is not at one")
	return &c.entry
}

func (c *cursor) Err() error { return nil }

// Close lets go of the view.
func (c *cursor) Close() { *c = cursor{level: -1} }
