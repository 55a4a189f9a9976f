package tree

import (
	"bytes"
	"context"
	"sync"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/tombstone"
)

// A void is a range of keys in which deletes, one by one, have left nothing as of a
// version. It looks like a range tombstone, and an iterator skips what is older in
// the same way, but it deletes nothing: it only says what is so. So it is not
// recorded, history and conflict checks don't know it, and it is forgotten when its
// run is merged into the base: what it spares iterators is gone by then.
//
// Invariant: no reader at the version of a void, or later, sees a key in it of the
// memtable or run that has the void, or of an older one, but for later versions.

// leastVoid is how many keys in a row must have been deleted for a void: so many
// are skipped faster by a search than one by one.
func (t *Tree) leastVoid() int { return max(t.cfg.MemtableBytes>>15, 16) }

// voidStep is after how many deletes in the order of keys voids are looked for
// among them, while they are in memory.
func (t *Tree) voidStep() int { return max(t.cfg.MemtableBytes>>12, 64) }

// deletes follows those of a memtable; it is the commit leader's.
type deletes struct {
	up, down int    // that came after, and before, the key of the one before them
	noted    int    // of the more frequent ones, at the last note
	first    []byte // key of the first one since
	last     []byte // key of the last one
}

// add counts the delete of key, and returns true if it is time for a note.
func (d *deletes) add(key []byte, step int) bool {
	if d.last == nil {
		d.first = bytes.Clone(key)
	} else if c := bytes.Compare(key, d.last); c > 0 {
		d.up++
	} else if c < 0 {
		d.down++
	}
	d.last = append(d.last[:0], key...)
	return max(d.up, d.down)-d.noted >= step
}

// note notes the range between the first delete and the last one since the last
// note, to be searched for voids once all up to a version is published. It reports
// whether there is one.
func (m *table) note(v entry.Version) bool {
	d := &m.deletes
	if bytes.Equal(d.first, d.last) {
		return false
	}
	r := keyRange{d.first, bytes.Clone(d.last), v}
	if bytes.Compare(r.first, r.last) > 0 {
		r.first, r.last = r.last, r.first
	}
	d.noted, d.first = max(d.up, d.down), bytes.Clone(d.last)
	m.unsearched.mu.Lock()
	defer m.unsearched.mu.Unlock()
	m.unsearched.ranges = append(m.unsearched.ranges, r)
	return true
}

// keyRange is from a key to another, included, with deletes up to a version.
type keyRange struct {
	first, last []byte
	version     entry.Version
}

// unsearched are ranges that were noted.
type unsearched struct {
	mu     sync.Mutex
	ranges []keyRange

	found []tombstone.Tombstone // in ranges that were searched, see joined
}

// take returns the ranges of which all is published.
func (u *unsearched) take(visible entry.Version) (ranges []keyRange) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for n < len(u.ranges) && u.ranges[n].version <= visible {
		n++
	}
	ranges, u.ranges = u.ranges[:n:n], u.ranges[n:]
	return ranges
}

// runVoids looks for voids where the leader has noted many deletes.
func (t *Tree) runVoids(context.Context) error {
	t.work.searching.Lock()
	defer t.work.searching.Unlock()
	hold, err := t.hold()
	if err != nil {
		return nil // closed
	}
	defer hold.Release()
	v := hold.view
	visible := t.Visible() // what is published is in the memtables
	for i, m := range v.tables {
		for _, r := range m.unsearched.take(visible) {
			for _, d := range t.voids(m, &View{tables: v.tables[i+1:], runs: v.runs}, r) {
				m.unsearched.found = m.joined(m.unsearched.found, d)
			}
			m.voids.Store(tombstone.Voids(m.unsearched.found...))
		}
	}
	return nil
}

// joined is the list with a void that was found later. If that goes on from the
// last one, up or down, and nothing came to that one since, they are one: then few
// entries of the memtable are newer, among which one who skips has to look.
func (m *table) joined(list []tombstone.Tombstone, d tombstone.Tombstone) []tombstone.Tombstone {
	if n := len(list); n > 0 {
		last := &list[n-1]
		meet := bytes.Compare(d.Lo, last.Hi) <= 0 && bytes.Compare(last.Lo, d.Hi) <= 0
		if meet && !m.ChangedSince(last.Lo, last.Hi, last.Version-1) {
			if bytes.Compare(last.Lo, d.Lo) < 0 {
				d.Lo = last.Lo
			}
			if bytes.Compare(last.Hi, d.Hi) > 0 {
				d.Hi = last.Hi
			}
			return append(list[:n-1:n-1], d)
		}
	}
	return append(list, d)
}

// voids finds those that a memtable makes in a range, of what is below it; without
// bounds, everywhere.
func (t *Tree) voids(m *table, below *View, in keyRange) []tombstone.Tombstone {
	v := &voider{least: t.leastVoid(), seed: t.cfg.Seed, table: m, upTo: in.version}
	if err := v.find(below, in); err != nil {
		return nil // whoever needs what can't be read is told
	}
	return v.found
}

// flushedVoids are those of a sealed memtable that is about to be a run.
func (t *Tree) flushedVoids(sealed *table, runs []*sortedRun) *tombstone.Set {
	noted := sealed.voids.Load()
	if max(sealed.deletes.up, sealed.deletes.down) < t.leastVoid() {
		return noted
	}
	if all := t.voids(sealed, &View{runs: runs}, keyRange{version: entry.MaxVersion - 1}); all != nil {
		return tombstone.Voids(all...)
	}
	return noted
}

// voider walks the deletes of a memtable and, beside them, the keys below. It
// looks at no more keys than the memtable deletes, and some of those between.
type voider struct {
	least int
	seed  uint64
	table *table
	upTo  entry.Version
	found []tombstone.Tombstone

	mine  iterator.Iterator
	older iterator.Iterator
	cover *tombstone.Cover // of what older walks
	at    bool             // older is at an entry

	lo, hi  []byte // the first and last key of the row of deletes
	version entry.Version
	keys    int
	passed  []byte // scratch: a key that a walk leaves
}

func (v *voider) find(below *View, in keyRange) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	v.mine, v.older, v.cover = v.table.Iterator(), below.iterator(), below.cover(entry.MaxVersion-1, true)
	defer v.mine.Close()
	defer v.older.Close()
	lo, hi := in.first, in.last
	ok := false
	if lo == nil {
		ok = v.mine.First()
	} else {
		ok = v.mine.SeekGE(lo)
	}
	for ok {
		e := v.mine.Entry()
		switch {
		case hi != nil && bytes.Compare(e.Key, hi) > 0:
			ok = false
			continue
		case e.Kind != entry.Delete || e.Version > v.upTo:
			v.end()
		case v.keys == 0:
			v.begin(e)
		case !v.alive(e.Key):
			v.keys++
			v.hi, v.version = append(v.hi[:0], e.Key...), max(v.version, e.Version)
		case v.keys >= v.least:
			v.end()
			v.begin(e)
		default:
			// Where something is alive between deletes, there will be more of it.
			v.end()
			ok = v.skip(v.least / 2)
			continue
		}
		ok = v.nextKey(e.Key)
	}
	v.end()
	if err := v.older.Err(); err != nil {
		return err
	}
	return v.mine.Err()
}

// begin begins a row with a delete.
func (v *voider) begin(e *entry.Entry) {
	v.lo, v.hi = append(v.lo[:0], e.Key...), append(v.hi[:0], e.Key...)
	v.version, v.keys = e.Version, 1
	v.at = v.older.SeekGE(e.Key)
}

// end makes a void of the row, if it is long enough: up to just behind its last key.
func (v *voider) end() {
	if v.keys >= v.least {
		if d := tombstone.Void(bytes.Clone(v.lo), append(bytes.Clone(v.hi), 0), v.version); d.Valid() {
			v.found = append(v.found, d)
		}
	}
	v.keys = 0
}

// skip moves mine over n entries and to the newest one of a key.
func (v *voider) skip(n int) bool {
	for range n {
		if !v.mine.Next() {
			return false
		}
	}
	if e := v.mine.Entry(); !v.newest(e) {
		return v.nextKey(e.Key)
	}
	return true
}

// nextKey moves mine to the newest entry of the next key.
func (v *voider) nextKey(key []byte) bool {
	v.passed = append(v.passed[:0], key...)
	for v.mine.Next() {
		if !bytes.Equal(v.mine.Entry().Key, v.passed) {
			return true
		}
	}
	return false
}

// newest reports whether e is the newest entry of its key in the memtable.
func (v *voider) newest(e *entry.Entry) bool {
	newest, found := v.table.Newest(e.Key, hash.Sum(v.seed, e.Key))
	return found && newest == e.Version
}

// alive reports whether there is something below between the last key of the row
// and the next one. It leaves older behind the last key.
func (v *voider) alive(next []byte) bool {
	for v.at && bytes.Compare(v.older.Entry().Key, next) < 0 {
		e := v.older.Entry()
		if bytes.Compare(e.Key, v.hi) > 0 && e.Kind != entry.Delete && (v.cover == nil || v.cover.Newest(e.Key) <= e.Version) {
			return true
		}
		v.at = v.skipVersions(e.Key)
	}
	return false
}

// skipVersions moves older to the next key.
func (v *voider) skipVersions(key []byte) bool {
	v.passed = append(v.passed[:0], key...)
	for v.older.Next() {
		if !bytes.Equal(v.older.Entry().Key, v.passed) {
			return true
		}
	}
	return false
}

// keptVoids are those of merged runs that go on.
func keptVoids(inputs []*sortedRun, bottom bool) *tombstone.Set {
	if bottom {
		return nil
	}
	sets := make([]*tombstone.Set, 0, len(inputs))
	for i := range inputs {
		sets = append(sets, inputs[len(inputs)-1-i].voids)
	}
	return tombstone.Union(sets...)
}
