package tree

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/tombstone"
)

// A tally finds voids where keys are deleted in no order. There something is alive
// around nearly every delete, until the last few make long rows complete, all over
// and at once. So the keys that are alive are counted, in stretches, and the deletes
// that come to each: before as many have come as there were keys, no stretch is
// empty, and it need not be looked at again.
//
// Invariant: a stretch in which nothing is alive any more is due, or was found to be
// empty when it was searched, but for what was emptied by other means than deletes.
// Each key that is alive at a search takes a delete that comes later; and a search
// begins with a count of deletes all of which it sees.
type tally struct {
	stretches []stretch    // in order
	begun     atomic.Bool  // the leader counts what is published from now on
	due       atomic.Int64 // stretches that are
	credit    atomic.Int64 // entries that may still be met: every delete adds some
	need      atomic.Int64 // of credit, for the cheapest stretch that is due; 0 = not known
	round     int          // of searches; guarded by background.searching

	pending []int32 // the leader's: where applied deletes lie that are not published; ^i: what is not a delete
}

// stretch is [lo, hi).
type stretch struct {
	lo, hi  []byte
	deleted atomic.Int64 // deletes in it that were published
	limit   atomic.Int64 // at so many it is due
	due     atomic.Bool

	// Guarded by background.searching.
	steps int64 // entries that the last search has met, or the first one may
	empty bool  // when it was last searched
	round int   // when that was
}

const (
	// A search meets two entries, or three, of a key that is deleted, and there may
	// have to be a second or third one.
	tallyCredit = 16

	tallyShare     = 16      // a tally begins when one key of so many was deleted
	mostTallied    = 1 << 9  // of a tally
	unevenness     = 32      // how many times more entries than others a stretch may have
	largestStretch = 1 << 16 // entries of one that is counted
	searchSteps    = 16      // what a search costs beside the entries that it meets
)

// count begins a tally of the keys from the first to the last of fences, which lie
// as densely as deletes do, unless too few were deleted for it to pay.
func (t *Tree) count(v *View, fences [][]byte) {
	deletes, entries := v.deletes(), int64(v.entries(fences[0], fences[len(fences)-1]))
	if deletes < entries/tallyShare {
		return
	}
	n := min(max(int(entries/t.voidStep()), 1), mostTallied, len(fences)-1)
	c := &tally{stretches: make([]stretch, 0, n)}
	average := entries / int64(n)
	lo := fences[0]
	for i := 1; i <= n; i++ {
		hi := fences[i*(len(fences)-1)/n]
		size := int64(v.entries(lo, hi))
		if size < average/4 && i < n {
			continue // one with the next
		}
		if size <= min(average*unevenness, largestStretch) && bytes.Compare(lo, hi) < 0 {
			c.add(bytes.Clone(lo), bytes.Clone(hi), size)
		}
		lo = hi
	}
	if len(c.stretches) > 0 {
		c.credit.Store(deletes * tallyCredit)
		t.tally.Store(c)
	}
}

func (c *tally) add(lo, hi []byte, entries int64) {
	c.stretches = c.stretches[:len(c.stretches)+1]
	s := &c.stretches[len(c.stretches)-1]
	s.lo, s.hi, s.steps = lo, hi, entries+searchSteps
	c.mark(s)
}

// uncounted are those of the keys that are in no stretch.
func (c *tally) uncounted(keys [][]byte) [][]byte {
	if c == nil {
		return keys
	}
	return slices.DeleteFunc(keys, func(key []byte) bool { return c.find(key) >= 0 })
}

// find returns the number of the stretch that key is in, or -1.
func (c *tally) find(key []byte) int {
	i := c.after(key) - 1
	if i < 0 || bytes.Compare(key, c.stretches[i].hi) >= 0 {
		return -1
	}
	return i
}

// after is the number of the first stretch that begins after key.
func (c *tally) after(key []byte) int {
	return sort.Search(len(c.stretches), func(i int) bool { return bytes.Compare(c.stretches[i].lo, key) > 0 })
}

// delete and deleteRange note what the leader applies.
func (c *tally) delete(key []byte) {
	if i := c.find(key); i >= 0 {
		c.pending = append(c.pending, int32(i))
	}
}

func (c *tally) deleteRange(lo, hi []byte) {
	for i := max(c.after(lo)-1, 0); i < len(c.stretches) && bytes.Compare(c.stretches[i].lo, hi) < 0; i++ {
		c.pending = append(c.pending, ^int32(i)) // it may be empty after fewer deletes
	}
}

// published counts what was noted; the leader calls it once that is visible.
func (c *tally) published() {
	c.begun.Store(true)
	c.credit.Add(int64(len(c.pending)) * tallyCredit)
	for _, i := range c.pending {
		if i < 0 {
			c.mark(&c.stretches[^i])
		} else if s := &c.stretches[i]; s.deleted.Add(1) >= s.limit.Load() {
			c.mark(s)
		}
	}
	c.pending = c.pending[:0]
}

func (c *tally) mark(s *stretch) {
	if !s.due.Load() && s.due.CompareAndSwap(false, true) {
		c.due.Add(1)
		c.need.Store(0)
	}
}

// late reports whether a stretch is due, and there is credit for a search.
func (c *tally) late() bool {
	return c != nil && c.begun.Load() && c.due.Load() > 0 && c.credit.Load() >= max(c.need.Load(), 1)
}

// pick is a stretch to be searched, and what was counted before.
type pick struct {
	*stretch
	deleted int64
}

// picks are the stretches that are due, as far as credit goes.
func (c *tally) picks() (picks []pick) {
	if !c.late() {
		return nil
	}
	credit, need := c.credit.Load(), int64(math.MaxInt64)
	for i := range c.stretches {
		switch s := &c.stretches[i]; {
		case !s.due.Load():
		case s.steps <= credit:
			credit -= s.steps
			picks = append(picks, pick{s, s.deleted.Load()})
		default:
			need = min(need, s.steps)
		}
	}
	if len(picks) == 0 {
		c.need.Store(need)
	}
	return picks
}

// search searches stretches of a View, as of a version that was published after they
// were picked, and returns what is void.
func (c *tally) search(v *View, upTo entry.Version, picks []pick, least int) (found []tombstone.Tombstone, err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	if len(picks) == 0 {
		return nil, nil
	}
	n := &counter{least: least, upTo: upTo, all: v.iterator(), cover: v.cover(upTo, true)}
	defer n.all.Close()
	c.round++
	look := func(s *stretch) error {
		if err := n.walk(s.lo, s.hi); err != nil {
			return err
		}
		s.steps, s.empty, s.round = n.steps+searchSteps, n.alive == 0, c.round
		c.credit.Add(-s.steps)
		return nil
	}
	for _, p := range picks {
		if err := look(p.stretch); err != nil {
			return nil, err
		}
		p.limit.Store(p.deleted + max(n.alive, 1))
		if p.due.CompareAndSwap(true, false) {
			c.due.Add(-1)
		}
		if p.stretch.deleted.Load() >= p.limit.Load() {
			c.mark(p.stretch)
		}
	}
	// Those beside it that are voids of older memtables become one with it.
	strayed := func(i int) bool {
		if i < 0 || i >= len(c.stretches) {
			return false
		}
		s := &c.stretches[i]
		return s.empty && s.round != c.round && !v.active().deletes.void(s.lo)
	}
	for _, p := range picks {
		at := c.find(p.lo)
		for i := at - 1; p.empty && strayed(i); i-- {
			if err := look(&c.stretches[i]); err != nil {
				return nil, err
			}
		}
		for i := at + 1; p.empty && strayed(i); i++ {
			if err := look(&c.stretches[i]); err != nil {
				return nil, err
			}
		}
	}
	return n.found, nil
}

// counter walks a View and counts the keys that are alive, as of a version.
type counter struct {
	least int // how many dead keys in a row make a void
	upTo  entry.Version
	all   iterator.Iterator
	cover *tombstone.Cover

	found []tombstone.Tombstone
	steps int64 // entries met by the last walk
	alive int64 // of the keys that it met
	key   []byte
}

// walk counts what is in [lo, hi), and finds the voids.
func (n *counter) walk(lo, hi []byte) error {
	n.steps, n.alive, n.key = 0, 0, n.key[:0]
	dead, begin, known := 0, lo, false // known: key was met, in a version that counts
	for ok := n.all.SeekGE(lo); ok && bytes.Compare(n.all.Entry().Key, hi) < 0; n.steps++ {
		e := n.all.Entry()
		if n.cover != nil && e.Version <= n.upTo {
			if newest := n.cover.Newest(e.Key); e.Version < newest {
				dead += n.least // whatever hides it
				n.key, known = append(n.key[:0], e.Key...), true
				_, end := n.cover.Stretch()
				if end == nil || bytes.Compare(end, hi) > 0 {
					end = hi
				}
				ok = n.all.SkipGE(end, newest)
				continue
			}
		}
		if !bytes.Equal(e.Key, n.key) {
			n.key, known = append(n.key[:0], e.Key...), false
		}
		switch {
		case known || e.Version > n.upTo:
		case e.Kind == entry.Delete:
			dead, known = dead+1, true
		default:
			n.end(begin, e.Key, dead)
			dead, begin, known = 0, append(bytes.Clone(e.Key), 0), true
			n.alive++
		}
		ok = n.all.Next()
	}
	if n.alive == 0 {
		dead = max(dead, n.least) // however little it is: it may meet the void beside it
	}
	n.end(begin, hi, dead)
	return n.all.Err()
}

func (n *counter) end(lo, hi []byte, dead int) {
	if dead >= n.least {
		if v := tombstone.Void(bytes.Clone(lo), bytes.Clone(hi), n.upTo); v.Valid() {
			n.found = append(n.found, v)
		}
	}
}
