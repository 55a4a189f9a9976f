package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/failure"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/version/meta"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/view/files"
	"github.com/brockdb/brock/internal/view/garbage"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// change is what a finished piece of work removes from the View, and what it knows of the run
// that it adds.
type change struct {
	tables   []*view.Table     // memtables that were flushed
	runs     []*view.Run       // runs that were compacted
	unread   []*view.Run       // those of runs that were not read, because nothing of them survives
	since    *layout.Layout    // the layout when a collection began
	replaced []meta.Superseded // Replaced of the new run, see view.Run
	drops    uint64            // installer.drops when the work began
}

// installer records edits in the manifest, one at a time, and installs the View after each.
type installer struct {
	cfg         *Config
	log         *manifest.Log
	views       *view.Set
	files       *files.Opener
	life        *lifetime
	unflushed   *files.Unflushed
	budget      *garbage.Budget
	damaged     *garbage.Damaged
	throttle    *throttle
	expiry      *expiry
	longReaders *view.LongReaders
	tasks       *tasks
	cuts        *cuts

	drops     atomic.Uint64 // number of keyspaces dropped since Open
	recording sync.Mutex    // held while an edit is made, recorded and installed
}

// install completes a piece of work. It opens the new files, records the edit (the commit
// point), installs a View with the new files and without those that they replace, and kicks
// all tasks. If it fails before the edit is written, or the edit is refused, the new files are
// removed. If the edit fails in another way, it is not known whether the manifest has it, so
// all files stay.
func (in *installer) install(edit *layout.Edit, out *compact.Output, c change) (err error) {
	added, err := in.files.OpenOutputs(edit, out)
	if err != nil {
		in.files.RemoveOutputs(out)
		return err
	}
	// From here on there is no other edit until this one is installed, so its dead records
	// are complete.
	in.recording.Lock()
	defer in.recording.Unlock()
	layout := in.views.Current().Layout
	err = in.complete(edit, layout, out, &added, c)
	if err == nil {
		err = files.DropUnreferenced(edit, layout)
	}
	if err != nil {
		added.Discard()
		in.files.RemoveOutputs(out)
		return err
	}
	// Set before the run is installed, because readers of the estimate take no lock.
	older := in.below(c.runs)
	for _, r := range added.Runs {
		r.WeighRanges(older)
	}
	next, err := in.log.Append(edit)
	if err != nil {
		added.Discard()
		if failure.Passes(err) {
			in.files.RemoveOutputs(out)
		} else {
			in.life.fail(err)
		}
		return err
	}
	if edit.FlushedTo != 0 {
		// Before the View releases the files: where an open file can't be removed, they must be closed.
		in.unflushed.Forget(edit.FlushedTo)
	}
	var unwanted []*view.Segment
	in.views.Install(func(v *view.View) { unwanted = in.change(v, added, c, edit, next) })
	in.cuts.flushed(c.tables)
	in.views.Wake()
	for _, f := range unwanted {
		f.Discard()
	}
	if len(older) == 0 {
		in.views.ForgetEmptied()
	}
	in.throttle.look(false)
	in.tasks.kick()
	in.expiry.await()
	in.longReaders.Look()
	return nil
}

// below returns the runs that are older than the inputs of a compaction. A flush has no
// inputs: all runs are older.
func (in *installer) below(inputs []*view.Run) []*view.Run {
	runs := in.views.Current().Runs
	if len(inputs) == 0 {
		return runs
	}
	return runs[slices.Index(runs, inputs[len(inputs)-1])+1:]
}

// complete sets what every edit records: garbage, versions, times, the next file number, and
// how far the journal is durable.
func (in *installer) complete(edit *layout.Edit, l *layout.Layout, out *compact.Output, added *files.Outputs, c change) (err error) {
	files.Describe(edit, l, out)
	if edit.Dead, err = added.Deaths(in.views.Current(), edit, l, out, c.unread, c.since); err != nil {
		return err
	}
	for i := range edit.AddRuns {
		if edit.AddRuns[i].Order == 0 {
			edit.AddRuns[i].Order = l.NextOrder()
		}
	}
	if err := in.keysOf(edit); err != nil {
		return err
	}
	in.views.Floors.Record(edit, l)
	// A Spill's version is recorded before it is published. Until then the version before it is
	// the newest.
	visible := in.views.Visible()
	edit.LastVersion = max(visible, edit.LastVersion, l.LastVersion())
	edit.Clock = []layout.ClockSample{{Version: visible, UnixMilli: in.cfg.Now().UnixMilli()}}
	edit.NextFile = in.files.Last() + 1
	edit.JournalEnds = append(edit.JournalEnds, in.unflushed.DurableEnds(max(edit.FlushedTo, l.FlushedTo()))...)
	return nil
}

// keysOf returns an error if a new file is encrypted under a data key that was removed since the
// work began.
func (in *installer) keysOf(edit *layout.Edit) error {
	if in.cfg.Keyring == nil {
		return nil
	}
	var lives []crypt.Life
	for _, r := range edit.AddRuns {
		for _, f := range r.Files {
			lives = append(lives, f.Life)
		}
	}
	for _, s := range edit.AddSegments {
		lives = append(lives, s.Life)
	}
	for _, s := range edit.States {
		lives = append(lives, s.Life)
	}
	for _, life := range lives {
		if !life.IsZero() && !in.cfg.Keyring.Has(life.Key) {
			return fmt.Errorf("%w: data key %x was taken away while a file was written under it", errs.ErrKey, life.Key)
		}
	}
	return nil
}

// change turns next, a copy of the current View, into the View after an edit. The files that
// it takes out are removed when their last reader has released them. It returns added files
// that are not needed after all; the caller releases them without the mutex.
func (in *installer) change(next *view.View, added files.Outputs, c change, edit *layout.Edit, l *layout.Layout) (unwanted []*view.Segment) {
	next.Tables = slices.DeleteFunc(next.Tables, func(m *view.Table) bool { return slices.Contains(c.tables, m) })
	at := 0 // flushed runs are the newest; compacted ones go where their inputs were
	if len(c.runs) > 0 {
		at = slices.Index(next.Runs, c.runs[0])
		next.Runs = slices.DeleteFunc(next.Runs, func(r *view.Run) bool { return slices.Contains(c.runs, r) })
	}
	for _, r := range added.Runs {
		r.Order, r.Replaced = l.Run(r.ID).Order, c.replaced
	}
	if c.drops != in.drops.Load() { // a keyspace was dropped meanwhile, and the run may have its entries
		garbage.NoteAllDropped(added.Runs, l)
	}
	next.Runs = slices.Insert(next.Runs, at, added.Runs...)
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
	for _, f := range slices.Concat(added.Files, added.Remaps) {
		if l.Segment(f.Num) == nil {
			f.Retire()
			unwanted = append(unwanted, f)
		} else {
			wanted = append(wanted, f)
		}
	}
	next.Segments = next.Segments.With(wanted...)
	next.Layout = l
	in.budget.Measure(next)
	next.Unclustered = policy.FindUnclustered(l, policy.State{Damaged: in.damaged.List()}, in.cfg.Policy)
	return unwanted
}

// record records the edit that make returns for the current layout, and installs that. The edit
// adds and removes no files. After an error that is not ErrStopped, everything is as before.
func (in *installer) record(make func(*layout.Layout) (*layout.Edit, error)) error {
	if in.cfg.ReadOnly {
		return errs.ErrReadOnly
	}
	defer in.views.Reclaim()
	in.recording.Lock()
	defer in.recording.Unlock()
	if in.views.Closed() {
		return errs.ErrClosed
	}
	edit, err := make(in.views.Current().Layout)
	if err != nil {
		return err
	}
	l, err := in.log.Append(edit)
	if err != nil {
		if !errors.Is(err, layout.ErrConflictingEdit) && !failure.Passes(err) {
			in.life.fail(err)
		}
		return err
	}
	in.views.Install(func(next *view.View) { next.Layout = l })
	in.tasks.kick()
	in.expiry.await() // a keyspace may retain less now
	return nil
}

// end makes the journal durable, and records where it ends and how far the scrub is.
// Close calls it.
func (in *installer) end(scrub layout.Scrub) error {
	if err := in.unflushed.Journal.Close(); err != nil {
		return err
	}
	in.recording.Lock()
	defer in.recording.Unlock()
	edit := &layout.Edit{CleanClose: true, Scrub: scrub, LastVersion: max(in.views.Visible(), in.views.Current().Layout.LastVersion()), NextFile: in.files.Last() + 1}
	if segments := in.unflushed.Segments(); len(segments) > 0 {
		edit.JournalEnds = []frame.End{segments[len(segments)-1].End}
	}
	_, err := in.log.Append(edit)
	return err
}

// done sets the results of a piece of work.
func (w *Work) done(out *compact.Output) {
	w.EntriesIn, w.Dropped, w.BytesOut = int64(out.Read), out.Dropped, files.OutputBytes(out)
}
