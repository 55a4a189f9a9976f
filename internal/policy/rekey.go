package policy

import (
	"slices"

	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/run/meta"
)

// After a change of the data key, what is under older ones is rewritten if that was asked
// for (layout.DataKey). It is the last thing that is worth doing: first the values, as
// collections leave remaps behind; then the runs, which leads handles past these.

// oldSegments is the collection of segments whose key is an old one, whatever garbage they
// have; nil if there are none that can be collected, or too many remaps.
func (v *survey) oldSegments() *Collection {
	if !v.layout.DataKey().Rewrite {
		return nil
	}
	c := &Collection{Reason: "their data key is an old one"}
	var records uint64
	for _, m := range v.layout.Segments() {
		g := weighSegment(m)
		if !v.old(m.Life) || m.State().Status == layout.Relocated || v.layout.Usage(m.Num).Sources > 0 || g.records == 0 || slices.Contains(v.state.Damaged, m.Num) {
			continue
		}
		if len(c.Victims)+v.relocated == maxRemaps {
			break
		}
		if v.state.DiskSpace > 0 && c.Bytes+g.live > uint64(v.state.DiskSpace) {
			continue
		}
		if len(c.Victims) > 0 && (c.Bytes+g.live > v.batch() || records+g.records > v.options.MovedRecords) {
			break
		}
		c.Victims = append(c.Victims, g.num)
		c.Bytes, records = c.Bytes+g.live, records+g.records
	}
	if len(c.Victims) == 0 {
		return nil
	}
	return c
}

// oldRun is the compaction of the oldest run of which a file has an old key, and none is
// damaged, alone; nil if there is none.
func (v *survey) oldRun() *Compaction {
	if !v.layout.DataKey().Rewrite {
		return nil
	}
	old := func(f meta.File) bool { return v.old(f.Life) }
	damaged := func(f meta.File) bool { return slices.Contains(v.state.Damaged, f.Num) }
	for _, r := range slices.Backward(v.layout.Runs()) {
		if slices.ContainsFunc(r.Files, old) && !slices.ContainsFunc(r.Files, damaged) {
			c := compact([]*layout.Run{r}, r.Tier, "its data key is an old one")
			c.Rekey = true
			return c
		}
	}
	return nil
}

// oldRemaps reports whether remaps are in the way of the rewriting: one has an old key
// itself, leads to a segment that has one, or there can be no more of them.
func (v *survey) oldRemaps() bool {
	if !v.layout.DataKey().Rewrite {
		return false
	}
	for _, m := range v.layout.Segments() {
		st := m.State()
		switch {
		case st.Status == layout.Relocated && (v.old(st.Life) || v.old(v.layout.Segment(st.Target).Life)):
			return true
		case st.Status != layout.Relocated && v.old(m.Life) && v.relocated >= maxRemaps:
			return true
		}
	}
	return false
}

func (v *survey) old(l crypt.Life) bool { return v.layout.IsOld(l) }
