package tree

import (
	"slices"

	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/view"
)

// change is what a finished piece of work takes out of the View.
type change struct {
	tables []*view.Table
	runs   []*view.Run
	unread []*view.Run    // of runs, those of which nothing was left
	since  *layout.Layout // what a collection knew when it began
	hidden int64          // of the run that is added, see view.Run
	drops  uint64         // of keyspaces, when it began
}

// conclude makes finished work true: it opens what was written, records the
// edit, which is the commit point, and installs the View without what was
// replaced. If it fails before the edit was written, or there is no space for
// that, the new files are removed; if the edit fails otherwise, nobody knows which
// files count, and all stay.
func (t *Tree) conclude(edit *layout.Edit, out *compact.Output, c change) (err error) {
	added, err := t.openOutputs(edit, out)
	if err != nil {
		t.removeOutputs(out)
		return err
	}
	t.recording.Lock()
	defer t.recording.Unlock()
	layout := t.layout()
	err = t.complete(edit, layout, out, &added, c)
	if err == nil {
		err = dropUnreferenced(edit, layout)
	}
	if err != nil {
		added.discard()
		t.removeOutputs(out)
		return err
	}
	older := t.below(c.runs)
	for _, r := range added.runs {
		r.WeighRanges(older)
	}
	next, err := t.log.Append(edit)
	if err != nil {
		added.discard()
		if isFull(err) {
			t.removeOutputs(out)
		} else {
			t.life.fail(err)
		}
		return err
	}
	if edit.FlushedTo != 0 {
		// Before the View lets go of the files, which may then be used again.
		t.unflushed.forget(edit.FlushedTo)
	}
	var unwanted []*view.Segment
	t.views.Install(func(v *view.View) { unwanted = t.change(v, added, c, edit, next) })
	t.views.Wake()
	for _, f := range unwanted {
		f.Discard()
	}
	if len(older) == 0 {
		t.pruneEmptied()
	}
	t.throttle.look(false)
	t.expiry.await()
	t.longReaders.look()
	return nil
}

// below are the runs that are older than inputs of a merge, or than a new run if
// there are none.
func (t *Tree) below(inputs []*view.Run) []*view.Run {
	runs := t.views.Current().Runs
	if len(inputs) == 0 {
		return runs
	}
	return runs[slices.Index(runs, inputs[len(inputs)-1])+1:]
}

// complete fills in what every edit records: garbage, versions, times, numbers,
// and how far the journal is durable.
func (t *Tree) complete(edit *layout.Edit, l *layout.Layout, out *compact.Output, added *outputs, c change) (err error) {
	for _, s := range out.Values {
		edit.AddSegments = append(edit.AddSegments, layout.Segment{
			Num: s.Number, Kind: filename.Value, FileBytes: uint64(s.Size), Records: s.Records, Bytes: s.ValueBytes, Stamp: s.Stamp,
		})
	}
	for _, m := range out.Remaps {
		if l.Segment(m.Source) != nil { // or all of it has died meanwhile
			edit.States = append(edit.States, layout.SegmentState{Num: m.Source, Status: layout.Relocated, Map: m.Number, Target: m.Target})
		}
	}
	if edit.Dead, err = t.garbage(edit, l, out, added, c); err != nil {
		return err
	}
	for i := range edit.AddRuns {
		if edit.AddRuns[i].Order == 0 {
			edit.AddRuns[i].Order = l.NextOrder()
		}
	}
	t.views.Floors.Record(edit, l)
	// A Spill's version is recorded before it is published.
	visible := max(t.Visible(), edit.LastVersion, l.LastVersion())
	edit.LastVersion = visible
	edit.Clock = []layout.ClockSample{{Version: visible, UnixMilli: t.cfg.Now().UnixMilli()}}
	edit.NextFile = t.files.last() + 1
	edit.JournalEnds = append(edit.JournalEnds, t.unflushed.durableEnds(max(edit.FlushedTo, l.FlushedTo()))...)
	return nil
}

// garbage lists the records that are dead after an edit and were not before. A
// record that was moved, perhaps while the work went on that found it dead, is
// dead where it is now.
func (t *Tree) garbage(edit *layout.Edit, l *layout.Layout, out *compact.Output, added *outputs, c change) (lists []layout.Dead, err error) {
	defer pageio.Guard(pageio.Arm(), &err, "a remap")
	var deaths layout.Deaths
	current := t.views.Current()
	for _, dead := range out.Dead.Lists() {
		isNew := slices.ContainsFunc(edit.AddSegments, func(s layout.Segment) bool { return s.Num == dead.Segment })
		s := l.Segment(dead.Segment)
		switch {
		case s == nil && !isNew: // it goes as a whole
			continue
		case s != nil && s.State().Status == layout.Relocated:
			if dead, err = current.Segments.Find(dead.Segment).Moved.Dead(dead); err != nil {
				return nil, err
			}
		}
		deaths.Take(dead)
	}
	for _, num := range segmentsOf(c.unread, l) {
		if f := current.Segments.Find(num); f.Moved != nil { // collected meanwhile
			deaths.Take(f.Moved.Rest(l))
		}
	}
	for _, f := range added.remaps {
		dead, err := f.DiedSince(c.since, l)
		if err != nil {
			return nil, err
		}
		deaths.Take(dead)
	}
	return deaths.Lists(), nil
}

// dropUnreferenced adds to the edit the segments that nobody will need after it;
// which of their records have died is of no interest.
func dropUnreferenced(edit *layout.Edit, l *layout.Layout) error {
	next, err := l.Apply(edit)
	if err != nil {
		return err
	}
	edit.DropSegments = append(edit.DropSegments, next.Unreferenced()...)
	edit.Dead = slices.DeleteFunc(edit.Dead, func(d layout.Dead) bool { return slices.Contains(edit.DropSegments, d.Segment) })
	return nil
}

// outputs are opened files that no View holds yet.
type outputs struct {
	runs   []*view.Run
	files  []*view.Segment
	remaps []*view.Segment
}

// discard closes the files, but leaves them on the disk.
func (o *outputs) discard() {
	for _, r := range o.runs {
		r.Reader.Close()
	}
	for _, f := range o.files {
		f.Reader.Close()
	}
	for _, f := range o.remaps {
		f.Moved.Close()
	}
}

// removeOutputs removes files that the manifest surely does not name.
func (t *Tree) removeOutputs(out *compact.Output) {
	for _, f := range out.Run.Files {
		t.files.remove(filename.New(filename.Run, f.Num))
	}
	for _, s := range out.Values {
		t.files.remove(filename.New(filename.Value, s.Number))
	}
	for _, m := range out.Remaps {
		t.files.remove(filename.New(filename.Remap, m.Number))
	}
}

func (t *Tree) openOutputs(edit *layout.Edit, out *compact.Output) (added outputs, err error) {
	defer func() {
		if err != nil {
			added.discard()
		}
	}()
	for i := range edit.AddRuns {
		r, err := t.files.openWritten(&edit.AddRuns[i])
		if err != nil {
			return added, err
		}
		added.runs = append(added.runs, r)
	}
	for _, s := range out.Values {
		f, err := t.files.openSegment(filename.Value, s.Number, s.Size, s.Stamp)
		if err != nil {
			return added, err
		}
		added.files = append(added.files, f)
	}
	for _, m := range out.Remaps {
		f, err := t.files.openRemap(m.Number, m.Source, added.files[0])
		if err != nil {
			return added, err
		}
		added.remaps = append(added.remaps, f)
	}
	return added, nil
}

// change makes the View after an edit of the current one. What it takes out is
// removed from the disk when the last reader has let go of it. Added files that
// nobody needs after all are returned, to be released without the mutex.
func (t *Tree) change(next *view.View, added outputs, c change, edit *layout.Edit, l *layout.Layout) (unwanted []*view.Segment) {
	next.Tables = slices.DeleteFunc(next.Tables, func(m *view.Table) bool { return slices.Contains(c.tables, m) })
	at := 0 // flushed runs are the newest; merged ones go where their inputs were
	if len(c.runs) > 0 {
		at = slices.Index(next.Runs, c.runs[0])
		next.Runs = slices.DeleteFunc(next.Runs, func(r *view.Run) bool { return slices.Contains(c.runs, r) })
	}
	for _, r := range added.runs {
		r.Order, r.Hidden = l.Run(r.ID).Order, c.hidden
	}
	if c.drops != t.drops.Load() { // it did not leave everything out
		noteAllDropped(added.runs, l)
	}
	next.Runs = slices.Insert(next.Runs, at, added.runs...)
	for _, r := range c.runs {
		r.Retire()
	}
	gone := func(num entry.FileNum) bool {
		return num <= l.FlushedTo() && l.Segment(num) == nil || slices.Contains(edit.DropSegments, num) ||
			slices.ContainsFunc(edit.States, func(s layout.SegmentState) bool { return s.Num == num })
	}
	for _, f := range next.Segments.Files {
		if gone(f.Num) {
			f.Retire()
		}
	}
	next.Segments = next.Segments.Without(gone)
	for _, f := range slices.Concat(added.files, added.remaps) {
		if l.Segment(f.Num) == nil {
			f.Retire()
			unwanted = append(unwanted, f)
		} else {
			next.Segments = next.Segments.With(f)
		}
	}
	next.Layout = l
	t.budget.measure(next)
	next.Unclustered = policy.FindUnclustered(l, policy.State{Damaged: t.damaged.list()}, t.cfg.Policy)
	return unwanted
}
