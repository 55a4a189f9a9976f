package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// applyEdit completes a piece of work. It opens the new files, records the edit (the commit point),
// installs a View with the new files and without those that they replace, and calls followEdit. If
// it fails before the edit is written, or the edit is refused, the new files are removed. If the
// edit fails in another way, it is not known whether the manifest has it, so all files stay.
func (st *state) applyEdit(edit *layout.Edit, out *compact.Output, c view.Change) (err error) {
	out.Describe(edit)
	// Opening reads the files. It comes before the lock, so that no edit of others waits for that.
	if err := c.OpenFiles(st.files, edit); err != nil {
		st.removeFiles(out)
		return err
	}
	// From here on there is no other edit until this one is installed, so its dead records
	// are complete.
	st.applying.Lock()
	defer st.applying.Unlock()
	v := st.views.Current()
	err = st.completeEdit(edit, v, out, &c)
	if err == nil {
		// Segments that no run refers to after this edit go with it: no collection is needed for
		// them.
		err = v.Layout.DropUnreferenced(edit)
	}
	if err != nil {
		c.Close()
		st.removeFiles(out)
		return err
	}
	// Readers of this estimate take no lock. So it must be there before a View shows the new runs.
	oldest := c.WeighRanges(v)
	next, err := st.log.Append(edit)
	if err != nil {
		c.Close()
		// Only now the manifest surely does not name the files. Otherwise it may have the edit:
		// then the next Open needs them, or it removes them as leftovers.
		if errs.Passes(err) {
			st.removeFiles(out)
		} else {
			st.lifetime.endBackground(err)
		}
		return err
	}
	if edit.FlushedTo != 0 {
		// Before the View releases the files: where an open file can't be removed, they must be
		// closed.
		st.unflushed.journal.Forget(edit.FlushedTo)
	}
	st.views.Install(func(v *view.View) {
		c.MakeView(v, next)
		st.budget.measureView(v)
	})
	// Install holds the mutex of the Views, and removing files under it would hold up every seal.
	c.Close()
	if oldest {
		st.views.ForgetEmptied()
	}
	st.followEdit(&c)
	return nil
}

// removeFiles removes what a piece of work wrote, and what the manifest surely does not name.
func (st *state) removeFiles(out *compact.Output) {
	for _, name := range out.Names() {
		st.files.RemoveFile(name)
	}
}

// completeEdit sets what every edit records: garbage, versions, times, the next file number, and
// how far the journal is durable.
func (st *state) completeEdit(edit *layout.Edit, v *view.View, out *compact.Output, c *view.Change) (err error) {
	l := v.Layout
	// Of a segment that was collected all may have died meanwhile.
	edit.States = slices.DeleteFunc(edit.States, func(s layout.SegmentState) bool { return l.Segment(s.Num) == nil })
	if edit.Dead, err = c.ListDead(v, l, edit, out.Dead.Lists()); err != nil {
		return err
	}
	// A compaction has set the order of its newest input. Other new runs are newer than all runs: a
	// flush takes the oldest memtable, and a Spill comes after all flushes.
	for i := range edit.AddRuns {
		if edit.AddRuns[i].Order == 0 {
			edit.AddRuns[i].Order = l.NextOrder()
		}
	}
	if err := st.checkKeys(edit); err != nil {
		return err
	}
	// Invariant: a layout names no version that a power loss may take. Else the next session could
	// not give it again, and a log that is replayed with its versions would be refused. What is
	// dropped is in runs, so no reader below such a version misses it.
	edit.LastVersion = max(edit.LastVersion, edit.Lasting, l.LastVersion(), st.unflushed.journal.DurableEnd().LastVersion)
	st.views.Floors.Record(edit, l, edit.LastVersion)
	// Retention by age needs to know at which time a version was the newest one. A Spill's version
	// is recorded before it is published. Until then the version before it is the newest.
	newest := min(st.views.Visible(), edit.LastVersion)
	edit.Clock = []layout.ClockSample{{Version: newest, UnixMilli: st.cfg.Now().UnixMilli()}}
	// After a reopen, numbers go on from here. If a number came twice, an old file could pass for a
	// new one: checksums contain the number.
	edit.NextFile = st.files.LastNum() + 1
	// A replay that ends before such an end has met damage. Without the end it could not tell
	// damage from the torn tail that a crash leaves. The edit is synced anyway.
	edit.JournalEnds = append(edit.JournalEnds, st.unflushed.journal.DurableEnds(max(edit.FlushedTo, l.FlushedTo()))...)
	st.feed.retain(edit, l, st.unflushed.segments(), st.unflushed.journal.DurableEnd().Number)
	return nil
}

// checkKeys returns an error if a new file is encrypted under a data key that was removed since the
// work began.
func (st *state) checkKeys(edit *layout.Edit) error {
	if st.cfg.Keyring == nil {
		return nil
	}
	for _, id := range edit.KeyIDs() {
		// Once the manifest names such a file, its entries are lost: nobody could decrypt it.
		if !id.IsZero() && !st.cfg.Keyring.Has(id.Key) {
			return fmt.Errorf("%w: data key %x was taken away while a file was written under it", errs.ErrKey, id.Key)
		}
	}
	return nil
}

// recordEdit records the edit that make returns for the current layout, and installs that. The edit
// adds and removes no files. After an error that is not ErrStopped, everything is as before.
func (st *state) recordEdit(make func(*layout.Layout) (*layout.Edit, error)) error {
	if st.cfg.ReadOnly {
		return errs.ErrReadOnly
	}
	// Deferred before the lock is taken, so it runs after the unlock: removing files must not hold
	// up other edits.
	defer st.views.ReclaimViews()
	st.applying.Lock()
	defer st.applying.Unlock()
	// Look under the lock: Close records its edit under it, and that must be the last one.
	if st.views.Closed() {
		return errs.ErrClosed
	}
	before := st.views.Current().Layout
	edit, err := make(before)
	if err != nil {
		return err
	}
	if !st.feed.isWanted() {
		edit.FeedCommits = nil
	}
	l, err := st.log.Append(edit)
	if err != nil {
		// The log refuses an edit that does not fit before it writes anything. That is the mistake
		// of one caller, and no reason to end background work.
		if !errors.Is(err, layout.ErrConflictingEdit) && !errs.Passes(err) {
			st.lifetime.endBackground(err)
		}
		return err
	}
	if k, ok := before.AddedKeyspace(edit); ok {
		st.views.Floors.AddKeyspace(k)
	} else {
		st.views.Floors.FollowLayout(l)
	}
	st.views.Install(func(next *view.View) { next.Layout = l })
	st.followEdit(new(view.Change))
	return nil
}

// recordEnd makes the journal durable, and records where it ends and how far the scrub is.
// Close calls it.
func (st *state) recordEnd(scrub layout.Scrub) error {
	// The journal first: if the edit named an end that a power loss takes, the next Open would see
	// damage.
	if err := st.unflushed.journal.Close(); err != nil {
		return err
	}
	st.applying.Lock()
	defer st.applying.Unlock()
	// The recorded version may be above the visible one, as that of a Spill is recorded first. It
	// must never go back: the next session would give the same version twice.
	edit := &layout.Edit{CleanClose: true, Scrub: scrub, LastVersion: max(st.views.Visible(), st.views.Current().Layout.LastVersion()), NextFile: st.files.LastNum() + 1}
	if segments := st.unflushed.segments(); len(segments) > 0 {
		edit.JournalEnds = append(edit.JournalEnds, segments[len(segments)-1].End)
	}
	_, err := st.log.Append(edit)
	return err
}

// setResults sets the results of a piece of work.
func (w *Work) setResults(out *compact.Output) {
	w.EntriesIn, w.Dropped, w.BytesOut = int64(out.Read), out.Dropped, out.FileBytes()
}
