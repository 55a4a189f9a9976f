package view

import (
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
)

// EstimateLive estimates how many bytes of runs and of value segments entries still need at a time,
// in Unix milliseconds, retained history included. What upper runs and memtables have replaced in
// older ones is known by samples, taken since Open; what was replaced before counts as live until a
// compaction finds it.
func (v *View) EstimateLive(o *policy.Options, now uint64) (runs, segments int64) {
	var separated, dead, hidden, either int64
	count := func(list []layout.Superseded) (values int64) {
		sum := o.Dead(v.Layout, list, now)
		dead += int64(sum.Bytes)
		return int64(sum.Separated)
	}
	for _, r := range v.Runs {
		m := r.Meta()
		runs += int64(m.FileBytes())
		separated += int64(m.SeparatedBytes)
		dead += int64(m.FileBytes() / max(m.Entries, 1) * m.Deletes) // they take room, and hide as much
		replaced, ranged := count(r.Replaced), r.Ranged
		if r.Replaced != nil { // it has what range deletes hide, too
			ranged = min(ranged, replaced)
			hidden -= ranged
		}
		hidden += replaced + count(v.Layout.Run(r.ID).Superseded)
		either += ranged + r.Dropped.Load()
	}
	for _, m := range v.Tables {
		hidden += count(m.Replaced.List()) + count(m.Outdated.List())
	}
	// Range deletes and dropped keyspaces hide keys and values of both kinds.
	inline := int64(float64(either) * float64(runs) / float64(max(separated+runs, 1)))
	for _, s := range v.Layout.Segments() {
		if s.State().Status == layout.Live {
			segments += int64(s.FileBytes - min(s.DeadBytes(), s.FileBytes))
		}
	}
	return runs - min(runs, dead+inline), segments - min(segments, hidden+either-inline)
}
