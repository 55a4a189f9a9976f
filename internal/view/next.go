package view

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// NextView makes the View of a layout and a journal: those of a store that is opened, or later ones
// of a store that another process writes. It takes what is the same from the View now, which may be
// nil, and from opened, and opens the rest.
//
// opened is what earlier calls have opened and no View holds: empty at first. After an
// error it has more, so that the next call has less to do; else what of next no other View
// holds. Close it unless next is installed.
func (f *Opener) NextView(now, opened *View, l *layout.Layout, unflushed []journal.SegmentInfo) (next *View, err error) {
	if now == nil {
		now = new(View)
	}
	n := following{files: f, now: now, opened: opened, next: &View{Layout: l}}
	segments := slices.Clone(l.Segments())
	for _, s := range unflushed {
		segments = append(segments, &layout.Segment{Kind: filename.Journal, Num: s.File, FileBytes: uint64(s.Offset), KeyID: s.KeyID})
	}
	if err := n.findFiles(segments); err != nil {
		return nil, err
	}
	// What was opened for an earlier layout only is in no View, so nothing else would close it.
	rest := opened.without(n.next)
	rest.Close()
	kept := opened.without(rest)
	opened.Runs, opened.Segments, opened.Feed = kept.Runs, kept.Segments, kept.Feed
	return n.next, nil
}

// following finds the runs and segments of the next View in the View now and in what was opened,
// and opens what neither has.
type following struct {
	files             *Opener // nil: all is open
	now, opened, next *View
}

// findFiles finds or opens the runs of the layout, and these segments. After an error, what it has
// opened is in opened.
func (n *following) findFiles(segments []*layout.Segment) error {
	if err := n.findRuns(); err != nil {
		return err
	}
	// Forwarding tables last: each needs its target.
	for _, status := range []layout.SegmentStatus{layout.Live, layout.Relocated} {
		if err := n.findSegments(segments, status); err != nil {
			return err
		}
	}
	n.feed()
	return nil
}

func (n *following) findRuns() error {
	// By number, and not by place: an edit changes the places of runs that stay.
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
			// At once: after an error further on, nothing else leads to it.
			n.opened.Runs = append(n.opened.Runs, r)
		}
		n.next.Runs = append(n.next.Runs, r)
	}
	return nil
}

// findSegments finds or opens those of a status.
func (n *following) findSegments(list []*layout.Segment, status layout.SegmentStatus) error {
	var found, opened []*Segment
	// Added together, also after an error: the index of many is not made for each.
	defer func() {
		n.opened.Segments = n.opened.Segments.With(opened...)
		n.next.Segments = n.next.Segments.With(found...)
	}()
	for _, s := range list {
		if s.State().Status != status {
			continue
		}
		f := n.findOpen(s)
		if f == nil {
			var err error
			if f, err = n.openFile(s); err != nil {
				return err
			}
			opened = append(opened, f)
		}
		found = append(found, f)
	}
	return nil
}

// findOpen returns an open segment that is as s says, or nil.
func (n *following) findOpen(s *layout.Segment) *Segment {
	for _, v := range [...]*View{n.now, n.opened} {
		f := v.Segments.Find(s.Num)
		// Of a store that this process writes, the journal grows its segments, nobody else may.
		if f != nil && f.isOpenFor(s) && (n.files == nil || f.Moved != nil || f.Grow(int64(s.FileBytes))) {
			return f
		}
	}
	return nil
}

// openFile opens a segment, or the forwarding table of one that is relocated.
func (n *following) openFile(s *layout.Segment) (*Segment, error) {
	st := s.State()
	if st.Status == layout.Live {
		f, err := n.files.OpenSegment(s)
		return f, MissingFile(err, "a segment that the manifest names")
	}
	// Lookups go one step only: a chain would cost each read of a value more.
	target := n.next.Segments.Find(st.Target)
	if target == nil {
		return nil, fmt.Errorf("segment %d is relocated to segment %d, which is relocated itself: %w", s.Num, st.Target, errs.ErrFormat)
	}
	f, err := n.files.OpenForwarding(st, target)
	return f, MissingFile(err, "a forwarding table that the manifest names")
}

// feed finds or opens what the change feed reads. It comes last, as most of it is in the View for
// other reasons.
func (n *following) feed() {
	feed := n.next.Layout.Feed()
	if feed.Empty() {
		return
	}
	var segments, opened []*Segment
	add := func(s *layout.Segment) {
		f := n.findFeedSegment(s)
		if f == nil {
			return // without it: see Feed
		}
		segments = append(segments, f)
		held := n.now.Segments.Find(f.Num) == f || n.now.Feed.Segments.Find(f.Num) == f
		if !held && n.opened.Feed.Segments.Find(f.Num) != f {
			opened = append(opened, f)
		}
	}
	for _, s := range feed.Segments {
		add(&layout.Segment{Num: s.File, Kind: filename.Journal, FileBytes: uint64(s.Offset), KeyID: s.KeyID})
	}
	for i := range feed.Commits {
		c := &feed.Commits[i]
		for i := range c.Segments {
			add(&c.Segments[i])
		}
		if len(c.Run.Files) > 0 {
			n.addFeedRun(&c.Run)
		}
	}
	n.opened.Feed.Segments = n.opened.Feed.Segments.With(opened...)
	n.next.Feed.Segments = NewSegments(segments)
}

// findFeedSegment finds or opens a segment that has all frames that s says; nil: there is none.
func (n *following) findFeedSegment(s *layout.Segment) *Segment {
	lists := [...]*Segments{&n.next.Segments, &n.now.Segments, &n.now.Feed.Segments, &n.opened.Segments, &n.opened.Feed.Segments}
	for i, list := range lists {
		// A segment that was collected has a forwarding table in the place of its file.
		f := list.Find(s.Num)
		switch {
		case f == nil || f.Moved != nil:
		case n.files == nil || f.Grow(int64(s.FileBytes)):
			return f
		// A file that entries need, too, is one resource: of two, one would remove it under the other.
		case i == 0:
			return nil
		}
	}
	if n.files == nil {
		return nil
	}
	f, _ := n.files.openFeedSegment(s)
	return f
}

// addFeedRun finds or opens a run of the feed.
func (n *following) addFeedRun(m *layout.Run) {
	r := cmp.Or(findRun(n.now.Runs, m.ID), n.now.Feed.Run(m.ID))
	if r == nil {
		if r = cmp.Or(findRun(n.opened.Runs, m.ID), n.opened.Feed.Run(m.ID)); r == nil && n.files != nil {
			r, _ = n.files.OpenRun(m) // without it: see Feed
		}
		if r != nil && n.opened.Feed.Run(m.ID) == nil {
			n.opened.Feed.Runs = append(n.opened.Feed.Runs, r)
		}
	}
	if r != nil {
		n.next.Feed.Runs = append(n.next.Feed.Runs, r)
	}
}

// without returns the runs and segments of v that other does not have.
func (v *View) without(other *View) *View {
	has := make(map[*shared]bool)
	other.eachResource(func(s *shared) { has[s] = true })
	return &View{
		Runs:     slices.DeleteFunc(slices.Clone(v.Runs), func(r *Run) bool { return has[&r.shared] }),
		Segments: NewSegments(slices.DeleteFunc(slices.Clone(v.Segments.Files), func(f *Segment) bool { return has[&f.shared] })),
		Feed:     v.Feed.without(has),
	}
}

// MissingFile turns the absence of a file that must be there into a report of damage.
func MissingFile(err error, what string) error {
	var path *fs.PathError
	if !errors.As(err, &path) || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c := errs.NewCorruption(filepath.Base(path.Path), -1, "%s is not there", what)
	c.Err = err
	return c
}
