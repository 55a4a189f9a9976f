package tree

import (
	"bytes"
	"context"
	"math"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/tombstone"
)

// A void is a range of keys in which deletes, one by one, have left nothing as of a
// version. It looks like a range tombstone, and an iterator skips what is older in
// the same way, but it deletes nothing: it only says what is so. So it is not
// recorded, history and conflict checks don't know it, and it is forgotten when its
// run is merged into the base: what it spares iterators is gone by then, unless it
// is kept for readers of older versions or for history.
//
// Invariant: no reader at the version of a void, or later, sees a key in it of the
// memtable or run that has the void, or of an older one, but for later versions.
// It holds in the View that was searched, and in later ones: who has an older one
// may see in it what a merge has dropped since, which had expired, or was of a
// keyspace that is gone.
//
// Invariant: once a commit has returned, fewer than voidStep deletes of a memtable
// are published and not searched, but for those that others commit meanwhile, and
// for deletes of an order in which the last search has found little. It bounds what a
// seek walks after deletes in the order of keys. As the task that searches may be late,
// a committer who comes upon more does its work (CatchUp).

// leastVoid is how many keys in a row must have been deleted for a void: so many
// are skipped faster by a search than one by one.
func (t *Tree) leastVoid() int { return max(t.cfg.MemtableBytes>>17, 16) }

// voidStep is after how many deletes voids are looked for among them, while they
// are in memory. A seek that meets so many takes about a millisecond.
func (t *Tree) voidStep() int64 { return int64(max(t.cfg.MemtableBytes>>14, 64)) }

// seedEvery is how many deletes there are to one at which a search begins.
func (t *Tree) seedEvery() int { return t.leastVoid() / 8 }

const (
	maxMisses  = 3       // a search that finds nothing doubles the next step, so often
	mostVoids  = 1 << 10 // of a memtable
	freshEvery = 1 << 14 // entries after which voids are said anew, see search

	// Its multiples are spread evenly, also every second, third or fourth: of
	// goroutines that delete in turn, each one's deletes are seeds now and then.
	goldenRatio uint32 = 0x9e3779b9
)

// deletes follows those of a memtable.
type deletes struct {
	added  atomic.Int64 // by the commit leader
	due    atomic.Int64 // how many there are when the next search is due; 0 = none was yet
	misses atomic.Int32 // searches in a row that have found little
	walked atomic.Int64 // entries there were at the last one

	// Guarded by background.searching.
	searched int64                 // of added
	upTo     entry.Version         // the last search has met all up to this
	voids    []tombstone.Tombstone // as of then, apart from each other and in order
}

// noted are the voids that a search has left, and those of the search before it:
// who began to read between both goes by these.
type noted struct {
	*tombstone.Set
	view   uint64 // that was searched
	before *noted
}

// in are those that hold in a View.
func (n *noted) in(v *View) (sets []*tombstone.Set) {
	for ; n != nil; n = n.before {
		if v.id >= n.view {
			sets = append(sets, n.Set)
		}
	}
	return sets
}

// all are those that hold in later Views.
func (n *noted) all() *tombstone.Set {
	if n == nil {
		return nil
	}
	return tombstone.Union(n.before.all(), n.Set)
}

// late reports whether more deletes than should be have not been searched. Where
// voids are not to be expected, the task may be late by a whole step.
func (t *Tree) late(m *table) bool {
	n, misses := m.deletes.added.Load(), m.deletes.misses.Load()
	due := max(m.deletes.due.Load(), t.voidStep())
	if misses > 0 {
		due += t.voidStep() << misses
	}
	return n > 0 && n >= due
}

// due reports whether m is to be searched.
func (t *Tree) due(m *table) bool {
	n := m.deletes.added.Load()
	return n > 0 && (n >= max(m.deletes.due.Load(), t.voidStep()) ||
		m.voids.Load() != nil && int64(m.Len())-m.deletes.walked.Load() >= freshEvery)
}

// CatchUp is called by a committer whose commit is published, with no lock held: it
// searches for voids if the task that does so is late.
func (t *Tree) CatchUp() {
	late := func() bool { return slices.ContainsFunc(t.views.current.Load().tables, t.late) }
	if late() {
		t.searchIf(late)
	}
}

// runVoids looks for voids where the leader has counted many deletes.
func (t *Tree) runVoids(context.Context) error {
	t.searchIf(func() bool { return true })
	return nil
}

// searchIf searches all memtables, if that is still needed once it may.
func (t *Tree) searchIf(needed func() bool) {
	t.work.searching.Lock()
	defer t.work.searching.Unlock()
	if !needed() {
		return
	}
	visible := t.Visible() // before the View is taken, which has all up to it then
	hold, err := t.hold()
	if err != nil {
		return // closed
	}
	defer hold.Release()
	for i, m := range hold.view.tables {
		below := &View{id: hold.view.id, tables: hold.view.tables[i+1:], runs: hold.view.runs}
		// What is newer is in newer memtables, of which m's voids say nothing.
		t.search(m, below, min(visible, m.MaxVersion()))
	}
}

// search looks for voids that the deletes make that came to m since the last search,
// of which all up to a version is published, and nothing newer is in newer memtables
// up to it.
//
// All that is found is said to be so as of that version: then few entries of the
// memtable are newer, among which one who skips has to look.
func (t *Tree) search(m *table, below *View, upTo entry.Version) {
	d, entries := &m.deletes, m.Len()
	defer d.walked.Store(int64(entries))
	if d.upTo >= upTo || d.added.Load()-d.searched < int64(t.leastVoid()) && len(d.voids) == 0 {
		return
	}
	many := func(lo, hi []byte, least int) bool { return m.Between(lo, hi) > least || below.entries(lo, hi) > least }
	fresh := int64(0)
	var seeds, alive [][]byte
	var e entry.Entry
	m.Arrivals(d.upTo, upTo, func(key []byte, kind entry.Kind) {
		if kind != entry.Delete {
			if d.void(key) && !(m.Get(key, hash.Sum(t.cfg.Seed, key), upTo, &e) && e.Kind == entry.Delete) {
				alive = append(alive, key)
			}
			return
		}
		if uint32(fresh)*goldenRatio <= math.MaxUint32/uint32(t.seedEvery()) {
			seeds = append(seeds, key)
		}
		fresh++
	})
	d.cut(alive, func(lo, hi []byte) bool { return many(lo, hi, t.leastVoid()) })
	if fresh > 0 {
		slices.SortFunc(seeds, bytes.Compare)
		if 4*t.searchAround(m, below, upTo, seeds) >= fresh {
			d.misses.Store(0)
		} else if fresh >= t.voidStep() {
			d.misses.Store(min(d.misses.Load()+1, maxMisses))
		}
	}
	for least := t.leastVoid(); len(d.voids) > mostVoids; least *= 2 {
		d.voids = slices.DeleteFunc(d.voids, func(v tombstone.Tombstone) bool { return !many(v.Lo, v.Hi, least) })
	}
	for i := range d.voids {
		d.voids[i].Version = upTo + 1 // see tombstone.Emptied
	}
	d.upTo = upTo
	d.searched += fresh
	d.due.Store(d.searched + t.voidStep()<<d.misses.Load())
	n := &noted{Set: tombstone.EmptiedSet(d.voids...), view: below.id}
	if last := m.voids.Load(); last != nil {
		n.before = &noted{Set: last.Set, view: last.view}
	}
	m.voids.Store(n)
}

// searchAround searches around some late deletes or, without any, all of m. It returns
// how many keys are in voids that were not.
func (t *Tree) searchAround(m *table, below *View, upTo entry.Version, seeds [][]byte) (hidden int64) {
	d := &m.deletes
	v := &voider{least: t.leastVoid(), seed: t.cfg.Seed, mine: m.Iterator(), table: m, since: d.upTo + 1, upTo: upTo, seedEvery: t.seedEvery(), seeds: seeds, known: slices.Clone(d.voids)}
	if err := v.find(below); err != nil {
		return 0 // whoever needs what can't be read is told
	}
	for _, f := range v.found {
		d.join(f)
	}
	return v.hidden
}

// void reports whether a key is in a void.
func (d *deletes) void(key []byte) bool {
	i := sort.Search(len(d.voids), func(i int) bool { return bytes.Compare(d.voids[i].Hi, key) > 0 })
	return i < len(d.voids) && bytes.Compare(d.voids[i].Lo, key) <= 0
}

// cut takes keys of voids, of which there is something, out of them; what is left is
// a void if it still has as many entries as one should.
func (d *deletes) cut(keys [][]byte, enough func(lo, hi []byte) bool) {
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, bytes.Compare)
	var parts []tombstone.Tombstone
	for _, v := range d.voids {
		from, whole := v.Lo, true
		for ; len(keys) > 0 && bytes.Compare(keys[0], v.Hi) < 0; keys = keys[1:] {
			if enough(from, keys[0]) {
				parts = append(parts, tombstone.Tombstone{Lo: after(from, whole), Hi: bytes.Clone(keys[0]), Version: v.Version})
			}
			from, whole = keys[0], false
		}
		if whole || enough(from, v.Hi) {
			parts = append(parts, tombstone.Tombstone{Lo: after(from, whole), Hi: v.Hi, Version: v.Version})
		}
	}
	d.voids = parts
}

// after is key, or the least one after it unless that is within.
func after(key []byte, within bool) []byte {
	if within {
		return key
	}
	return append(bytes.Clone(key), 0)
}

// join adds a void, and makes one of those that meet.
func (d *deletes) join(f tombstone.Tombstone) {
	from := sort.Search(len(d.voids), func(i int) bool { return bytes.Compare(d.voids[i].Hi, f.Lo) >= 0 })
	to := from
	for ; to < len(d.voids) && bytes.Compare(d.voids[to].Lo, f.Hi) <= 0; to++ {
		if v := &d.voids[to]; bytes.Compare(v.Lo, f.Lo) < 0 {
			f.Lo = v.Lo
		}
		if v := &d.voids[to]; bytes.Compare(v.Hi, f.Hi) > 0 {
			f.Hi = v.Hi
		}
	}
	d.voids = slices.Replace(d.voids, from, to, f)
}
