package garbage

import (
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/view"
)

// Live estimates how many bytes of runs and of value segments entries still need. What
// upper runs and memtables replace in older ones is known from samples, taken since
// Open; what was replaced before counts as live until a compaction finds it.
func Live(v *view.View) (runs, segments int64) {
	var entries, separated, stale, hidden, either int64
	for _, r := range v.Runs {
		m := r.Meta()
		runs += int64(m.FileBytes())
		entries += int64(m.Entries)
		separated += int64(m.SeparatedBytes)
		stale += r.Stale + int64(m.Deletes)
		hidden += max(r.Hidden-r.Ranged, 0) // Hidden has what range deletes hide, too
		either += r.Ranged + r.Dropped.Load()
	}
	for _, m := range v.Tables {
		stale += m.ReplacedEntries.Load()
		hidden += m.Replaced.Load() + m.Outdated.Load()
	}
	// Range deletes and dropped keyspaces hide keys and values of both kinds.
	inline := int64(float64(either) * float64(runs) / float64(max(separated+runs, 1)))
	for _, s := range v.Layout.Segments() {
		if s.State().Status == layout.Live {
			segments += int64(s.FileBytes - min(s.DeadBytes(), s.FileBytes))
		}
	}
	share := float64(stale) / float64(max(entries, 1)) // entries are taken to be of one size
	runs -= min(runs, int64(share*float64(runs))+inline)
	return runs, segments - min(segments, hidden+either-inline)
}
