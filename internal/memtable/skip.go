package memtable

import (
	"bytes"

	"github.com/brockdb/brock/internal/entry"
)

// Few entries of a table are newer than a tombstone, as a rule, and these came
// last: those that must not be skipped are found among them.

// skipMax is how many newer entries are looked at rather than all older ones.
const skipMax = 1 << 15

// SkipGE seeks, unless too many entries are newer than v.
func (c *cursor) SkipGE(key []byte, v entry.Version) bool {
	if c.level < 0 || bytes.Compare(c.entry.Key, key) >= 0 {
		return c.Next()
	}
	to := key
	few := c.since(v, func(k []byte) {
		if bytes.Compare(k, c.entry.Key) > 0 && bytes.Compare(k, to) < 0 {
			to = k
		}
	})
	if !few {
		return c.Next()
	}
	return c.SeekGE(to)
}

// SkipLT mirrors SkipGE.
func (c *cursor) SkipLT(key []byte, v entry.Version) bool {
	if c.level < 0 || bytes.Compare(c.entry.Key, key) < 0 {
		return c.Prev()
	}
	var to []byte
	few := c.since(v, func(k []byte) {
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
	return c.SeekLT(append(bytes.Clone(to), 0))
}

// since calls fn for the key of every entry of the view whose version is v or
// greater. It reports false, and calls nothing, if these are many.
func (c *cursor) since(v entry.Version, fn func(key []byte)) bool {
	t := c.table
	if v == 0 {
		return false
	}
	m, ok := t.lastMark(v - 1)
	switch {
	case !ok || entry.Version(t.newest.Load()) < v || m.place >= c.view.end:
		return true
	case c.view.count-m.count > skipMax:
		return false
	}
	t.walk(m.place, c.view.end, func(_ ref, r *record) bool {
		if r.version() >= v {
			fn(r.keyBytes())
		}
		return true
	})
	return true
}
