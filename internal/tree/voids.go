package tree

import (
	"bytes"
	"context"
	"math"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/tombstone"
	"github.com/brockdb/brock/internal/view"
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

// late reports whether more deletes than should be have not been searched. Where
// voids are not to be expected, the task may be late by a whole step.
func (t *Tree) late(m *view.Table) bool {
	n, misses := m.Deletes.Added.Load(), m.Deletes.Misses.Load()
	due := max(m.Deletes.Due.Load(), t.voidStep())
	if misses > 0 {
		due += t.voidStep() << misses
	}
	return n > 0 && n >= due
}

// due reports whether m is to be searched.
func (t *Tree) due(m *view.Table) bool {
	n := m.Deletes.Added.Load()
	return n > 0 && (n >= max(m.Deletes.Due.Load(), t.voidStep()) ||
		m.Emptied.Load() != nil && int64(m.Len())-m.Deletes.Walked.Load() >= freshEvery)
}

// CatchUp is called by a committer whose commit is published, with no lock held: it
// searches for voids if the task that does so is late.
func (t *Tree) CatchUp() {
	late := func() bool { return slices.ContainsFunc(t.views.Current().Tables, t.late) }
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
	hold, err := t.views.Hold()
	if err != nil {
		return // closed
	}
	defer hold.Release()
	for i, m := range hold.View().Tables {
		below := &view.View{ID: hold.View().ID, Tables: hold.View().Tables[i+1:], Runs: hold.View().Runs}
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
func (t *Tree) search(m *view.Table, below *view.View, upTo entry.Version) {
	d, entries := &m.Deletes, m.Len()
	defer d.Walked.Store(int64(entries))
	if d.UpTo >= upTo || d.Added.Load()-d.Searched < int64(t.leastVoid()) && len(d.Ranges) == 0 {
		return
	}
	many := func(lo, hi []byte, least int) bool { return m.Between(lo, hi) > least || below.Entries(lo, hi) > least }
	fresh := int64(0)
	var seeds, alive [][]byte
	var e entry.Entry
	m.Arrivals(d.UpTo, upTo, func(key []byte, kind entry.Kind) {
		if kind != entry.Delete {
			if d.Has(key) && !(m.Get(key, hash.Sum(t.cfg.Seed, key), upTo, &e) && e.Kind == entry.Delete) {
				alive = append(alive, key)
			}
			return
		}
		if uint32(fresh)*goldenRatio <= math.MaxUint32/uint32(t.seedEvery()) {
			seeds = append(seeds, key)
		}
		fresh++
	})
	d.Cut(alive, func(lo, hi []byte) bool { return many(lo, hi, t.leastVoid()) })
	if fresh > 0 {
		slices.SortFunc(seeds, bytes.Compare)
		if 4*t.searchAround(m, below, upTo, seeds) >= fresh {
			d.Misses.Store(0)
		} else if fresh >= t.voidStep() {
			d.Misses.Store(min(d.Misses.Load()+1, maxMisses))
		}
	}
	for least := t.leastVoid(); len(d.Ranges) > mostVoids; least *= 2 {
		d.Ranges = slices.DeleteFunc(d.Ranges, func(v tombstone.Tombstone) bool { return !many(v.Lo, v.Hi, least) })
	}
	for i := range d.Ranges {
		d.Ranges[i].Version = upTo + 1 // see tombstone.Emptied
	}
	d.UpTo = upTo
	d.Searched += fresh
	d.Due.Store(d.Searched + t.voidStep()<<d.Misses.Load())
	n := &view.EmptiedSince{Set: tombstone.EmptiedSet(d.Ranges...), View: below.ID}
	if last := m.Emptied.Load(); last != nil {
		n.Before = &view.EmptiedSince{Set: last.Set, View: last.View}
	}
	m.Emptied.Store(n)
}

// searchAround searches around some late deletes or, without any, all of m. It returns
// how many keys are in voids that were not.
func (t *Tree) searchAround(m *view.Table, below *view.View, upTo entry.Version, seeds [][]byte) (hidden int64) {
	d := &m.Deletes
	v := &voider{least: t.leastVoid(), seed: t.cfg.Seed, mine: m.Iterator(), table: m, since: d.UpTo + 1, upTo: upTo, seedEvery: t.seedEvery(), seeds: seeds, known: slices.Clone(d.Ranges)}
	if err := v.find(below); err != nil {
		return 0 // whoever needs what can't be read is told
	}
	for _, f := range v.found {
		d.Join(f)
	}
	return v.hidden
}
