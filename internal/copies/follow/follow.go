// Package follow reads a store that another process is writing, and copies one that this process
// doesn't write: it makes Views of what the manifest and the journal say at a moment. A View is
// what LevelDB's successors call a superversion: memtables and files as of one moment. The package
// takes no lock that the writer waits for.
//
// It knows the writer by its files only. Files that a manifest names never change, and a file
// that is open stays readable when its name is removed. So a View is right if all its files are
// open, and the manifest, read again after they were opened, still has the same data (docs/adr,
// 51).
package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// Config is what a Follower needs.
type Config struct {
	filename.Store
	Log        *manifest.Log // read-only
	Files      *view.Opener
	Views      *view.Set
	TableBytes int                                // of a memtable, at most
	Memory     int64                              // most bytes that memtables may take; 0: no bound
	Keys       func(context.Context) (end func()) // until end, keys are asked for within the context
}

// Follower makes the Views of a store that follows another process. Its methods may be
// called by any number of goroutines.
type Follower struct {
	c Config

	turn    jobs.Turn // held by one Refresh or Verify at a time; guards:
	journal *journal.Follower
	tables  []*table        // newest first; not empty after the first Refresh
	opened  view.View       // files that this Refresh has opened for the next View
	ctx     context.Context // of the Refresh under way
	broken  bool            // the memtables may lack records, or have some twice
	checked int64           // bytes added since the memory limit was checked
	frames  entry.Version   // greatest version in the frames that were read
	apart   frame.Header    // the last one that doesn't follow the frame before: the manifest must know what it follows
	session uint64          // newest session that the current View knows
	shown   frame.Name      // the last frame of the journal that the current View has
}

// table is a memtable with the entries of some journal segments.
type table struct {
	*view.Table
	first entry.FileNum // first of its segments; 0 while it has none
	held  bool          // a View has it, and discards it
}

// The entries of the next journal segment go to the same memtable while that is filled to less
// than 1/16. So there are few memtables, and each is dropped once the writer has flushed its
// segments.
const smallTable = 16

// checkEvery is how many bytes are added between two checks of the memory limit.
const checkEvery = 1 << 20

// New returns a Follower. The Set has no View before the first Refresh.
func New(c Config) *Follower {
	f := &Follower{c: c, turn: jobs.NewTurn()}
	f.journal = journal.NewFollower(journal.ReplayConfig{Config: c.Files.SegmentConfig(), NoMap: c.NoMap}, f.addRecords)
	return f
}

// What fails because the writer changes the files meanwhile is tried again for about a second. Tries
// are counted, and not the time: a process that was stopped for a second between two reads must try
// again, too.
const (
	attempts  = 30
	mostPause = 40 * time.Millisecond
)

// TryAgain calls fn, which reads files that another process may be writing, until it succeeds or
// another attempt would fail in the same way.
func TryAgain(ctx context.Context, fn func() error) error {
	pause := time.Millisecond
	for try := 1; ; try++ {
		if err := errs.Ended(ctx); err != nil {
			return err
		}
		// A file that is being written can look damaged, or may have been removed between two reads.
		if err := fn(); err == nil || isFinal(err) || try == attempts {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}

// isFinal reports whether another attempt would fail in the same way. An absent key, or one that was
// taken away (fs.ErrNotExist), is not final: the writer removes a data key once nothing is under it,
// so the manifest that was read is old.
func isFinal(err error) bool {
	refused := errors.Is(err, errs.ErrKey) && !errors.Is(err, keyring.ErrAbsent) && !errors.Is(err, fs.ErrNotExist)
	return refused || errors.Is(err, errs.ErrFormat) || errors.Is(err, errs.ErrInvalid) ||
		errors.Is(err, errs.ErrUnsupported) || errors.Is(err, errs.ErrNotExist) || errors.Is(err, errs.ErrClosed)
}

// errMoved says that the manifest tells of other data than before the journal was read.
var errMoved = errors.New("the manifest has gone on")

// Refresh makes everything visible that was durable when it was called, or more, and
// returns the newest version. After an error all is as before.
func (f *Follower) Refresh(ctx context.Context) (version entry.Version, err error) {
	err = f.During(ctx, func([]journal.SegmentInfo) error {
		version = f.c.Views.Visible()
		return nil
	})
	return version, err
}

// During calls fn after a Refresh, with the journal segments that are not in runs, up to where
// they were read. No other Refresh runs meanwhile, so that memtables and journal stay as they are.
// It begins again, for some time, if fn returns fs.ErrNotExist: the writer has gone on.
func (f *Follower) During(ctx context.Context, fn func(unflushed []journal.SegmentInfo) error) error {
	if err := f.turn.Take(ctx); err != nil {
		return err
	}
	defer f.turn.Leave()
	defer f.c.Keys(ctx)()
	f.ctx = ctx
	defer f.closeOpened()
	var result error
	err := TryAgain(ctx, func() error {
		err := errMoved
		for err == errMoved { // what was read and opened is kept, so there is less to do next time
			err = f.refreshOnce()
		}
		if err != nil {
			return err
		}
		// A segment was removed before fn could open it: what it had is in runs now.
		if result = fn(f.journal.Segments()); errors.Is(result, fs.ErrNotExist) {
			return result
		}
		return nil
	})
	return cmp.Or(err, result)
}

// closeOpened closes the files that were opened for a View that was not installed, and forgets the
// context.
func (f *Follower) closeOpened() {
	f.ctx = nil
	f.opened.Close()
	f.opened = view.View{}
}

// refreshOnce is one attempt of Refresh.
func (f *Follower) refreshOnce() error {
	if err := errs.Ended(f.ctx); err != nil {
		return err
	}
	if f.c.Views.Closed() {
		return errs.ErrClosed
	}
	if err := f.c.Log.Refresh(); err != nil {
		return err
	}
	l := f.c.Log.Layout()
	// Before dropFlushed, which may forget what was shown.
	if err := f.journal.CheckSame(view.KnownJournal(l)); err != nil {
		return err
	}
	if !l.Sessions().Found(f.session, f.shown) {
		return fmt.Errorf("%w: the journal was shown up to {%v}, and another session has found it without that", errs.ErrForeign, f.shown)
	}
	// The manifest first: what its runs lack must be in the journal, unless the manifest has gone
	// on meanwhile, which checkUnchanged finds.
	f.dropFlushed(l)
	if err := f.journal.Follow(view.KnownJournal(l)); err != nil {
		return err
	}
	next, err := f.c.Files.NextView(f.c.Views.Current(), &f.opened, l, f.journal.Segments())
	if err == nil {
		// After all files are open: only then can nothing of l vanish any more.
		err = f.checkUnchanged(l)
	}
	if err != nil {
		return err
	}
	f.installView(next)
	return nil
}

// dropFlushed drops the memtables whose entries are in runs of l. If a memtable also has other
// entries, the journal is read again.
func (f *Follower) dropFlushed(l *layout.Layout) {
	flushed := l.FlushedTo()
	across := slices.ContainsFunc(f.tables, func(t *table) bool { return t.first != 0 && t.first <= flushed && flushed < t.Last })
	// A memtable can't be divided: drop all, and read what the runs lack again.
	if across || f.broken {
		f.journal.Reset()
	}
	f.tables = slices.DeleteFunc(f.tables, func(t *table) bool {
		gone := across || f.broken || t.first != 0 && t.Last <= flushed
		if gone && !t.held {
			// One that a View has is discarded with the View.
			t.Discard()
		}
		return gone
	})
	f.broken = false
	if len(f.tables) == 0 {
		f.beginTable()
	}
}

// beginTable makes a new memtable the newest one.
func (f *Follower) beginTable() {
	t := &table{Table: view.NewTable(f.c.Seed, f.c.TableBytes, 0)}
	f.tables = append([]*table{t}, f.tables...)
}

// addRecords adds the records of a frame. Nobody sees them before they are published.
func (f *Follower) addRecords(pos entry.Position, payload []byte, h frame.Header) error {
	f.broken = true // until all records were added, also if that panics
	err := f.addFrame(pos, payload, h)
	f.broken = err != nil
	return err
}

// addFrame adds the records of a frame to the newest memtable, or to a new one.
func (f *Follower) addFrame(pos entry.Position, payload []byte, h frame.Header) error {
	active := f.tables[0]
	if pos.Segment != active.Last && !active.Empty() {
		full, err := f.isFull(active, pos.Segment)
		if err != nil {
			return err
		}
		if full {
			f.beginTable()
			active = f.tables[0]
		}
	}
	if active.first == 0 {
		active.first = pos.Segment
	}
	// The writer may have gigabytes that are not flushed.
	if f.checked += int64(len(payload)); f.checked >= checkEvery {
		f.checked = 0
		if err := cmp.Or(errs.Ended(f.ctx), f.checkMemory()); err != nil {
			return err
		}
	}
	// Versions between two frames are of commits that bypass the journal: the manifest has them, or
	// they are lost.
	if !h.Follows(f.frames) {
		f.apart = h
	}
	f.frames = max(f.frames, h.LastVersion())
	a := active.BeginFrame(&h, payload, pos)
	return a.AddAll(nil)
}

// isFull reports whether a memtable ends before the segment num.
func (f *Follower) isFull(t *table, num entry.FileNum) (bool, error) {
	if t.Bytes() >= int64(f.c.TableBytes)/smallTable {
		return true, nil
	}
	info, err := f.c.FS.Stat(f.c.Path(filename.New(filename.Journal, num)))
	// A segment goes to one memtable as a whole, so that one can be dropped when the other is
	// flushed.
	return !t.Fits(info.Size), err
}

// checkMemory returns an error if the memtables, with those that only open transactions read, take
// more than Config.Memory.
func (f *Follower) checkMemory() error {
	if f.c.Memory == 0 {
		return nil
	}
	var bytes int64
	if f.c.Views.Current() != nil {
		f.c.Views.ReclaimViews()
		_, bytes = f.c.Views.CountMemtables()
	}
	for _, t := range f.tables {
		if !t.held {
			bytes += t.Bytes()
		}
	}
	if bytes > f.c.Memory {
		return fmt.Errorf("%w: what the writer has not flushed, and what open transactions see, takes more than MemoryLimit, %d bytes", errs.ErrInvalid, f.c.Memory)
	}
	return nil
}

// checkUnchanged returns errMoved if the manifest no longer has the data of l. Then the journal, as
// it was read, may not fit l: segments may have been removed before they were read, and a commit
// may come after a large transaction or a new keyspace, of which only the manifest tells.
func (f *Follower) checkUnchanged(l *layout.Layout) error {
	if err := f.c.Log.Refresh(); err != nil {
		return err
	}
	if !sameData(f.c.Log.Layout(), l) {
		return errMoved
	}
	if !f.apart.Follows(f.c.Log.Layout().LastVersion()) {
		return errs.NewCorruption(filename.Of(filename.Journal, f.journal.End().File), -1, "frame %d has version %d, and the one before it is not known", f.apart.Number, f.apart.FirstVersion)
	}
	// Versions never go back, so this is an older copy of the store.
	if last := f.newestRead(l); last < f.c.Views.Visible() {
		return fmt.Errorf("%w: the store ends at version %d, and had %d", errs.ErrForeign, last, f.c.Views.Visible())
	}
	return nil
}

// sameData reports whether two layouts have the same entries and keyspaces, and no session is new.
func sameData(a, b *layout.Layout) bool {
	return a == b || a.FlushedTo() == b.FlushedTo() && a.Sessions().Last() == b.Sessions().Last() &&
		slices.EqualFunc(a.Runs(), b.Runs(), func(a, b *layout.Run) bool { return a.ID == b.ID }) &&
		slices.EqualFunc(a.Keyspaces(), b.Keyspaces(), func(a, b layout.Keyspace) bool { return a.ID == b.ID && a.Name == b.Name })
}

// newestRead returns the newest version that was read.
func (f *Follower) newestRead(l *layout.Layout) entry.Version {
	return max(l.LastVersion(), f.journal.End().LastVersion)
}

// installView makes next the current View, and publishes its newest version.
func (f *Follower) installView(next *view.View) {
	for _, t := range f.tables {
		t.held = true
		next.Tables = append(next.Tables, t.Table)
	}
	f.c.Views.Floors.FollowLayout(next.Layout)
	// The View before its version: a reader that asks for the version must find the View that has
	// it.
	f.c.Views.Install(func(v *view.View) {
		*v = view.View{Tables: next.Tables, Runs: next.Runs, Segments: next.Segments, Feed: next.Feed, Layout: next.Layout}
	})
	// They belong to the View now, and are closed with it.
	f.opened = view.View{}
	f.session, f.shown = next.Layout.Sessions().Last(), f.journal.End().Name
	f.c.Views.Publish(f.newestRead(next.Layout))
	f.c.Views.ReclaimViews()
}

// Close discards the memtables that no View has. Close the Set before.
func (f *Follower) Close() {
	f.turn.Always()
	defer f.turn.Leave()
	for _, t := range f.tables {
		if !t.held {
			t.Discard()
		}
	}
	f.tables, f.broken = nil, true
}

// Verify checks SUPER and the manifest as they are now, as manifest.Log.Verify does. It tries
// again while they are damaged, for a second, as the writer may be writing them.
func (f *Follower) Verify(ctx context.Context, report func(*errs.Corruption)) error {
	if err := f.turn.Take(ctx); err != nil {
		return err
	}
	defer f.turn.Leave()
	defer f.c.Keys(ctx)()
	var found []*errs.Corruption
	err := TryAgain(ctx, func() error {
		found = nil
		add := func(c *errs.Corruption) { found = append(found, c) }
		err := f.c.Log.Refresh()
		if err == nil {
			err = f.c.Log.Verify(add)
		}
		if err = view.ReportDamage(err, add); err == nil && len(found) > 0 {
			return found[0] // what the writer was writing will be complete next time
		}
		return err
	})
	if !errors.Is(err, errs.ErrCorrupt) {
		return err
	}
	for _, c := range found {
		report(c)
	}
	return nil
}
