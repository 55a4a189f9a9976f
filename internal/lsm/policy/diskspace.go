package policy

import (
	"slices"

	"github.com/brockdb/brock/internal/version/layout"
)

// Work that doesn't fit on the disk is not planned: it would fill the disk, and then fail.

// hasDiskSpace reports whether there is disk space for what a compaction writes.
func (v *balance) hasDiskSpace(c *Compaction) bool {
	return v.state.DiskSpace == 0 || c.Writes(v.layout, v.state.Ranged) <= uint64(v.state.DiskSpace)
}

// Writes estimates how many bytes the compaction writes, if so many bytes of older runs are hidden by
// the range deletes of runs (State.Ranged). The estimate is rather too high than too low.
func (c *Compaction) Writes(l *layout.Layout, ranged map[layout.RunID]uint64) (n uint64) {
	for _, id := range c.Runs {
		n += l.Run(id).FileBytes()
	}
	// Deletes must stay while an older run may have what they hide.
	if slices.Contains(c.Runs, l.Runs()[len(l.Runs())-1].ID) {
		n -= c.estimateDropped(l, ranged)
	}
	for _, num := range c.Cluster {
		n += weighSegment(l.Segment(num)).live
	}
	return n
}

// estimateDropped estimates how many bytes a compaction into the base does not write: those of each
// delete, of one entry that it deletes, and of what range deletes hide. Without the latter, a disk that
// is full of what a range delete has deleted would stay full.
func (c *Compaction) estimateDropped(l *layout.Layout, ranged map[layout.RunID]uint64) uint64 {
	var bytes, values, entries, deletes, hidden uint64
	for _, id := range c.Runs {
		r := l.Run(id)
		bytes, values, entries, deletes = bytes+r.FileBytes(), values+r.SeparatedBytes, entries+r.Entries, deletes+r.Deletes
		hidden += ranged[id]
	}
	deleted := bytes / max(entries, 1) * min(2*deletes, entries)
	share := min(1, float64(hidden)/float64(max(bytes+values, 1))) // Ranged counts separated values, too
	return min(bytes, deleted+uint64(share*float64(bytes)))
}

// planSmaller returns a compaction for when a larger one is worth it but does not fit on the disk:
// of as many of the newest runs as fit; nil if these are too few.
func (v *balance) planSmaller() *Compaction {
	uppers, _ := splitBase(v.layout.Runs())
	// Fewer than leastRuns would be rewritten again at once.
	for n := len(uppers); n >= leastRuns; n-- {
		if c := newCompaction(uppers[:n], "there is no disk space for more"); v.hasDiskSpace(c) {
			return c
		}
	}
	return nil
}
