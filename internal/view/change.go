package view

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/version/layout"
)

// Change turns a View into the next one, as an edit says that adds or replaces files. Its fields
// are what a finished piece of work removes from the View, and what it knows of the run that it
// adds.
type Change struct {
	Tables   []*Table            // memtables that were flushed
	Runs     []*Run              // runs that were compacted
	Unread   []*Run              // those of Runs that were not read, because nothing of them survives
	Since    *layout.Layout      // the layout when the work began; nil: it is not known
	Replaced []layout.Superseded // Replaced of the new run, see Run

	opened *View // new files, which no View holds yet; nil before Open
}

// OpenFiles opens the new files that an edit names. A journal segment that it keeps is in the View
// already.
func (c *Change) OpenFiles(f *Opener, edit *layout.Edit) (err error) {
	c.opened = new(View)
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	// Before the edit is recorded: what can't be opened must not be in the manifest.
	for i := range edit.AddRuns {
		r, err := f.OpenWritten(&edit.AddRuns[i])
		if err != nil {
			return err
		}
		c.opened.Runs = append(c.opened.Runs, r)
	}
	var target *Segment // of a collection, which writes one
	for i := range edit.AddSegments {
		s := &edit.AddSegments[i]
		if s.Kind != filename.Value {
			continue
		}
		opened, err := f.OpenSegment(s)
		if err != nil {
			return err
		}
		target = cmp.Or(target, opened)
		c.opened.Segments = c.opened.Segments.With(opened)
	}
	// Behind the segments: a forwarding table needs its open target.
	for _, s := range edit.States {
		opened, err := f.OpenForwarding(s, target)
		if err != nil {
			return err
		}
		c.opened.Segments = c.opened.Segments.With(opened)
	}
	return nil
}

// Close closes the new files that no View has. Those that MakeView has found not to be needed are
// removed, the others stay on the disk.
func (c *Change) Close() { c.opened.Close() }

// WeighRanges estimates what the range deletes of the new runs hide in older runs of v. It reports
// whether there are none. Call it before the new runs are installed, because readers of the
// estimate take no lock.
func (c *Change) WeighRanges(v *View) (oldest bool) {
	older := v.olderRuns(c.Runs)
	for _, r := range c.opened.Runs {
		r.WeighRanges(older)
	}
	return len(older) == 0
}

// ListDead lists the records that are dead after an edit of l and were not before. found are those
// that the work has met. A record that was moved, perhaps while the work went on that found it
// dead, is dead where it is now. current is the View with all segments of l.
func (c *Change) ListDead(current *View, l *layout.Layout, edit *layout.Edit, found []layout.Dead) (lists []layout.Dead, err error) {
	defer pageio.Guard(pageio.Arm(), &err, "a forwarding table")
	var dead layout.Deaths
	isNew := make(map[entry.FileNum]bool)
	for _, s := range edit.AddSegments {
		isNew[s.Num] = true
	}
	for _, list := range found {
		s := l.Segment(list.Segment)
		switch {
		case s == nil && !isNew[list.Segment]: // it goes as a whole
			continue
		case s != nil && s.State().Status == layout.Relocated:
			if list, err = current.Segments.Find(list.Segment).Moved.TranslateDead(list); err != nil {
				return nil, err
			}
		}
		dead.Take(list)
	}
	for _, num := range referredSegments(c.Unread, l) {
		if f := current.Segments.Find(num); f.Moved != nil { // collected meanwhile
			rest, err := f.Moved.ListRest(l)
			if err != nil {
				return nil, err
			}
			dead.Take(rest)
		}
	}
	if c.opened == nil { // the work of a copy, which relocates nothing
		return dead.Lists(), nil
	}
	for _, f := range c.opened.Segments.Files {
		if f.Moved == nil {
			continue
		}
		list, err := f.ListDiedSince(c.Since, l)
		if err != nil {
			return nil, err
		}
		dead.Take(list)
	}
	return dead.Lists(), nil
}

// referredSegments lists the segments that runs of a layout refer to, each once.
func referredSegments(runs []*Run, l *layout.Layout) (nums []entry.FileNum) {
	for _, r := range runs {
		for _, ref := range l.Run(r.ID).Refs {
			nums = append(nums, ref.Segment)
		}
	}
	slices.Sort(nums)
	return slices.Compact(nums)
}

// MakeView turns next, a copy of the current View, into the View of the layout l, to which an edit
// has led. The files that it takes out are removed when their last reader has released them. Call
// Close once next is installed: new files may not be needed after all.
func (c *Change) MakeView(next *View, l *layout.Layout) {
	for _, r := range c.opened.Runs {
		r.Replaced = c.Replaced
	}
	if c.Since == nil || droppedSince(c.Since, l) { // the run may have entries of such a keyspace
		WeighAllDropped(c.opened.Runs, l)
	}
	n := following{now: next, opened: c.opened, next: &View{Layout: l}}
	// A commit point is behind us: nothing may be opened here, as that could fail.
	err := n.findFiles(l.Segments())
	invariant.Check(err == nil, "view of an edit: %v", err)
	// The layout does not have the journal behind the runs yet.
	var unflushed []*Segment
	for _, f := range next.Segments.Files {
		if f.Num > l.FlushedTo() && f.Moved == nil && f.Header().Kind == filename.Journal && l.Segment(f.Num) == nil {
			unflushed = append(unflushed, f)
		}
	}
	n.next.Segments = n.next.Segments.With(unflushed...)
	// Before next is installed: the last reader may release the old View at once, and must find
	// that the files are to be removed.
	next.without(n.next).RetireFiles()
	c.opened = c.opened.without(n.next)
	c.opened.RetireFiles()
	next.Tables = slices.DeleteFunc(next.Tables, func(m *Table) bool { return slices.Contains(c.Tables, m) })
	next.Runs, next.Segments, next.Feed, next.Layout = n.next.Runs, n.next.Segments, n.next.Feed, l
}

// droppedSince reports whether a keyspace of one layout is not in a later one.
func droppedSince(since, l *layout.Layout) bool {
	return slices.ContainsFunc(since.Keyspaces(), func(k layout.Keyspace) bool { return l.Keyspace(k.ID) == nil })
}
