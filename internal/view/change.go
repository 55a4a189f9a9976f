package view

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
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

	// New files, which no View holds yet:
	runs        []*Run
	segments    []*Segment
	forwardings []*Segment
}

// Open opens the new files that an edit names. A journal segment that it keeps is in the View
// already.
func (c *Change) Open(f *Opener, edit *layout.Edit) (err error) {
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	for i := range edit.AddRuns {
		r, err := f.OpenWritten(&edit.AddRuns[i])
		if err != nil {
			return err
		}
		c.runs = append(c.runs, r)
	}
	for i := range edit.AddSegments {
		s := &edit.AddSegments[i]
		if s.Kind != filename.Value {
			continue
		}
		opened, err := f.OpenSegment(s.Kind, s.Num, SegmentOptions(s))
		if err != nil {
			return err
		}
		c.segments = append(c.segments, opened)
	}
	for _, s := range edit.States {
		opened, err := f.OpenForwarding(s, c.segments[0])
		if err != nil {
			return err
		}
		c.forwardings = append(c.forwardings, opened)
	}
	return nil
}

// Close closes the new files, but leaves them on the disk. No View may have them.
func (c *Change) Close() {
	for _, r := range c.runs {
		r.Reader.Close()
	}
	for _, f := range c.segments {
		f.Reader.Close()
	}
	for _, f := range c.forwardings {
		f.Moved.Close()
	}
}

// WeighRanges estimates what the range deletes of the new runs hide in older runs of v. It reports
// whether there are none. Call it before the new runs are installed, because readers of the
// estimate take no lock.
func (c *Change) WeighRanges(v *View) (oldest bool) {
	older := v.below(c.Runs)
	for _, r := range c.runs {
		r.WeighRanges(older)
	}
	return len(older) == 0
}

// Dead lists the records that are dead after an edit of l and were not before. found are those that
// the work has met. A record that was moved, perhaps while the work went on that found it dead, is
// dead where it is now. current is the View with all segments of l.
func (c *Change) Dead(current *View, l *layout.Layout, edit *layout.Edit, found []layout.Dead) (lists []layout.Dead, err error) {
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
			if list, err = current.Segments.Find(list.Segment).Moved.Dead(list); err != nil {
				return nil, err
			}
		}
		dead.Take(list)
	}
	for _, num := range segmentsOf(c.Unread, l) {
		if f := current.Segments.Find(num); f.Moved != nil { // collected meanwhile
			rest, err := f.Moved.Rest(l)
			if err != nil {
				return nil, err
			}
			dead.Take(rest)
		}
	}
	for _, f := range c.forwardings {
		list, err := f.DiedSince(c.Since, l)
		if err != nil {
			return nil, err
		}
		dead.Take(list)
	}
	return dead.Lists(), nil
}

// segmentsOf lists the segments that runs of a layout refer to, each once.
func segmentsOf(runs []*Run, l *layout.Layout) (nums []entry.FileNum) {
	for _, r := range runs {
		for _, ref := range l.Run(r.ID).Refs {
			nums = append(nums, ref.Segment)
		}
	}
	slices.Sort(nums)
	return slices.Compact(nums)
}

// Make turns next, a copy of the current View, into the View after an edit that has led to the
// layout l. The files that it takes out are removed when their last reader has released them. It
// returns new files that are not needed after all; the caller discards them once next is installed.
func (c *Change) Make(next *View, edit *layout.Edit, l *layout.Layout) (unwanted []*Segment) {
	next.Tables = slices.DeleteFunc(next.Tables, func(m *Table) bool { return slices.Contains(c.Tables, m) })
	at := 0 // flushed runs are the newest; compacted ones go where their inputs were
	if len(c.Runs) > 0 {
		at = slices.Index(next.Runs, c.Runs[0])
		next.Runs = slices.DeleteFunc(next.Runs, func(r *Run) bool { return slices.Contains(c.Runs, r) })
	}
	for _, r := range c.runs {
		r.Order, r.Replaced = l.Run(r.ID).Order, c.Replaced
	}
	if c.Since == nil || droppedSince(c.Since, l) { // the run may have entries of such a keyspace
		WeighAllDropped(c.runs, l)
	}
	next.Runs = slices.Insert(next.Runs, at, c.runs...)
	for _, r := range c.Runs {
		r.Retire()
	}
	replaced := make(map[entry.FileNum]bool) // a clustering replaces all segments
	for _, num := range edit.DropSegments {
		replaced[num] = true
	}
	for _, s := range edit.States {
		replaced[s.Num] = true
	}
	gone := func(num entry.FileNum) bool {
		return replaced[num] || num <= l.FlushedTo() && l.Segment(num) == nil
	}
	for _, f := range next.Segments.Files {
		if gone(f.Num) {
			f.Retire()
		}
	}
	next.Segments = next.Segments.Without(gone)
	var wanted []*Segment
	for _, f := range slices.Concat(c.segments, c.forwardings) {
		if l.Segment(f.Num) == nil {
			f.Retire()
			unwanted = append(unwanted, f)
		} else {
			wanted = append(wanted, f)
		}
	}
	next.Segments = next.Segments.With(wanted...)
	next.Layout = l
	return unwanted
}

// droppedSince reports whether a keyspace of one layout is not in a later one.
func droppedSince(since, l *layout.Layout) bool {
	return slices.ContainsFunc(since.Keyspaces(), func(k layout.Keyspace) bool { return l.Keyspace(k.ID) == nil })
}
