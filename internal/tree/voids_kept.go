package tree

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/tombstone"
	"github.com/brockdb/brock/internal/view"
)

// What becomes of voids when a memtable is flushed, and when runs are merged.

// flushedVoids are those of a sealed memtable that is about to be a run, beside those
// that are noted.
func (t *Tree) flushedVoids(sealed *view.Table, runs []*view.Run) *tombstone.Set {
	if sealed.Deletes.Added.Load() < int64(t.leastVoid()) {
		return nil
	}
	v := &voider{least: t.leastVoid(), seed: t.cfg.Seed, mine: sealed.Iterator(), table: sealed, upTo: entry.MaxVersion - 1}
	if err := v.find(&view.View{Runs: runs}); err != nil || v.found == nil {
		return nil
	}
	return tombstone.EmptiedSet(v.found...)
}

// keptVoids are those of merged runs that go on.
func keptVoids(inputs []*view.Run) *tombstone.Set {
	sets := make([]*tombstone.Set, 0, len(inputs))
	for i := range inputs {
		sets = append(sets, inputs[len(inputs)-1-i].Emptied)
	}
	return tombstone.Union(sets...)
}

// sparing are those voids that spare a walk of r many entries, if r is the oldest
// run: there, deletes and what they hide stay only for readers of older versions
// and for history. There are at most mostVoids. Where nothing of r is newer than a
// void, that is so as of the last version of r too: then a chunk in which two voids
// meet need not be walked for what is newer than the older one.
func sparing(r *view.Run, voids *tombstone.Set, least int) (kept *tombstone.Set) {
	var fault error
	defer pageio.Guard(pageio.Arm(), &fault, mapped)
	type sized struct {
		tombstone.Tombstone
		entries uint64
	}
	var all []sized
	for _, v := range tombstone.Flatten(entry.MaxVersion, voids) {
		if entries, _, _ := r.Size(v.Lo, v.Hi); entries >= uint64(least) {
			if changed, err := r.ChangedSince(v.Lo, v.Hi, v.Version-1); err == nil && !changed {
				v.Version = max(v.Version, r.MaxVersion()+1)
			}
			all = append(all, sized{v, entries})
		}
	}
	slices.SortFunc(all, func(a, b sized) int { return cmp.Compare(b.entries, a.entries) })
	flat := make([]tombstone.Tombstone, min(len(all), mostVoids))
	for i := range flat {
		flat[i] = all[i].Tombstone
	}
	return tombstone.EmptiedSet(flat...)
}
