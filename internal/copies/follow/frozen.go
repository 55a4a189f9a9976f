package follow

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// Source is a store of which copies are made as of a moment: one that is open to be read or, for
// the moment of a Snapshot, one that is written. Such a copy is frozen: its files are those of a
// View, and what that View has in memtables is flushed here to files in memory, as a copy has no
// journal.
type Source struct {
	checkpoint.Fileset                              // of the store, without a layout
	Views              *view.Set                    // of the store
	Follower           *Follower                    // makes Views; nil: no other process writes the store
	Unflushed          func() []journal.SegmentInfo // without a Follower: the journal's segments that no run has
	Memory             int64                        // view.OpenerConfig has these
	RunFileBytes       int64
	Now                func() time.Time

	// Exclusive calls a function while nothing is committed; nil: nothing ever is.
	Exclusive func(context.Context, func() error) error
}

// Moment is what copies of the store as of one version need to know. They can be made as long as a
// pin of the View is held.
type Moment struct {
	Version   entry.Version
	Milli     int64                 // when that was the newest version, in Unix milliseconds
	tables    []momentTable         // newest first
	unflushed []journal.SegmentInfo // of the journal
}

// momentTable is a memtable as it was at the moment. It may have grown since.
type momentTable struct {
	*view.Table
	last     entry.FileNum // newest of its journal segments
	ranges   *rangedel.Set
	shadowed iter.Seq[entry.Handle]
}

// newMoment notes what the View has at its newest version. The caller makes sure that nothing is
// added to memtables and journal meanwhile.
func (c *Source) newMoment(v *view.View, version entry.Version, unflushed []journal.SegmentInfo) *Moment {
	m := &Moment{Version: version, Milli: c.Now().UnixMilli(), unflushed: unflushed}
	for _, t := range v.Tables {
		m.tables = append(m.tables, momentTable{t, t.Last, t.RangeDeletes(), t.Shadowed()})
	}
	return m
}

// hasSegments reports whether the journal's segments of all memtables are known.
func (m *Moment) hasSegments() bool {
	return !slices.ContainsFunc(m.tables, func(t momentTable) bool {
		return t.last != 0 && journal.FindSegment(m.unflushed, t.last).File == 0
	})
}

// Pin pins the newest version, and notes the moment. No run of the View has anything newer: what
// bypasses the memtables is committed by Exclusive, too.
func (c *Source) Pin(ctx context.Context) (p *view.Pin, m *Moment, err error) {
	pin := func(unflushed []journal.SegmentInfo) (err error) {
		if p, err = c.Views.Acquire(0); err == nil {
			m = c.newMoment(p.View(), p.Version(), unflushed)
		}
		return err
	}
	switch {
	case c.Follower != nil:
		err = c.Follower.During(ctx, pin)
	case c.Exclusive != nil:
		// A flush takes segments from the list a moment before its View is there. What is between the
		// two does not go together: that moment is soon over.
		for m == nil && err == nil {
			err = c.Exclusive(ctx, func() error {
				err := pin(c.Unflushed())
				if err == nil && !m.hasSegments() {
					p.Release()
					m = nil
				}
				return err
			})
		}
	default:
		err = pin(c.Unflushed())
	}
	return p, m, err
}

// Freeze returns the store as of its newest version. Call release when the files are not needed
// any more.
func (c *Source) Freeze(ctx context.Context) (s checkpoint.Fileset, release func(), err error) {
	freeze := func(unflushed []journal.SegmentInfo) error {
		hold, err := c.Views.Hold()
		if err == nil {
			s, release, err = c.FreezeAt(ctx, hold, c.newMoment(hold.View(), c.Views.Visible(), unflushed))
		}
		return err
	}
	if c.Follower != nil {
		err = c.Follower.During(ctx, freeze)
	} else {
		err = freeze(c.Unflushed())
	}
	return s, release, err
}

// frozen is a Freeze under way.
type frozen struct {
	*Source
	*Moment
	fs     *fileSystem
	view   *view.View
	layout *layout.Layout
	files  *view.Opener // of fs
	lone   map[filename.Name]bool
}

// FreezeAt returns the store as of a moment. hold is a pin of its View, which FreezeAt takes over. It
// returns fs.ErrNotExist if a data key was removed since. Call release when the files are not needed
// any more.
func (c *Source) FreezeAt(ctx context.Context, hold *view.Pin, m *Moment) (s checkpoint.Fileset, release func(), err error) {
	defer func() {
		if err != nil {
			hold.Release()
		}
	}()
	f := &frozen{Source: c, Moment: m, fs: newFileSystem(c.FS), view: hold.View(), layout: hold.View().Layout, lone: make(map[filename.Name]bool)}
	own := c.Store
	own.FS = f.fs
	f.files = view.NewOpener(view.OpenerConfig{Store: own, Memory: c.Memory, RunFileBytes: c.RunFileBytes})
	var names []filename.Name
	for _, s := range m.unflushed {
		name := filename.New(filename.Journal, s.File)
		names = append(names, name)
		f.fs.limits[f.Path(name)] = s.Offset // it may have grown since
	}
	f.files.CountFrom(names, f.layout)
	if c.Follower != nil {
		f.holdFiles()
	}
	for _, t := range slices.Backward(m.tables) { // oldest first
		if err := f.freezeTable(ctx, t); err != nil {
			return s, nil, err
		}
	}
	asOf, _, err := f.layout.AsOf(m.Version, f.layout, m.Milli)
	if err != nil {
		return s, nil, err
	}
	s = c.Fileset
	s.Layout, s.Milli = asOf, m.Milli
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
			f.fs.held[file.Name()] = file
		}
	}
	for _, s := range f.view.Segments.Files {
		if s.Moved != nil {
			held := s.Moved.Held()
			f.fs.held[held.Name()] = held
		} else {
			f.fs.held[s.Held().Name()] = s.Held()
		}
	}
}

// freezeTable adds a memtable to the layout: a run in memory, and each journal segment that has live
// values, up to where it was at the moment. All versions up to that stay: which ones go is for the
// writer to say.
func (f *frozen) freezeTable(ctx context.Context, t momentTable) error {
	if t.last == 0 {
		return nil // it is empty
	}
	rules := compact.Rules{
		RangeDeletes: []rangedel.Source{t.ranges},
		Dropped:      func(id entry.KeyspaceID) bool { return id != entry.DefaultKeyspace && f.layout.Keyspace(id) == nil },
	}
	// Without room for values that move, none does.
	live, kept := compact.MeasureLiveness(upTo{t.Iterator(), f.Version}, t.shadowed, f.unflushed, rules, 0)
	out, err := compact.Execute(ctx, compact.Input{
		Entries: upTo{t.Iterator(), f.Version}, Rules: rules, Extract: live.Moves, Move: f.view.MoveValue,
		Run: f.files.NewRunWriter(false, entry.NewExpiries(uint64(max(f.Now().UnixMilli(), 0))), manifest.Describe(f.layout, nil)),
	})
	if err != nil {
		return err
	}
	for h := range t.shadowed {
		out.Dead.Add(h)
	}
	edit := &layout.Edit{
		FlushedTo: t.last, JournalEnds: []frame.End{journal.FindSegment(f.unflushed, t.last).End},
		AddRuns: layout.NewRuns(out.Run, layout.Upper), AddSegments: kept,
		LastVersion: max(f.Version, f.layout.LastVersion()), NextFile: f.files.LastNum() + 1,
	}
	for i := range edit.AddRuns {
		edit.AddRuns[i].Order = f.layout.NextOrder()
		for _, file := range edit.AddRuns[i].Files {
			f.lone[filename.New(filename.Run, file.Num)] = true
		}
	}
	for _, s := range kept {
		// Where this process writes, a sealed segment may not be synced yet, as a copy is.
		f.lone[filename.New(filename.Journal, s.Num)] = f.Exclusive != nil || !journal.FindSegment(f.unflushed, s.Num).Sealed
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

// upTo walks the entries of a memtable up to a version, forward.
type upTo struct {
	iterator.Iterator
	version entry.Version
}

func (it upTo) First() bool { return it.skipNewer(it.Iterator.First()) }
func (it upTo) Next() bool  { return it.skipNewer(it.Iterator.Next()) }

// skipNewer moves on while the entry is newer. ok says whether there is one.
func (it upTo) skipNewer(ok bool) bool {
	for ok && it.Entry().Version > it.version {
		ok = it.SkipNewer(it.version)
	}
	return ok
}
