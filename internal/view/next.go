package view

import (
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/journal"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// NextView makes the View of a layout and a journal: those of a store that is opened, or later ones
// of a store that another process writes. It takes what is the same from the View now, which may be
// nil, and from opened, and opens the rest.
//
// opened is what earlier calls have opened and no View holds: empty at first. After an
// error it has more, so that the next call has less to do; else what of next no other View
// holds. Close it unless next is installed.
func (f *Opener) NextView(now, opened *View, l *layout.Layout, unflushed []journal.SegmentInfo) (next *View, err error) {
	next = &View{Layout: l}
	if now == nil {
		now = new(View)
	}
	n := following{f, now, opened, next}
	if err = n.runs(); err == nil {
		err = n.segments(unflushed)
	}
	if err == nil {
		err = n.forwardings()
	}
	if err == nil {
		n.closeOthers()
	}
	return next, err
}

// following is the work of NextView.
type following struct {
	files             *Opener
	now, opened, next *View
}

func (n *following) runs() error {
	open := make(map[layout.RunID]*Run)
	for _, r := range slices.Concat(n.now.Runs, n.opened.Runs) {
		open[r.ID] = r
	}
	for _, m := range n.next.Layout.Runs() {
		r := open[m.ID]
		if r == nil {
			var err error
			if r, err = n.files.OpenRun(m); err != nil {
				return MissingFile(err, "a run that the manifest names")
			}
			n.opened.Runs = append(n.opened.Runs, r)
		}
		n.next.Runs = append(n.next.Runs, r)
	}
	return nil
}

// find returns an open segment with this number that fits, or nil.
func (n *following) find(num entry.FileNum, fits func(*Segment) bool) *Segment {
	for _, v := range []*View{n.now, n.opened} {
		if s := v.Segments.Find(num); s != nil && fits(s) {
			return s
		}
	}
	return nil
}

// segments finds or opens the segments that have their records, also those of the
// journal behind the runs.
func (n *following) segments(unflushed []journal.SegmentInfo) error {
	var found []*Segment
	// Added together: the index of many is not made for each.
	var opened []*Segment
	defer func() { n.opened.Segments = n.opened.Segments.With(opened...) }()
	add := func(kind filename.Kind, num entry.FileNum, o segment.OpenOptions) error {
		s := n.find(num, func(s *Segment) bool { return s.Moved == nil && s.Header().Kind == kind && s.Grow(o.End) })
		if s == nil {
			var err error
			if s, err = n.files.OpenSegment(kind, num, o); err != nil {
				return MissingFile(err, "a segment that the manifest names")
			}
			opened = append(opened, s)
		}
		found = append(found, s)
		return nil
	}
	for _, s := range n.next.Layout.Segments() {
		if s.State().Status != layout.Live {
			continue
		}
		if err := add(s.Kind, s.Num, SegmentOptions(s)); err != nil {
			return err
		}
	}
	for _, s := range unflushed {
		if err := add(filename.Journal, s.File, segment.OpenOptions{End: s.Offset, KeyID: s.KeyID}); err != nil {
			return err
		}
	}
	n.next.Segments = NewSegments(found)
	return nil
}

func (n *following) forwardings() error {
	var found, opened []*Segment
	defer func() { n.opened.Segments = n.opened.Segments.With(opened...) }()
	for _, s := range n.next.Layout.Segments() {
		st := s.State()
		if st.Status != layout.Relocated {
			continue
		}
		target := n.next.Segments.Find(st.Target)
		if target == nil {
			return fmt.Errorf("segment %d is relocated to segment %d, which is relocated itself: %w", s.Num, st.Target, errs.ErrFormat)
		}
		r := n.find(s.Num, func(r *Segment) bool {
			return r.Moved != nil && r.Moved.Target == target && r.Moved.Header().Number == st.Map
		})
		if r == nil {
			var err error
			if r, err = n.files.OpenForwarding(st, target); err != nil {
				return MissingFile(err, "a forwarding table that the manifest names")
			}
			opened = append(opened, r)
		}
		found = append(found, r)
	}
	n.next.Segments = n.next.Segments.With(found...)
	return nil
}

// closeOthers closes what was opened for an earlier layout and is not needed any more.
func (n *following) closeOthers() {
	n.opened.Runs = slices.DeleteFunc(n.opened.Runs, func(r *Run) bool {
		gone := !slices.Contains(n.next.Runs, r)
		if gone {
			r.Discard()
		}
		return gone
	})
	var kept []*Segment
	needed := make(map[*Segment]bool)
	for _, s := range n.next.Segments.Files {
		needed[s] = true
	}
	for _, s := range n.opened.Segments.Files {
		if needed[s] {
			kept = append(kept, s)
		} else {
			s.Discard()
		}
	}
	n.opened.Segments = NewSegments(kept)
}
