package emptied

import (
	"bytes"
	"math"
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/memtable"
	"github.com/brockdb/brock/internal/tombstone"
)

// Source is the View that a search reads.
type Source interface {
	// Memtables returns them newest first: all that is in one is newer than what is
	// in the next, and than all runs.
	Memtables() []*memtable.Table
	// RunsUpTo is the greatest version of an entry in a run.
	RunsUpTo() entry.Version
	// Below walks what is older than the i-th memtable; all with i = -1. The Cover
	// knows what range deletes and emptied ranges up to a version hide of it.
	Below(i int, upTo entry.Version) (iterator.Iterator, *tombstone.Cover)
	// Entries is about how many entries there are in [lo, hi).
	Entries(lo, hi []byte) int
}

// Options of a Tracker.
type Options struct {
	Seed          uint64 // of the key hash
	MemtableBytes int    // at which a memtable is sealed
}

// Tracker counts the deletes of a store and searches for what they have emptied.
//
// Invariant: once a commit has returned, fewer than step deletes are published and
// not searched, but for those that others commit meanwhile, and for deletes of an
// order in which the last search has found little. This bounds what a seek walks
// after deletes in the order of keys. A background task searches; a committer who
// finds that the task is late does its work. Searches, and Prune, exclude each other:
// their callers see to that.
type Tracker struct {
	least int    // deleted keys that a range has at least: a few are walked faster than skipped
	step  int64  // deletes after which a search is due; a seek walks that number in about 1 ms
	seed  uint64 // of the key hash

	published counter      // what came to memtables and is published
	searched  counter      // of it, what the last search has met
	misses    atomic.Int32 // searches in a row that have found little, up to maxMisses

	added Count // what is not published yet; for the commit leader alone

	// For searches alone, of which one runs at a time:
	upTo   entry.Version  // the last search has met all commits up to this one
	ranges []Range        // as of upTo, in order and apart from each other
	last   *tombstone.Set // the same
}

// Count counts entries of memtables.
type Count struct{ Entries, Deletes int64 }

// counter is a Count that many goroutines look at.
type counter struct{ entries, deletes atomic.Int64 }

func (c *counter) load() Count { return Count{c.entries.Load(), c.deletes.Load()} }

func (c *counter) store(n Count) {
	c.entries.Store(n.Entries)
	c.deletes.Store(n.Deletes)
}

const (
	maxMisses  = 3       // a search that finds little doubles the next step, up to 2^maxMisses
	freshEvery = 1 << 14 // entries after which ranges are lifted to the newest version, see search

	// Multiples of goldenRatio are spread evenly, also every second, third or fourth.
	// So of goroutines that delete in turn, each one's deletes are seeds now and then.
	goldenRatio uint32 = 0x9e3779b9
)

// NewTracker returns the Tracker of a store.
func NewTracker(o Options) *Tracker {
	return &Tracker{least: max(o.MemtableBytes>>17, 16), step: int64(max(o.MemtableBytes>>14, 64)), seed: o.Seed}
}

// Added notes what the commit leader adds to a memtable; it does not count before
// Published.
func (t *Tracker) Added(n Count) {
	t.added.Entries += n.Entries
	t.added.Deletes += n.Deletes
}

// Published counts what was added. The commit leader calls it once that is visible,
// and starts the background task if it returns true. k is of the current View.
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

// Waiting is what was published and not searched.
func (t *Tracker) Waiting() Count {
	n, searched := t.published.load(), t.searched.load()
	return Count{n.Entries - searched.Entries, n.Deletes - searched.Deletes}
}

// Behind reports whether a memtable should be searched before it is flushed; k is of
// the current View.
func (t *Tracker) Behind(k *Known) bool {
	n := t.Waiting()
	return n.Deletes > 0 || k.any() && n.Entries > 0
}

// Late reports whether a committer is to search in place of the background task.
// Where little is to be found, the task may take another step.
func (t *Tracker) Late() bool {
	due := t.step
	if misses := t.misses.Load(); misses > 0 {
		due <<= misses + 1
	}
	return t.Waiting().Deletes >= due
}

// Count is to be called before the version that a Search goes up to is asked for.
func (t *Tracker) Count() Count { return t.published.load() }

// Search searches the memtables of a View for what deletes have emptied up to a
// version: one that was published before the View was pinned, and after all that was
// counted. k is of that View. What it returns is to be applied to the current View.
func (t *Tracker) Search(view Source, k *Known, published entry.Version, counted Count) (c Change) {
	noted := k.noted.Load().All()
	if t.Waiting().Deletes < int64(t.least) && len(t.ranges)+len(noted) == 0 {
		return c
	}
	if runs := view.RunsUpTo(); runs > t.upTo {
		// A range is lifted to a later version only by a search that meets all sets
		// between the two. Here some are in a run already: of a memtable that was
		// flushed unsearched, or of a transaction that committed without the journal.
		// The ranges stay true, but are not lifted any more.
		c.notes, t.ranges, t.upTo = t.ranges, nil, runs
	}
	// The oldest first: a search of one lifts ranges over all that is older.
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

// adopt makes ranges of what seeks have noted since the last search, up to the version
// that the next one goes up to: it meets all sets since, and lifts them, too.
func (t *Tracker) adopt(noted []Range, upTo entry.Version) {
	for _, r := range noted {
		if v := r.Version - 1; v >= t.upTo && v <= upTo {
			t.ranges = join(t.ranges, r)
		}
	}
}

// search searches the i-th memtable, of which all up to a version is published and
// all of the older memtables was searched, for what came since the last search. It
// lifts all ranges to that version: so few entries of the memtable are newer than a
// range, and who skips the range looks at these few.
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
	// Ranges may only be lifted without the keys that have a value again.
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
			w.found, w.hidden = nil, 0 // the reader who needs what can't be read gets the error
		}
		// Deletes of which a quarter is in ranges have an order that is worth searching.
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
		t.ranges[j] = tombstone.Emptied(t.ranges[j].Lo, t.ranges[j].Hi, upTo)
	}
	t.upTo = upTo
}

// SearchWrites searches the writes of a transaction, which come in the order of keys,
// for what they will empty in a View. The ranges have no version before Committed.
func (t *Tracker) SearchWrites(writes iterator.Iterator, view Source) []Range {
	w := &walker{least: t.least, seed: t.seed, mine: writes, upTo: entry.MaxVersion - 1}
	if w.find(view.Below(-1, entry.MaxVersion-1)) != nil {
		return nil
	}
	return t.largest(w.found, mostRanges/2, view)
}

// Committed returns the ranges of SearchWrites that hold once the transaction is version
// v. Touched are the keys that others have committed since the View of that search.
func Committed(found []Range, touched [][]byte, v entry.Version) (c Change) {
	for _, r := range Cut(found, touched, func(lo, hi []byte) bool { return true }) {
		c.notes = append(c.notes, tombstone.Emptied(r.Lo, r.Hi, v))
	}
	return c
}

// largest leaves out ranges with few entries until there are at most that many: most.
func (t *Tracker) largest(ranges []Range, most int, view Source) []Range {
	for least := t.least; len(ranges) > most; least *= 2 {
		ranges = slices.DeleteFunc(ranges, func(r Range) bool { return view.Entries(r.Lo, r.Hi) <= least })
	}
	return ranges
}

// Prune forgets the ranges in which a View has few entries left, as a compaction has
// dropped what they spared. k is of that View.
func (t *Tracker) Prune(view Source, k *Known) (c Change) {
	few := func(r Range) bool { return view.Entries(r.Lo, r.Hi) < t.least }
	t.ranges = slices.DeleteFunc(t.ranges, few)
	t.publish(&c)
	c.searched.before = nil
	if c.was = k.noted.Load(); c.was != nil {
		c.pruned, c.remain = true, tombstone.EmptiedSet(slices.DeleteFunc(c.was.All(), few)...)
	}
	return c
}

// publish makes the ranges part of a Change.
func (t *Tracker) publish(c *Change) {
	c.searched = &searched{last: tombstone.EmptiedSet(t.ranges...), before: t.last}
	t.last = c.searched.last
}
