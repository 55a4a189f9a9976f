package policy

import (
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
)

// Work that does not fit is not planned, but smaller work that fits; without a limit
// all of it is.
func TestPlansFitTheDisk(t *testing.T) {
	l := layout.New()
	e := &layout.Edit{NextFile: 100, LastVersion: 1000}
	for i := range 8 { // seven upper runs of 1 MB over a base of 20
		r := layout.Run{ID: layout.RunID(10 + i), Order: uint64(i + 1), RunMeta: layout.RunMeta{
			Files: []layout.RunFile{{Num: entry.FileNum(10 + i), Size: 1 << 20}}, First: []byte("a"), Last: []byte("b"), Entries: 1000, MinVersion: 1, MaxVersion: 9}}
		if i == 0 {
			r.Tier, r.Files[0].Size, r.Entries = layout.Base, 20<<20, 20000
		}
		e.AddRuns = append(e.AddRuns, r)
	}
	for i := range 2 { // segments, of which 60 and 90 % are garbage
		n := uint64(1000)
		s := layout.Segment{Num: entry.FileNum(30 + i), Kind: filename.Value, FileBytes: 10 << 20, Records: n, Bytes: 10 << 20}
		dead := layout.Dead{Segment: s.Num, Bytes: 6<<20 + uint64(i)*(3<<20)}
		for g := range uint32(600 + 300*i) {
			dead.Granules = append(dead.Granules, 64+g)
		}
		e.AddSegments, e.Dead = append(e.AddSegments, s), append(e.Dead, dead)
		left := n - uint64(len(dead.Granules))
		e.AddRuns[0].Refs = append(e.AddRuns[0].Refs, layout.SegmentRef{Segment: s.Num, Records: left, Bytes: s.Bytes - dead.Bytes})
	}
	l, err := l.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		space              int64
		state              State
		compacted, victims int
	}{
		{0, State{}, 7, 1},
		{100 << 20, State{}, 7, 1},
		{5 << 20, State{}, 5, 1},
		{5 << 20, State{Idle: true}, 5, 2},
		// Range deletes of an upper run hide nearly all: all runs together write little.
		{5 << 20, State{Idle: true, Ranged: map[layout.RunID]uint64{11: 26 << 20}}, 8, 2},
		{3<<20 + 100, State{}, 3, 1},
		{1 << 10, State{}, 0, 0},
	} {
		c.state.DiskSpace = c.space
		p := Decide(l, c.state, Options{})
		compacted, victims := 0, 0
		if p.Compaction != nil {
			compacted = len(p.Compaction.Runs)
		}
		if p.Collect != nil {
			victims = len(p.Collect.Victims)
		}
		if c.space > 0 && p.Compaction != nil && p.Compaction.Writes(l, c.state.Ranged) > uint64(c.space) {
			t.Errorf("disk space for %d, the compaction writes %d", c.space, p.Compaction.Writes(l, c.state.Ranged))
		}
		if compacted != c.compacted || victims != c.victims {
			t.Errorf("disk space for %d, idle %v: %d runs are compacted, %d segments collected; want %d and %d", c.space, c.state.Idle, compacted, victims, c.compacted, c.victims)
		}
	}
}
