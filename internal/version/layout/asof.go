package layout

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// AsOf returns the layout of a copy of the store that ends at version v and has no journal. l
// is the layout now: its runs and segments, which have nothing newer than v, are those of the
// copy. then is the layout when v was the newest version, at unixMilli (Unix milliseconds):
// its keyspaces are those of the copy. Versions, times and journal segments that l knows of
// later commits are left out. whole is false, and there is no layout, if a keyspace was
// dropped since then: runs may lack its entries.
func (l *Layout) AsOf(v entry.Version, then *Layout, unixMilli int64) (asOf *Layout, whole bool, err error) {
	if slices.ContainsFunc(then.keyspaces, func(k Keyspace) bool { return l.Keyspace(k.ID) == nil }) {
		return nil, false, nil
	}
	e := l.Snapshot()
	e.LastVersion, e.Lasting, e.CleanClose = v, v, true
	e.Sessions = nil // what is made of it is another copy
	e.FeedSegments, e.FeedCommits = nil, nil
	// The floor may be above v by now. What is visible at v is there all the same: of each
	// key a compaction keeps the newest version that is not above the floor, and the runs
	// have no version above v.
	e.Floor = min(l.floor, v)
	e.SetKeyspaces, e.KeyspaceFloors = then.keyspaces, nil
	e.NextKeyspace = min(e.NextKeyspace, then.nextKeyspace) // the numbers of later ones count as free
	for _, k := range then.keyspaces {
		if floor := min(l.Keyspace(k.ID).floor, v); floor != 0 {
			e.KeyspaceFloors = append(e.KeyspaceFloors, KeyspaceFloor{ID: k.ID, Version: floor})
		}
	}
	e.Clock = slices.DeleteFunc(slices.Clone(l.clock), func(c ClockSample) bool { return c.Version >= v })
	// Later samples name versions that the copy lacks. This one says when v was the newest.
	e.Clock = append(e.Clock, ClockSample{Version: v, UnixMilli: unixMilli})
	// The copy has no journal, so it must not be told to look for later segments.
	e.JournalEnds = slices.DeleteFunc(slices.Clone(l.ends), func(e frame.End) bool { return e.File > l.flushedTo })
	asOf, err = New().Apply(e)
	return asOf, true, err
}
