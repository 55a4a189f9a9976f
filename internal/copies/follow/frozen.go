package follow

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// Source is a store that is open to be read. A copy of it is frozen: its files as of one moment,
// and what the writer has not flushed, which is flushed here to files in memory, as a copy has no
// journal.
type Source struct {
	checkpoint.Fileset                       // of the store, without a layout
	Views              *view.Set             // of the store
	Follower           *Follower             // makes Views; nil: nobody writes the store
	Unflushed          []journal.SegmentInfo // without a Follower: the journal's segments that no run has
	Memory             int64                 // view.OpenerConfig has these
	RunFileBytes       int64
	Now                func() time.Time
}

// Freeze returns the store as of its newest version. Call release when the files are not needed
// any more.
func (c *Source) Freeze(ctx context.Context) (s checkpoint.Fileset, release func(), err error) {
	if c.Follower == nil {
		return c.freezeNow(ctx, c.Unflushed)
	}
	err = c.Follower.During(ctx, func(unflushed []journal.SegmentInfo) (err error) {
		s, release, err = c.freezeNow(ctx, unflushed)
		return err
	})
	return s, release, err
}

// frozen is a Freeze under way.
type frozen struct {
	*Source
	fs     *fileSystem
	view   *view.View
	layout *layout.Layout
	files  *view.Opener // of fs
	lone   map[filename.Name]bool

	unflushed []journal.SegmentInfo // of the writer's journal
}

// freezeNow is Freeze while the memtables and the journal stay as they are. It returns
// fs.ErrNotExist if the writer has removed a data key meanwhile.
func (c *Source) freezeNow(ctx context.Context, unflushed []journal.SegmentInfo) (s checkpoint.Fileset, release func(), err error) {
	hold, err := c.Views.Hold()
	if err != nil {
		return s, nil, err
	}
	defer func() {
		if err != nil {
			hold.Release()
		}
	}()
	f := &frozen{Source: c, fs: newFileSystem(c.FS), view: hold.View(), layout: hold.View().Layout, lone: make(map[filename.Name]bool), unflushed: unflushed}
	own := c.Store
	own.FS = f.fs
	f.files = view.NewOpener(view.OpenerConfig{Store: own, Memory: c.Memory, RunFileBytes: c.RunFileBytes})
	var names []filename.Name
	for _, s := range unflushed {
		names = append(names, filename.New(filename.Journal, s.File))
	}
	f.files.CountFrom(names, f.layout)
	if c.Follower != nil {
		f.holdFiles()
	}
	visible := c.Views.Visible()
	for _, t := range slices.Backward(f.view.Tables) { // oldest first
		if err := f.freezeTable(ctx, t, visible); err != nil {
			return s, nil, err
		}
	}
	milli := c.Now().UnixMilli()
	asOf, _, err := f.layout.AsOf(visible, f.layout, milli)
	if err != nil {
		return s, nil, err
	}
	s = c.Fileset
	s.Layout, s.Milli = asOf, milli
	if err := s.LoadKeys(); err != nil {
		return s, nil, err
	}
	for f := range asOf.Files() {
		// A file that EncryptStore has left plain, and nothing has rewritten yet, needs no key.
		if s.Keys != nil && !f.KeyID.IsZero() && !s.Keys.Has(f.KeyID.Key) {
			return s, nil, fmt.Errorf("%w: data key %x was taken away meanwhile: %w", errs.ErrKey, f.KeyID.Key, fs.ErrNotExist)
		}
	}
	s.FS, s.Lone = f.fs, f.lone
	_, release = hold.HoldPart(func(part *view.View) { part.Tables = nil })
	return s, release, nil
}

// holdFiles has the copy read the files that the View has open: the writer may remove their names. So a
// copy needs no descriptors of its own.
func (f *frozen) holdFiles() {
	for _, r := range f.view.Runs {
		for _, file := range r.Held() {
			f.fs.holdFile(file)
		}
	}
	for _, s := range f.view.Segments.Files {
		if s.Moved != nil {
			f.fs.holdFile(s.Moved.Held())
		} else {
			f.fs.holdFile(s.Held())
		}
	}
	for _, s := range f.unflushed {
		f.fs.limitFile(f.Path(filename.New(filename.Journal, s.File)), s.Offset)
	}
}

// freezeTable adds a memtable to the layout: a run in memory, and each journal segment that has live
// values, up to where it was read. All versions stay: which ones go is for the writer to say.
func (f *frozen) freezeTable(ctx context.Context, t *view.Table, visible entry.Version) error {
	if t.Last == 0 {
		return nil // it is empty
	}
	rules := compact.Rules{
		RangeDeletes: []rangedel.Source{t.RangeDeletes()},
		Dropped:      func(id entry.KeyspaceID) bool { return id != entry.DefaultKeyspace && f.layout.Keyspace(id) == nil },
	}
	// Without room for values that move, none does.
	live, kept := compact.MeasureLiveness(t.Table, f.unflushed, rules, 0)
	out, err := compact.Execute(ctx, compact.Input{
		Entries: t.Iterator(), Rules: rules, Extract: live.Moves, Move: f.view.MoveValue,
		Run: f.files.NewRunWriter(false, entry.NewExpiries(uint64(max(f.Now().UnixMilli(), 0))), manifest.Describe(f.layout, nil)),
	})
	if err != nil {
		return err
	}
	t.Shadowed(out.Dead.Add)
	edit := &layout.Edit{
		FlushedTo: t.Last, JournalEnds: []frame.End{journal.FindSegment(f.unflushed, t.Last).End},
		AddRuns: layout.NewRuns(out.Run, layout.Upper), AddSegments: kept,
		LastVersion: max(visible, f.layout.LastVersion()), NextFile: f.files.LastNum() + 1,
	}
	for i := range edit.AddRuns {
		edit.AddRuns[i].Order = f.layout.NextOrder()
		for _, file := range edit.AddRuns[i].Files {
			f.lone[filename.New(filename.Run, file.Num)] = true
		}
	}
	for _, s := range kept {
		f.lone[filename.New(filename.Journal, s.Num)] = !journal.FindSegment(f.unflushed, s.Num).Sealed
	}
	if edit.Dead, err = new(view.Change).ListDead(f.view, f.layout, edit, out.Dead.Lists()); err != nil {
		return err
	}
	if err := f.layout.DropUnreferenced(edit); err != nil {
		return err
	}
	f.layout, err = f.layout.Apply(edit)
	return err
}
