package layout

import (
	"slices"

	"github.com/brockdb/brock/internal/entry"
)

// AsOf returns the layout of a copy of the store that ends at version v and has no
// journal: the runs and segments of l, in which nothing is newer than v, and the
// keyspaces that then has, the layout when v was the newest version, at unixMilli. Of
// what was committed since, l may know versions, times and journal segments. It returns
// false if a keyspace was dropped since: runs may lack its entries.
func (l *Layout) AsOf(v entry.Version, then *Layout, unixMilli int64) (asOf *Layout, whole bool, err error) {
	if slices.ContainsFunc(then.keyspaces, func(k Keyspace) bool { return l.Keyspace(k.ID) == nil }) {
		return nil, false, nil
	}
	e := l.Snapshot()
	e.LastVersion, e.CleanClose = v, true
	// History may be gone below a version that the copy doesn't reach. What is visible at
	// v is there: of each key, all versions up to v are no newer than the newest of them.
	e.Floor = min(l.floor, v)
	e.SetKeyspaces, e.KeyspaceFloors = then.keyspaces, nil
	e.NextKeyspace = min(e.NextKeyspace, then.nextKeyspace) // the numbers of later ones count as free
	for _, k := range then.keyspaces {
		if floor := min(l.Keyspace(k.ID).floor, v); floor != 0 {
			e.KeyspaceFloors = append(e.KeyspaceFloors, KeyspaceFloor{ID: k.ID, Version: floor})
		}
	}
	e.Clock = slices.DeleteFunc(slices.Clone(l.clock), func(c ClockSample) bool { return c.Version >= v })
	e.Clock = append(e.Clock, ClockSample{Version: v, UnixMilli: unixMilli})
	e.JournalEnds = slices.DeleteFunc(slices.Clone(l.ends), func(j JournalEnd) bool { return j.Segment > l.flushedTo })
	asOf, err = New().Apply(e)
	return asOf, true, err
}

// WithoutJournal returns the layout without what it says of the journal behind the runs: how
// far that is durable.
func (l *Layout) WithoutJournal() (*Layout, error) {
	e := l.Snapshot()
	e.CleanClose = false
	e.JournalEnds = slices.DeleteFunc(slices.Clone(l.ends), func(j JournalEnd) bool { return j.Segment > l.flushedTo })
	return New().Apply(e)
}
