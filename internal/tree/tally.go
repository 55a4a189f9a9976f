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
// begins with a count of deletes all of which it sees. Where ranges were deleted, or a
// transaction without the journal has deleted keys, nobody knows how many: there the
// next delete makes it due.
//
// Invariant: once a commit has returned, a seek meets fewer than step entries in
// stretches that are due, unless credit is short: for each delete only so many entries
// are searched, whatever is done in whatever order. That holds for the first searches,
// too, which nobody makes all at once.
type tally struct {
	stretches []stretch    // in order
	step      int64        // how many entries may be owed
	begun     atomic.Bool  // the leader counts what is published from now on
	counted   atomic.Int64 // deletes in stretches since
	owed      atomic.Int64 // entries that a seek may meet in those that are due
	credit    atomic.Int64 // entries that may still be searched: every delete adds some
	marks     atomic.Int64 // times that a stretch became due
	seen      atomic.Int64 // of marks, when need was found
	need      atomic.Int64 // of credit, for the cheapest stretch that was due then
	round     int          // of searches; guarded by background.searching

	pending []int32 // the leader's: where applied deletes lie that are not published; ^i: what is not a delete
}

// stretch is [lo, hi).
type stretch struct {
	lo, hi  []byte
	deleted atomic.Int64 // deletes in it that were published
	base    atomic.Int64 // of deleted, at the last search
	limit   atomic.Int64 // at so many it is due
	ranged  atomic.Bool  // or at the next one
	empty   atomic.Bool  // when it was last searched
	left    atomic.Int64 // entries that a seek meets in it after the last search, at most
	owed    atomic.Int64 // its part of the tally's
	due     atomic.Bool

	noted bool // the leader's: ^i is pending

	// Guarded by background.searching.
	steps int64 // that the last search has taken, or the next one may
	round int   // when that was
	lost  bool  // it is not searched any more: it has outgrown what is counted, or can't be read
}

const (
	// A search meets two entries, or three, of a key that is deleted, and there may
	// have to be a second or third one, beside the first, of all keys that there are.
	tallyCredit = 32

	tallyShare     = 16      // a tally begins when one key of so many was deleted
	mostTallied    = 1 << 9  // of a tally
	missedShare    = 8       // another one begins for one delete more of so many
	unevenness     = 32      // how many times more entries than others a stretch may have
	largestStretch = 1 << 16 // entries of one that is counted
	searchSteps    = 16      // what a search costs beside the entries that it meets
	deleteEntries  = 2       // that a seek meets, as a rule, where a key was deleted
)

// count begins a tally of the keys from the first to the last of fences, which lie
// as densely as deletes do that none counts yet, and of those that the last one has,
// unless too few were deleted for it to pay.
func (t *Tree) count(v *View, fences [][]byte) {
	fences = slices.Concat(fences, t.tally.Load().fences())
	slices.SortFunc(fences, bytes.Compare)
	deletes, entries := v.deletes(), int64(v.entries(fences[0], fences[len(fences)-1]))
	if deletes < entries/tallyShare {
		return
	}
	n := min(max(int(entries/t.voidStep()), 1), mostTallied, len(fences)-1)
	c := &tally{stretches: make([]stretch, 0, n), step: t.voidStep()}
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
		t.tally.Store(c)
	}
}

func (c *tally) add(lo, hi []byte, entries int64) {
	c.stretches = c.stretches[:len(c.stretches)+1]
	s := &c.stretches[len(c.stretches)-1]
	s.lo, s.hi, s.steps = lo, hi, entries+searchSteps
	s.left.Store(entries)
	c.mark(s)
}

// fences are the bounds of stretches.
func (c *tally) fences() (keys [][]byte) {
	if c == nil {
		return nil
	}
	for i := range c.stretches {
		if s := &c.stretches[i]; !s.lost {
			keys = append(keys, s.lo, s.hi)
		}
	}
	return keys
}

// counts reports whether deletes of key are counted; background.searching is held.
func (c *tally) counts(key []byte) bool {
	if c == nil {
		return false
	}
	i := c.find(key)
	return i >= 0 && !c.stretches[i].lost
}

// uncounted are those of the keys that are not.
func (c *tally) uncounted(keys [][]byte) [][]byte {
	if c == nil {
		return keys
	}
	return slices.DeleteFunc(keys, c.counts)
}

// few reports whether a tally is not worth another one for so many deletes beside it.
func (c *tally) few(missed int64) bool {
	return c != nil && missed < c.counted.Load()/missedShare
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
		// One that was empty is due at the next delete anyway.
		if s := &c.stretches[i]; !s.noted && !s.empty.Load() {
			s.noted = true
			c.pending = append(c.pending, ^int32(i))
		}
	}
}

// published counts what was noted; the leader calls it once that is visible.
func (c *tally) published() {
	if !c.begun.Load() {
		c.begun.Store(true)
	}
	if len(c.pending) == 0 {
		return
	}
	c.counted.Add(int64(len(c.pending)))
	c.credit.Add(int64(len(c.pending)) * tallyCredit)
	for _, i := range c.pending {
		if i >= 0 {
			s := &c.stretches[i]
			if s.deleted.Add(1); s.due.Load() {
				c.owe(s, deleteEntries)
			}
			c.check(s)
			continue
		}
		s := &c.stretches[^i]
		s.noted = false
		s.ranged.Store(true)
		c.check(s)
	}
	c.pending = c.pending[:0]
}

// check marks a stretch that has become due.
func (c *tally) check(s *stretch) {
	if n := s.deleted.Load(); n >= s.limit.Load() || n != s.base.Load() && s.ranged.Load() {
		c.mark(s)
	}
}

func (c *tally) mark(s *stretch) {
	if !s.due.Load() && s.due.CompareAndSwap(false, true) {
		c.owe(s, s.left.Load()+deleteEntries*(s.deleted.Load()-s.base.Load()))
		c.marks.Add(1)
	}
}

func (c *tally) owe(s *stretch, entries int64) {
	s.owed.Add(entries)
	c.owed.Add(entries)
}

// late reports whether a seek may meet too much in stretches that are due, and there
// is credit to search one.
func (c *tally) late() bool {
	return c != nil && c.begun.Load() && c.owed.Load() >= c.step &&
		(c.marks.Load() != c.seen.Load() || c.credit.Load() >= c.need.Load())
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
	marks, credit, need := c.marks.Load(), c.credit.Load(), int64(math.MaxInt64)
	for i := range c.stretches {
		switch s := &c.stretches[i]; {
		case !s.due.Load():
		case s.steps <= credit:
			credit -= s.steps
			s.ranged.Store(false)
			picks = append(picks, pick{s, s.deleted.Load()})
		default:
			need = min(need, s.steps)
		}
	}
	c.need.Store(need)
	c.seen.Store(marks)
	return picks
}

// search searches stretches of a View, as of a version that was published after they
// were picked, and returns what is void, to be noted at its memtable m.
func (c *tally) search(v *View, m *table, upTo entry.Version, picks []pick, least int) []tombstone.Tombstone {
	if len(picks) == 0 {
		return nil
	}
	n := &counter{least: least, upTo: upTo, all: v.iterator(), cover: v.cover(upTo, true)}
	defer n.all.Close()
	c.round++
	for _, p := range picks {
		c.look(n, v, p.stretch)
		c.searched(n, p)
	}
	// Those beside it that are voids of older memtables become one with it.
	strayed := func(i int) bool {
		if i < 0 || i >= len(c.stretches) {
			return false
		}
		s := &c.stretches[i]
		return s.empty.Load() && s.round != c.round && !m.deletes.void(s.lo)
	}
	for _, p := range picks {
		at := c.find(p.lo)
		for i := at - 1; p.empty.Load() && strayed(i); i-- {
			c.look(n, v, &c.stretches[i])
		}
		for i := at + 1; p.empty.Load() && strayed(i); i++ {
			c.look(n, v, &c.stretches[i])
		}
	}
	return n.found
}

// look searches one stretch, but not much more of it than was to be expected.
func (c *tally) look(n *counter, v *View, s *stretch) {
	read := n.walk(s.lo, s.hi, max(4*s.steps, 2*c.step)) == nil // else whoever needs it is told
	c.credit.Add(-n.steps - searchSteps)
	s.steps, s.round = n.steps+searchSteps, c.round
	s.empty.Store(read && n.whole && n.alive == 0)
	s.left.Store(n.left)
	if !n.whole {
		size := int64(v.entries(s.lo, s.hi))
		s.steps = max(s.steps, size+searchSteps)
		s.left.Store(max(n.left, size))
		s.lost = !read || size > largestStretch
	}
}

// searched has a stretch be due when all that was alive in it may be gone.
func (c *tally) searched(n *counter, p pick) {
	s := p.stretch
	switch {
	case s.lost:
		s.limit.Store(math.MaxInt64)
	case !n.whole:
		c.marks.Add(1) // it stays due, but for more credit
		return
	default:
		s.limit.Store(p.deleted + max(n.alive, 1))
	}
	s.base.Store(p.deleted)
	s.due.Store(false)
	c.owe(s, -s.owed.Load())
	if !s.lost {
		c.check(s)
	}
}

// later has stretches that are not searched be picked again.
func (c *tally) later(picks []pick) {
	if len(picks) > 0 {
		c.marks.Add(1)
	}
}

// again has stretches be due, of which what was found was forgotten.
func (c *tally) again(v *View, picks []pick) {
	for _, p := range picks {
		p.empty.Store(false)
		p.left.Store(int64(v.entries(p.lo, p.hi)))
		p.limit.Store(0)
		c.mark(p.stretch)
	}
}

// counter walks a View and counts the keys that are alive, as of a version.
type counter struct {
	least int // how many dead keys in a row make a void
	upTo  entry.Version
	all   iterator.Iterator
	cover *tombstone.Cover

	found []tombstone.Tombstone
	key   []byte

	// Of the last walk:
	steps int64 // entries met
	left  int64 // of them, those in no void
	alive int64 // of their keys
	whole bool  // it has come to the end
}

// walk counts what is in [lo, hi), and finds the voids, until it has met most entries.
func (n *counter) walk(lo, hi []byte, most int64) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	n.steps, n.left, n.alive, n.whole, n.key = 0, 0, 0, false, n.key[:0]
	dead, begin, known := 0, lo, false // known: key was met, in a version that counts
	before := int64(0)                 // left when the row of dead keys began
	for ok := n.all.SeekGE(lo); ok && bytes.Compare(n.all.Entry().Key, hi) < 0; n.steps++ {
		if n.steps >= most {
			return nil
		}
		e := n.all.Entry()
		if n.cover != nil && e.Version <= n.upTo {
			if newest := n.cover.Newest(e.Key); e.Version < newest {
				dead += n.least // whatever hides it
				n.left++
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
			n.end(begin, e.Key, dead, before)
			dead, begin, known = 0, append(bytes.Clone(e.Key), 0), true
			n.alive++
			before = n.left + 1
		}
		n.left++
		ok = n.all.Next()
	}
	if err := n.all.Err(); err != nil {
		return err
	}
	n.whole = true
	if n.alive == 0 {
		dead = max(dead, n.least) // however little it is: it may meet the void beside it
	}
	n.end(begin, hi, dead, before)
	return nil
}

// end makes a void of a row of dead keys, if it is long enough; before is what was
// left before it.
func (n *counter) end(lo, hi []byte, dead int, before int64) {
	if dead >= n.least {
		if v := tombstone.Void(bytes.Clone(lo), bytes.Clone(hi), n.upTo); v.Valid() {
			n.found = append(n.found, v)
			n.left = before
		}
	}
}
