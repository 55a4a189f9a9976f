package view

import (
	"bytes"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/tombstone"
)

// Deletes follows the deletes of a memtable, and the ranges that they have
// emptied. The search for these belongs to one goroutine at a time.
type Deletes struct {
	Added  atomic.Int64 // by the commit leader
	Due    atomic.Int64 // how many there are when the next search is due; 0 = none was yet
	Misses atomic.Int32 // searches in a row that have found little
	Walked atomic.Int64 // entries there were at the last one

	// Of the goroutine that searches:
	Searched int64                 // of Added
	UpTo     entry.Version         // the last search has met all up to this
	Ranges   []tombstone.Tombstone // as of then, apart from each other and in order
}

// Has reports whether a key is in an emptied range.
func (d *Deletes) Has(key []byte) bool {
	i := sort.Search(len(d.Ranges), func(i int) bool { return bytes.Compare(d.Ranges[i].Hi, key) > 0 })
	return i < len(d.Ranges) && bytes.Compare(d.Ranges[i].Lo, key) <= 0
}

// Cut takes keys, which have a value again, out of the ranges. A part that is left
// stays if enough says that it is worth it.
func (d *Deletes) Cut(keys [][]byte, enough func(lo, hi []byte) bool) {
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, bytes.Compare)
	var parts []tombstone.Tombstone
	for _, v := range d.Ranges {
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
	d.Ranges = parts
}

// after is key, or the least one after it unless that is within.
func after(key []byte, within bool) []byte {
	if within {
		return key
	}
	return append(bytes.Clone(key), 0)
}

// Join adds a range, and makes one of those that meet.
func (d *Deletes) Join(f tombstone.Tombstone) {
	from := sort.Search(len(d.Ranges), func(i int) bool { return bytes.Compare(d.Ranges[i].Hi, f.Lo) >= 0 })
	to := from
	for ; to < len(d.Ranges) && bytes.Compare(d.Ranges[to].Lo, f.Hi) <= 0; to++ {
		if v := &d.Ranges[to]; bytes.Compare(v.Lo, f.Lo) < 0 {
			f.Lo = v.Lo
		}
		if v := &d.Ranges[to]; bytes.Compare(v.Hi, f.Hi) > 0 {
			f.Hi = v.Hi
		}
	}
	d.Ranges = slices.Replace(d.Ranges, from, to, f)
}

// EmptiedSince are the emptied ranges that a search has left, and those of the search
// before it: readers pinned between two searches use the older result.
type EmptiedSince struct {
	*tombstone.Set
	View   uint64 // the number of the one that was searched
	Before *EmptiedSince
}

// in are those that hold in a View.
func (n *EmptiedSince) in(v *View) (sets []*tombstone.Set) {
	for ; n != nil; n = n.Before {
		if v.ID >= n.View {
			sets = append(sets, n.Set)
		}
	}
	return sets
}

// All are those that hold in later Views.
func (n *EmptiedSince) All() *tombstone.Set {
	if n == nil {
		return nil
	}
	return tombstone.Union(n.Before.All(), n.Set)
}
