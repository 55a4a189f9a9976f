package emptied

import (
	"bytes"
	"math"
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/hash"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/memtable"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// Source is the View that a search reads.
type Source interface {
	// Memtables returns the memtables, newest first. All entries of one are newer than
	// those of the next one, and than those of all runs.
	Memtables() []*memtable.Table
	// RunsUpTo is the greatest version of an entry in a run.
	RunsUpTo() entry.Version
	// Below returns an iterator over everything older than the i-th memtable; i = -1 means
	// the whole View. The Cover has the range deletes and emptied ranges up to a version.
	Below(i int, upTo entry.Version) (iterator.Iterator, *rangedel.Cover)
	// Entries estimates how many entries there are in [lo, hi).
	Entries(lo, hi []byte) int
}

// Options of a Tracker.
type Options struct {
	Seed          uint64 // of the key hash
	MemtableBytes int    // size at which a memtable is sealed
}

// Tracker counts the deletes of a store and searches for the ranges that they have emptied.
//
// Invariant: once a commit has returned, fewer than step deletes are published and not yet
// searched. This bounds what a seek walks after deletes in the order of keys. There are two
// exceptions: deletes that others commit meanwhile, and deletes in an order of which the last
// search has found few ranges. A background task searches. A committer that finds the task
// late searches in its place. Only one call of Search or Prune may run at a time; the callers
// hold a lock.
type Tracker struct {
	least int    // least deleted keys of a range: a walk over fewer is faster than a skip
	step  int64  // deletes after which a search is due; a seek walks that number in about 1 ms
	seed  uint64 // of the key hash

	published counter      // entries of memtables that are published
	searched  counter      // the part of published that the last search has seen
	misses    atomic.Int32 // searches in a row that have found little, at most maxMisses

	added Count // entries that are not published yet; only the commit leader uses it

	// Only Search and Prune use these:
	upTo   entry.Version // the last search has seen all commits up to this version
	ranges []Range       // as of upTo, in order and apart from each other
	last   *rangedel.Set // the ranges as a set
}

// Count counts entries of memtables.
type Count struct{ Entries, Deletes int64 }

// counter is a Count that goroutines read while one changes it.
type counter struct{ entries, deletes atomic.Int64 }

func (c *counter) load() Count { return Count{c.entries.Load(), c.deletes.Load()} }

func (c *counter) store(n Count) {
	c.entries.Store(n.Entries)
	c.deletes.Store(n.Deletes)
}

const (
	maxMisses  = 3       // a search that finds little doubles the next step, up to 2^maxMisses
	freshEvery = 1 << 14 // new entries after which a search lifts all ranges to the newest version

	// Multiples of goldenRatio (mod 2^32) choose deletes as seeds. They are spread evenly, and
	// so is every second, third or fourth of them. So if goroutines delete in turn, some
	// deletes of each become seeds.
	goldenRatio uint32 = 0x9e3779b9
)

// NewTracker returns the Tracker of a store.
func NewTracker(o Options) *Tracker {
	return &Tracker{least: max(o.MemtableBytes>>17, 16), step: int64(max(o.MemtableBytes>>14, 64)), seed: o.Seed}
}

// Added notes entries that the commit leader adds to a memtable. They count once it calls
// Published.
func (t *Tracker) Added(n Count) {
	t.added.Entries += n.Entries
	t.added.Deletes += n.Deletes
}

// Published counts the entries of Added. The commit leader calls it once they are visible,
// and starts the background task if it returns true. k is that of the current View.
func (t *Tracker) Published(k *Known) (due bool) {
	if t.added.Entries == 0 {
		return false
	}
	n := t.published.load()
	t.published.store(Count{n.Entries + t.added.Entries, n.Deletes + t.added.Deletes})
	t.added = Count{}
	n = t.Waiting()
	return n.Deletes >= t.step<<t.misses.Load() || k.any() && n.Entries >= freshEvery
}

// Waiting returns the number of entries that are published and not yet searched.
func (t *Tracker) Waiting() Count {
	n, searched := t.published.load(), t.searched.load()
	return Count{n.Entries - searched.Entries, n.Deletes - searched.Deletes}
}

// Behind reports whether a memtable should be searched before it is flushed. k is that
// of the current View.
func (t *Tracker) Behind(k *Known) bool {
	n := t.Waiting()
	return n.Deletes > 0 || k.any() && n.Entries > 0
}

// Late reports whether a committer must search in place of the background task. If the last
// searches have found little, the task gets more time before it counts as late.
func (t *Tracker) Late() bool {
	due := t.step
	if misses := t.misses.Load(); misses > 0 {
		due <<= misses + 1
	}
	return t.Waiting().Deletes >= due
}

// Count returns what is published, for a later Search. Call it before you take the version
// up to which that Search goes: then the Search sees all that was counted.
func (t *Tracker) Count() Count { return t.published.load() }

// Search searches the memtables of a View for ranges that deletes have emptied up to the
// version published. Take counted by Count first, then published, then pin the View. k is
// that of the View. The caller applies the returned Change to the current View.
func (t *Tracker) Search(view Source, k *Known, published entry.Version, counted Count) (c Change) {
	noted := k.noted.Load().All()
	if t.Waiting().Deletes < int64(t.least) && len(t.ranges)+len(noted) == 0 {
		return c
	}
	if runs := view.RunsUpTo(); runs > t.upTo {
		// A range may be lifted to a later version only by a search that sees all sets
		// since. Here some are in a run already: a memtable was flushed unsearched, or a
		// large transaction committed without the journal. The ranges stay true, but are
		// not lifted any more.
		c.notes, t.ranges, t.upTo = t.ranges, nil, runs
	}
	// The oldest first: to lift a range, all older memtables must have been searched.
	for i, m := range slices.Backward(view.Memtables()) {
		if upTo := min(published, m.MaxVersion()); upTo > t.upTo {
			t.adopt(noted, upTo)
			t.search(view, i, m, upTo)
		}
	}
	t.searched.store(counted)
	t.publish(&c)
	return c
}

// adopt takes over the ranges that seeks have noted since the last search, up to upTo. The
// next search sees all sets since, so it can lift these ranges, too.
func (t *Tracker) adopt(noted []Range, upTo entry.Version) {
	for _, r := range noted {
		if v := r.Version - 1; v >= t.upTo && v <= upTo {
			t.ranges = join(t.ranges, r)
		}
	}
}

// search searches the entries of the i-th memtable that came since the last search, up to the
// version upTo. Entries up to upTo must be published, and all older memtables searched. It
// then lifts all ranges to upTo. So few entries are newer than a range: an iterator that
// skips the range has to look at those.
func (t *Tracker) search(view Source, i int, m *memtable.Table, upTo entry.Version) {
	fresh, every := int64(0), t.least/8
	var seeds, alive [][]byte
	var e entry.Entry
	for key, kind := range m.Arrivals(t.upTo, upTo) {
		switch {
		case kind == entry.Delete:
			if uint32(fresh)*goldenRatio <= math.MaxUint32/uint32(every) {
				seeds = append(seeds, key)
			}
			fresh++
		case Within(t.ranges, key) && !(m.Get(key, hash.Sum(t.seed, key), upTo, &e) && e.Kind == entry.Delete):
			alive = append(alive, key)
		}
	}
	// Before ranges are lifted, the keys that have a value again are cut out of them.
	if len(alive) > 0 {
		t.ranges = Cut(t.ranges, alive, func(lo, hi []byte) bool { return view.Entries(lo, hi) > t.least })
	}
	if fresh > 0 {
		slices.SortFunc(seeds, bytes.Compare)
		w := &walker{
			least: t.least, seed: t.seed, mine: m.Iterator(), table: m, upTo: upTo,
			seeds: seeds, seedEvery: every, since: t.upTo + 1, known: t.ranges,
		}
		if w.find(view.Below(i, upTo)) != nil {
			w.found, w.hidden = nil, 0 // ignored: a reader of the damaged place gets the error
		}
		// If a quarter of the deletes is in ranges, searching in this order is worth its work.
		switch {
		case 4*w.hidden >= fresh:
			t.misses.Store(0)
		case fresh >= t.step:
			t.misses.Store(min(t.misses.Load()+1, maxMisses))
		}
		for _, r := range w.found {
			t.ranges = join(t.ranges, r)
		}
	}
	t.ranges = t.largest(t.ranges, mostRanges, view)
	for j := range t.ranges {
		t.ranges[j] = rangedel.Emptied(t.ranges[j].Lo, t.ranges[j].Hi, upTo)
	}
	t.upTo = upTo
}

// SearchWrites searches the writes of a transaction, in the order of keys, for ranges that
// they will empty in a View. Committed gives the ranges their version.
func (t *Tracker) SearchWrites(writes iterator.Iterator, view Source) []Range {
	w := &walker{least: t.least, seed: t.seed, mine: writes, upTo: entry.MaxVersion - 1}
	if w.find(view.Below(-1, entry.MaxVersion-1)) != nil {
		return nil
	}
	return t.largest(w.found, mostRanges/2, view)
}

// Committed returns the Change for a transaction that is committed as version v: found are
// the ranges of SearchWrites, touched the keys that others have committed since its View.
// These keys are cut out.
func Committed(found []Range, touched [][]byte, v entry.Version) (c Change) {
	for _, r := range Cut(found, touched, func(lo, hi []byte) bool { return true }) {
		c.notes = append(c.notes, rangedel.Emptied(r.Lo, r.Hi, v))
	}
	return c
}

// largest drops the ranges with fewest entries until at most `most` ranges are left.
func (t *Tracker) largest(ranges []Range, most int, view Source) []Range {
	for least := t.least; len(ranges) > most; least *= 2 {
		ranges = slices.DeleteFunc(ranges, func(r Range) bool { return view.Entries(r.Lo, r.Hi) <= least })
	}
	return ranges
}

// Prune forgets ranges in which a View has few entries left, for instance after a compaction
// has dropped the deleted ones. k is that of the View.
func (t *Tracker) Prune(view Source, k *Known) (c Change) {
	few := func(r Range) bool { return view.Entries(r.Lo, r.Hi) < t.least }
	t.ranges = slices.DeleteFunc(t.ranges, few)
	t.publish(&c)
	c.searched.before = nil
	if c.was = k.noted.Load(); c.was != nil {
		c.pruned, c.remain = true, rangedel.EmptiedSet(slices.DeleteFunc(c.was.All(), few)...)
	}
	return c
}

// publish adds the ranges to a Change.
func (t *Tracker) publish(c *Change) {
	c.searched = &searched{last: rangedel.EmptiedSet(t.ranges...), before: t.last}
	t.last = c.searched.last
}
