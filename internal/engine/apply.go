package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/failure"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// change is what a finished piece of work removes from the View, and what it knows of the run
// that it adds.
type change struct {
	tables   []*view.Table       // memtables that were flushed
	runs     []*view.Run         // runs that were compacted
	unread   []*view.Run         // those of runs that were not read, because nothing of them survives
	since    *layout.Layout      // the layout when the work began; nil: it is not known
	replaced []layout.Superseded // Replaced of the new run, see view.Run
}

// apply completes a piece of work. It opens the new files, records the edit (the commit
// point), installs a View with the new files and without those that they replace, and tells
// the observers. If it fails before the edit is written, or the edit is refused, the new files are
// removed. If the edit fails in another way, it is not known whether the manifest has it, so
// all files stay.
func (st *state) apply(edit *layout.Edit, out *compact.Output, c change) (err error) {
	added, err := openOutputs(st.files, edit, out)
	if err != nil {
		removeOutputs(st.files, out)
		return err
	}
	// From here on there is no other edit until this one is installed, so its dead records
	// are complete.
	st.applying.Lock()
	defer st.applying.Unlock()
	layout := st.views.Current().Layout
	err = st.completeEdit(edit, layout, out, &added, c)
	if err == nil {
		err = layout.DropUnreferenced(edit)
	}
	if err != nil {
		added.close()
		removeOutputs(st.files, out)
		return err
	}
	// Set before the run is installed, because readers of the estimate take no lock.
	older := st.runsBelow(c.runs)
	for _, r := range added.runs {
		r.WeighRanges(older)
	}
	next, err := st.log.Append(edit)
	if err != nil {
		added.close()
		if failure.Passes(err) {
			removeOutputs(st.files, out)
		} else {
			st.lifetime.fail(err)
		}
		return err
	}
	if edit.FlushedTo != 0 {
		// Before the View releases the files: where an open file can't be removed, they must be closed.
		st.unflushed.journal.Forget(edit.FlushedTo)
	}
	var unwanted []*view.Segment
	st.views.Install(func(v *view.View) { unwanted = st.changeView(v, added, c, edit, next) })
	for _, f := range unwanted {
		f.Discard()
	}
	if len(older) == 0 {
		st.views.ForgetEmptied()
	}
	st.tellObservers(&c)
	return nil
}

// observe has fn called after each edit, when the View with it is installed and before another edit
// can be recorded. Observers are told in the order in which they have registered.
func (st *state) observe(fn func(*change)) { st.observers = append(st.observers, fn) }

func (st *state) tellObservers(c *change) {
	for _, fn := range st.observers {
		fn(c)
	}
}

// runsBelow returns the runs that are older than the inputs of a compaction. A flush has no
// inputs: all runs are older.
func (st *state) runsBelow(inputs []*view.Run) []*view.Run {
	runs := st.views.Current().Runs
	if len(inputs) == 0 {
		return runs
	}
	return runs[slices.Index(runs, inputs[len(inputs)-1])+1:]
}

// completeEdit sets what every edit records: garbage, versions, times, the next file number, and
// how far the journal is durable.
func (st *state) completeEdit(edit *layout.Edit, l *layout.Layout, out *compact.Output, added *outputs, c change) (err error) {
	describeOutputs(edit, l, out)
	if edit.Dead, err = added.deadRecords(st.views.Current(), edit, l, out, c.unread, c.since); err != nil {
		return err
	}
	for i := range edit.AddRuns {
		if edit.AddRuns[i].Order == 0 {
			edit.AddRuns[i].Order = l.NextOrder()
		}
	}
	if err := st.keysOf(edit); err != nil {
		return err
	}
	st.views.Floors.Record(edit, l)
	// A Spill's version is recorded before it is published. Until then the version before it is
	// the newest.
	visible := st.views.Visible()
	edit.LastVersion = max(visible, edit.LastVersion, l.LastVersion())
	edit.Clock = []layout.ClockSample{{Version: visible, UnixMilli: st.cfg.Now().UnixMilli()}}
	edit.NextFile = st.files.Last() + 1
	edit.JournalEnds = append(edit.JournalEnds, st.unflushed.journal.DurableEnds(max(edit.FlushedTo, l.FlushedTo()))...)
	return nil
}

// keysOf returns an error if a new file is encrypted under a data key that was removed since the
// work began.
func (st *state) keysOf(edit *layout.Edit) error {
	if st.cfg.Keyring == nil {
		return nil
	}
	var keyIDs []crypt.FileKeyID
	for _, r := range edit.AddRuns {
		for _, f := range r.Files {
			keyIDs = append(keyIDs, f.KeyID)
		}
	}
	for _, s := range edit.AddSegments {
		keyIDs = append(keyIDs, s.KeyID)
	}
	for _, s := range edit.States {
		keyIDs = append(keyIDs, s.KeyID)
	}
	for _, keyID := range keyIDs {
		if !keyID.IsZero() && !st.cfg.Keyring.Has(keyID.Key) {
			return fmt.Errorf("%w: data key %x was taken away while a file was written under it", errs.ErrKey, keyID.Key)
		}
	}
	return nil
}

// changeView turns next, a copy of the current View, into the View after an edit. The files that
// it takes out are removed when their last reader has released them. It returns added files
// that are not needed after all; the caller releases them without the mutex.
func (st *state) changeView(next *view.View, added outputs, c change, edit *layout.Edit, l *layout.Layout) (unwanted []*view.Segment) {
	next.Tables = slices.DeleteFunc(next.Tables, func(m *view.Table) bool { return slices.Contains(c.tables, m) })
	at := 0 // flushed runs are the newest; compacted ones go where their inputs were
	if len(c.runs) > 0 {
		at = slices.Index(next.Runs, c.runs[0])
		next.Runs = slices.DeleteFunc(next.Runs, func(r *view.Run) bool { return slices.Contains(c.runs, r) })
	}
	for _, r := range added.runs {
		r.Order, r.Replaced = l.Run(r.ID).Order, c.replaced
	}
	if c.since == nil || droppedSince(c.since, l) { // the run may have entries of such a keyspace
		view.WeighAllDropped(added.runs, l)
	}
	next.Runs = slices.Insert(next.Runs, at, added.runs...)
	for _, r := range c.runs {
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
	var wanted []*view.Segment
	for _, f := range slices.Concat(added.segments, added.forwardings) {
		if l.Segment(f.Num) == nil {
			f.Retire()
			unwanted = append(unwanted, f)
		} else {
			wanted = append(wanted, f)
		}
	}
	next.Segments = next.Segments.With(wanted...)
	next.Layout = l
	st.budget.measure(next)
	return unwanted
}

// droppedSince reports whether a keyspace of one layout is not in a later one.
func droppedSince(since, l *layout.Layout) bool {
	return slices.ContainsFunc(since.Keyspaces(), func(k layout.Keyspace) bool { return l.Keyspace(k.ID) == nil })
}

// record records the edit that make returns for the current layout, and installs that. The edit
// adds and removes no files. After an error that is not ErrStopped, everything is as before.
func (st *state) record(make func(*layout.Layout) (*layout.Edit, error)) error {
	if st.cfg.ReadOnly {
		return errs.ErrReadOnly
	}
	defer st.views.Reclaim()
	st.applying.Lock()
	defer st.applying.Unlock()
	if st.views.Closed() {
		return errs.ErrClosed
	}
	edit, err := make(st.views.Current().Layout)
	if err != nil {
		return err
	}
	l, err := st.log.Append(edit)
	if err != nil {
		if !errors.Is(err, layout.ErrConflictingEdit) && !failure.Passes(err) {
			st.lifetime.fail(err)
		}
		return err
	}
	st.views.Install(func(next *view.View) { next.Layout = l })
	st.tellObservers(new(change))
	return nil
}

// recordEnd makes the journal durable, and records where it ends and how far the scrub is.
// Close calls it.
func (st *state) recordEnd(scrub layout.Scrub) error {
	if err := st.unflushed.journal.Close(); err != nil {
		return err
	}
	st.applying.Lock()
	defer st.applying.Unlock()
	edit := &layout.Edit{CleanClose: true, Scrub: scrub, LastVersion: max(st.views.Visible(), st.views.Current().Layout.LastVersion()), NextFile: st.files.Last() + 1}
	if segments := st.unflushed.segments(); len(segments) > 0 {
		edit.JournalEnds = []frame.End{segments[len(segments)-1].End}
	}
	_, err := st.log.Append(edit)
	return err
}

// done sets the results of a piece of work.
func (w *Work) done(out *compact.Output) {
	w.EntriesIn, w.Dropped, w.BytesOut = int64(out.Read), out.Dropped, out.FileBytes()
}
