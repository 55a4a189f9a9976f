package policy

import (
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/version/layout"
)

// After a change of the data key, files under older keys are rewritten if a user has asked for that
// (layout.DataKey). All other work comes first. Segments are rewritten before runs: collections
// leave forwarding tables behind, and the compactions that rewrite runs also remove those.

// planOldSegments returns the collection of segments that are under an old key, whatever garbage
// they have; nil if none can be collected, or there are too many forwarding tables.
func (v *balance) planOldSegments() *Collection {
	var old []segment
	for _, m := range v.layout.Segments() {
		if g := weighSegment(m); v.isOld(m.KeyID) && m.State().Status != layout.Relocated && v.isMovable(m, g) {
			old = append(old, g)
		}
	}
	return v.collectFrom(old, "their data key is an old one", func(*segment, uint64) bool { return true })
}

// planOldRun returns the compaction of one run alone: the oldest with a file under an old key and
// no damaged file; nil if there is none.
func (v *balance) planOldRun() *Compaction {
	old := func(f layout.RunFile) bool { return v.isOld(f.KeyID) }
	damaged := func(f layout.RunFile) bool { return slices.Contains(v.state.Damaged, f.Num) }
	// The oldest first: a compaction of newer ones may come anyway, and rewrites them for free.
	for _, r := range slices.Backward(v.layout.Runs()) {
		if slices.ContainsFunc(r.Files, old) && !slices.ContainsFunc(r.Files, damaged) {
			c := newCompaction([]*layout.Run{r}, "its data key is an old one")
			c.Rekey = true
			return c
		}
	}
	return nil
}

// awaitsForwardings reports whether the rewriting has to wait until forwarding tables are removed:
// one is under an old key, or leads to a segment that is; or a segment is to be rewritten, and
// there can be no more forwarding tables.
func (v *balance) awaitsForwardings() bool {
	for _, m := range v.layout.Segments() {
		st := m.State()
		switch {
		case st.Status == layout.Relocated && (v.isOld(st.KeyID) || v.isOld(v.layout.Segment(st.Target).KeyID)):
			return true
		case st.Status != layout.Relocated && v.isOld(m.KeyID) && v.relocated >= maxForwardings:
			return true
		}
	}
	return false
}

// isOld reports whether a file with this file key id is to be rewritten.
func (v *balance) isOld(id crypt.FileKeyID) bool {
	return v.layout.DataKey().Rewrite && v.layout.IsOld(id)
}
