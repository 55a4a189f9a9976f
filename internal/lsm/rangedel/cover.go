package rangedel

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
)

// Cover reports whether a range delete visible at a version deletes a key. It asks several sources.
// It is made for walks that ask for one key after the other: it remembers the stretch of keys
// around the last one in which the answer is the same. It is used by one goroutine at a time, and
// below a pageio.Guard if a source is in a file.
type Cover struct {
	parts   []part        // the sources, newest first
	at      entry.Version // the reader's version
	pending []part        // the reader's own range deletes, newer than all others
	err     error         // the first error of a source

	known   bool          // stretch and version hold
	stretch Stretch       // where version holds
	version entry.Version // the answer there; 0: nothing covers it
	asked   Stretch       // around the last answer of a part; the next lookup overwrites it
}

// keptBounds is how many bytes of bounds a part keeps of its stretch, at most. Of longer bounds a
// Cover keeps at most four, however many parts it has.
const keptBounds = 4 << 10

// part is one source, and what it last answered.
type part struct {
	Source
	max     entry.Version // its greatest version
	known   bool          // stretch and version hold
	stretch Stretch       // where version holds
	version entry.Version // the answer there
}

// NewCover returns the Cover of the range deletes up to at; nil if there are none.
func NewCover(at entry.Version, sources ...Source) *Cover {
	// Most readers meet no range delete: that takes no memory.
	var parts []part
	for i, s := range sources {
		if least, greatest := s.Versions(); least <= at {
			if parts == nil {
				parts = make([]part, 0, len(sources)-i)
			}
			parts = append(parts, part{Source: s, max: greatest})
		}
	}
	if parts == nil {
		return nil
	}
	// Once a version is found, older sources are passed over.
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.max, a.max) })
	return &Cover{at: at, parts: parts}
}

// NewForwardCover is NewCover for a walk that asks for keys in ascending order, and calls
// Close at its end. It keeps only the upper bounds of stretches. Long ones lie off the Go
// heap, where they would take twice the memory.
func NewForwardCover(at entry.Version, sources ...Source) *Cover {
	c := NewCover(at, sources...)
	if c != nil {
		c.asked.end, c.stretch.end = new(held), new(held)
	}
	return c
}

// Close gives back the memory of a Cover of NewForwardCover; c may be nil. Neither the Cover
// nor a bound that it has returned may be used afterwards.
func (c *Cover) Close() {
	if c == nil || !c.asked.forward() {
		return
	}
	c.asked.end.giveBack()
	c.stretch.end.giveBack()
	c.known, c.asked, c.stretch = false, Stretch{}, Stretch{}
}

// Pending is the version of a reader's own range deletes: above all others.
const Pending = entry.MaxVersion + 1

// failed is what a Cover returns after an error: it hides everything.
const failed = Pending + 1

// WithPending returns a Cover in which the range deletes of own, whatever their versions, count as
// Pending. c may be nil. The new Cover shares the memory of c: the two must not be used together.
func (c *Cover) WithPending(own ...Source) *Cover {
	n := &Cover{at: entry.MaxVersion}
	if c != nil {
		n.parts, n.at = c.parts, c.at
	}
	for _, s := range own {
		n.pending = append(n.pending, part{Source: s})
	}
	if len(n.parts)+len(n.pending) == 0 {
		return nil
	}
	return n
}

// Newest returns the newest version of a range delete that covers key; 0 if there is none. After an
// error, which Err returns, it is above all versions: everything counts as deleted, so no reader
// sees a key that may be deleted.
func (c *Cover) Newest(key []byte) entry.Version {
	// Walks ask for neighbours, so mostly the last answer holds.
	if !c.known || !c.stretch.contains(key) {
		c.lookUp(key)
	}
	return c.version
}

// Err returns the error that a source met, if any.
func (c *Cover) Err() error { return c.err }

// Before returns the newest version less than v of a range delete that covers key; 0 if there is
// none. Unlike Newest it remembers nothing, and finds no emptied ranges. After an error it is above
// all versions.
func (c *Cover) Before(key []byte, v entry.Version) (newest entry.Version) {
	if v == 0 {
		return 0
	}
	for i := range c.parts {
		p := &c.parts[i]
		// It can't have anything newer than what was found.
		if p.max <= newest {
			continue
		}
		found, err := p.Find(key, min(v-1, c.at), nil)
		if err != nil {
			c.err = err
			return failed
		}
		if found < v {
			newest = max(newest, found)
		}
	}
	return newest
}

// Stretch returns the range [lo, hi) around the key that Newest was last asked
// for in which it returns the same; nil is no bound. It is valid until Newest is
// asked again.
func (c *Cover) Stretch() (lo, hi []byte) { return c.stretch.Bounds() }

// lookUp finds the answer for key, and the stretch where it holds. The newest range deletes are
// asked first: what is older than the answer does not limit it.
func (c *Cover) lookUp(key []byte) {
	// The stretch begins without bounds; each source that is asked narrows it.
	c.known, c.version = true, 0
	c.stretch.clearBounds()
	if c.err != nil {
		c.version = failed
		return
	}
	// Own range deletes hide all that is committed.
	for i := range c.pending {
		if c.askSource(&c.pending[i], key, entry.MaxVersion) > 0 {
			c.version = Pending
			return
		}
	}
	for i := range c.parts {
		// A source that is not newer than the answer can't change it, so it need not narrow the
		// stretch.
		if p := &c.parts[i]; p.max > c.version {
			c.version = max(c.version, c.askSource(p, key, c.at))
		}
	}
}

// askSource asks one source, unless its last answer holds for key, and narrows the stretch.
func (c *Cover) askSource(p *part, key []byte, at entry.Version) entry.Version {
	s := &p.stretch
	if !p.known || !s.contains(key) {
		s = &c.asked
		s.clearBounds()
		var err error
		if p.version, err = p.Find(key, at, s); err != nil {
			c.err = err
			return failed
		}
		lo, hi := s.Bounds()
		if s.forward() && len(hi) > keptBounds {
			hi = shortenBound(hi, key)
		}
		// Long bounds are not kept: with 1 MiB each, a part would take megabytes.
		p.known = len(lo)+len(hi) <= keptBounds
		if p.stretch.clearBounds(); p.known {
			p.stretch.Within(lo, hi)
		}
	}
	c.stretch.Within(s.Bounds())
	return p.version
}

// shortenBound returns the shortest prefix of hi that is greater than key. A part keeps it in
// place of a hi that is too long: up to there, too, its answer for key holds.
func shortenBound(hi, key []byte) []byte { return hi[:entry.CommonPrefix(hi, key)+1] }

// Flatten calls fn for the ranges of keys in [from, to) that the Cover covers, in order and without
// overlap, each with its newest version. Two ranges that touch have different versions, or are of
// two keyspaces. A nil to is no bound; c may be nil. The bounds of a range are valid until fn
// returns. Flatten stops at the first error.
func (c *Cover) Flatten(from, to []byte, fn func(Delete) error) error {
	if c == nil {
		return nil
	}
	return c.eachRange(from, to, failed, fn)
}

// EachRange is Flatten from a key on, without versions: ranges of a keyspace that touch are one
// range.
func (c *Cover) EachRange(from []byte, fn func(lo, hi []byte) error) error {
	if c == nil {
		return nil
	}
	return c.eachRange(from, nil, 1, func(t Delete) error { return fn(t.Lo, t.Hi) })
}

// eachRange is Flatten for versions up to most: greater ones count as most.
func (c *Cover) eachRange(from, to []byte, most entry.Version, fn func(Delete) error) error {
	var lo, hi, at held
	defer func() {
		lo.giveBack()
		hi.giveBack()
		at.giveBack()
	}()
	var version entry.Version // of [lo, hi), which fn has not got yet, as it may grow; 0: none
	for at.copyFrom(from); to == nil || bytes.Compare(at.key, to) < 0; {
		v := min(c.Newest(at.key), most)
		if c.err != nil {
			return c.err
		}
		_, end := c.Stretch()
		if end == nil || to != nil && bytes.Compare(end, to) > 0 {
			end = to
		}
		// A range must not cross keyspaces: they are retained and dropped one by one.
		joins := v == version && (v == 0 || sameKeyspace(lo.key, at.key))
		if version > 0 && !joins {
			if err := fn(Delete{lo.key, hi.key, version}); err != nil {
				return err
			}
		}
		if !joins {
			lo.copyFrom(at.key)
		}
		hi.copyFrom(end)
		version = v
		if end == nil {
			break
		}
		at.copyFrom(end)
	}
	if version > 0 {
		return fn(Delete{lo.key, hi.key, version})
	}
	return nil
}
