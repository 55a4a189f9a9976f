package files

import (
	"math/bits"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/internal/view"
)

// leastGrowing is the least length for which a growing segment is mapped. It is doubled
// each time that the segment has grown beyond, which costs address space only.
const leastGrowing = 1 << 20

// NextView makes the View of a later layout and journal of a store that another process
// writes. It takes what is the same from the View now, which may be nil, and opens the
// rest. opened is what no View holds: discard it unless next is installed.
func (f *Opener) NextView(now *view.View, l *layout.Layout, unflushed []journal.SegmentInfo) (next, opened *view.View, err error) {
	next, opened = &view.View{Layout: l}, new(view.View)
	if now == nil {
		now = new(view.View)
	}
	n := following{f, now, next, opened}
	if err = n.runs(); err == nil {
		err = n.segments(unflushed)
	}
	if err == nil {
		err = n.remaps()
	}
	return next, opened, err
}

// following is the work of NextView.
type following struct {
	files     *Opener
	now, next *view.View
	opened    *view.View
}

func (n *following) runs() error {
	open := make(map[layout.RunID]*view.Run)
	for _, r := range n.now.Runs {
		open[r.ID] = r
	}
	for _, m := range n.next.Layout.Runs() {
		r := open[m.ID]
		if r == nil {
			var err error
			if r, err = n.files.OpenRun(m); err != nil {
				return Missing(err, "a run that the manifest names")
			}
			n.opened.Runs = append(n.opened.Runs, r)
		}
		n.next.Runs = append(n.next.Runs, r)
	}
	return nil
}

// segments finds or opens the segments that have their records, also those of the
// journal behind the runs.
func (n *following) segments(unflushed []journal.SegmentInfo) error {
	var found []*view.Segment
	add := func(kind filename.Kind, num entry.FileNum, end int64, stamp entry.Version) error {
		s := n.now.Segments.Find(num)
		if s == nil || s.Moved != nil || s.Header().Kind != kind || !s.Grow(end) {
			r, err := n.files.openGrowing(kind, num, end, stamp)
			if err != nil {
				return Missing(err, "a segment that the manifest names")
			}
			s = n.files.Segment(r, kind, num)
			n.opened.Segments = n.opened.Segments.With(s)
		}
		found = append(found, s)
		return nil
	}
	for _, s := range n.next.Layout.Segments() {
		if s.State().Status != layout.Live {
			continue
		}
		if err := add(s.Kind, s.Num, int64(s.FileBytes), s.Stamp); err != nil {
			return err
		}
	}
	for _, s := range unflushed {
		if err := add(filename.Journal, s.Num, s.End, 0); err != nil {
			return err
		}
	}
	n.next.Segments = view.NewSegments(found)
	return nil
}

// openGrowing opens a segment up to end. Those of the journal may go on growing.
func (f *Opener) openGrowing(kind filename.Kind, num entry.FileNum, end int64, stamp entry.Version) (*segment.Reader, error) {
	if kind != filename.Journal {
		return segment.Open(f.Segments(), kind, num, segment.OpenOptions{End: end, NoMap: f.cfg.NoMap, Stamp: stamp})
	}
	limit := max(int64(1)<<bits.Len64(uint64(end)), leastGrowing)
	return segment.OpenGrowing(f.Segments(), kind, num, end, limit, f.cfg.NoMap)
}

func (n *following) remaps() error {
	var found []*view.Segment
	for _, s := range n.next.Layout.Segments() {
		st := s.State()
		if st.Status != layout.Relocated {
			continue
		}
		target := n.next.Segments.Find(st.Target)
		if target == nil {
			return errs.NewCorruption("manifest", -1, "segment %d is relocated to segment %d, which has no records", s.Num, st.Target)
		}
		r := n.now.Segments.Find(s.Num)
		if r == nil || r.Moved == nil || r.Moved.Target != target || r.Moved.Header().Number != st.Map {
			var err error
			if r, err = n.files.OpenRemap(st.Map, s.Num, target); err != nil {
				return Missing(err, "a remap that the manifest names")
			}
			n.opened.Segments = n.opened.Segments.With(r)
		}
		found = append(found, r)
	}
	n.next.Segments = n.next.Segments.With(found...)
	return nil
}
