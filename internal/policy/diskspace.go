package policy

import "github.com/brockdb/brock/internal/manifest"

// Room: what doesn't fit on the disk is not begun. It would fill the disk, fail,
// and have been for nothing.

// fits reports whether there is room for what a merge writes.
func (s State) fits(l *manifest.Layout, m *Compaction) bool {
	return s.DiskSpace == 0 || m.Writes(l) <= uint64(s.DiskSpace)
}

// Writes estimates how many bytes the merge writes, rather more than less.
func (m *Compaction) Writes(l *manifest.Layout) (n uint64) {
	for _, id := range m.Runs {
		n += l.Run(id).FileBytes()
	}
	if m.Into == manifest.Base {
		n -= deleted(l, m)
	}
	for _, num := range m.Cluster {
		v := weighSegment(l.Segment(num))
		n += v.live
	}
	return n
}

// deleted estimates what a merge into the base drops: each delete, and an entry for it.
func deleted(l *manifest.Layout, m *Compaction) uint64 {
	var bytes, entries, deletes uint64
	for _, id := range m.Runs {
		r := l.Run(id)
		bytes, entries, deletes = bytes+r.FileBytes(), entries+r.Entries, deletes+r.Deletes
	}
	return bytes / max(entries, 1) * min(2*deletes, entries)
}

// smaller is the largest row of the newest runs that fits, where more would be
// worth merging; nil if there is none.
func smaller(l *manifest.Layout, s State) *Compaction {
	uppers, _ := split(l.Runs())
	for n := len(uppers); n >= idleRow; n-- {
		if m := into(manifest.Upper, uppers[:n], "there is no room for more"); s.fits(l, m) {
			return m
		}
	}
	return nil
}
