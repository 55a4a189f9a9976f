package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
)

// flusher writes sealed memtables into runs.
type flusher struct {
	*state

	turn jobs.Turn // of one flush after the other
}

// flushSealed flushes all sealed memtables, oldest first.
func (f *flusher) flushSealed(ctx context.Context) error {
	if err := f.turn.Take(ctx); err != nil {
		return err
	}
	defer f.turn.Leave()
	// Who waits for a flush gives up only if an attempt fails that began after the wait: an older
	// failure may be over by now.
	attempt := f.lifetime.flushing.Add(1)
	if f.disk.isFull() {
		// History goes first. If that fails, the flush finds out whether the disk is full.
		_ = f.dropFeed(f.views.Current().Layout.Feed().Newest())
	}
	for did := true; did; {
		var err error
		if did, err = f.flushOldest(ctx); err != nil {
			// Committers that wait for memory, and callers of Flush, get this error. Otherwise they
			// would wait for as long as it lasts.
			if errs.Passes(err) {
				f.lifetime.unable.Store(&flushFailure{attempt, err})
				f.views.WakeWatchers()
			}
			f.disk.judgeFailure(ctx, err)
			return err
		}
		// The failure may have had writes refused (diskSpace.isFull). Measure now, as no write
		// comes to do it.
		if f.lifetime.unable.Swap(nil) != nil {
			f.disk.measureSpace()
		}
	}
	// Sync sealed journal segments here, even if nothing was flushed: otherwise the next
	// Synced commit would have to wait for that.
	return f.unflushed.journal.SyncSealed()
}

// flushOldest writes the oldest sealed memtable into a run, and reports whether there was one.
func (f *flusher) flushOldest(ctx context.Context) (did bool, err error) {
	did, err = f.flushTable(ctx, f.disk.roomForValues())
	if errs.IsFull(err) {
		// A file system may have less room than it says: flush without moving values.
		return f.flushTable(ctx, 0)
	}
	return did, err
}

// flushTable writes the oldest sealed memtable into a run, and reports whether there was one. It
// also decides about the memtable's journal segments, as their handles are being written anyway. A
// segment of mostly live values is kept as it is, and is a value segment from then on. The values
// of the other segments move, in key order, to a new value segment, and their files are free. If
// these values take more than room bytes, all segments with live values are kept, and collections
// free them later, one by one.
func (f *flusher) flushTable(ctx context.Context, room int64) (did bool, err error) {
	hold, err := f.views.Hold()
	if err != nil {
		return false, err
	}
	defer f.views.ReclaimViews() // what this replaces
	part, release := hold.HoldPart(func(part *view.View) {
		// The oldest sealed memtable, if there is one beside the active one, and the
		// journal segments that have its values.
		part.Tables = part.Tables[max(1, len(part.Tables)-1):]
		part.Segments = part.Segments.Without(func(num entry.FileNum) bool { return part.Layout.Segment(num) != nil })
	})
	defer release()
	if len(part.Tables) == 0 {
		return false, nil
	}
	sealed := part.Tables[0]
	work := Work{Kind: "flush", Work: report.Work{Reason: "memtable sealed", BytesIn: sealed.Bytes()}}
	begin := time.Now()
	defer func() { f.reportWork(work, begin, err) }()
	// A delete must stay while an older run may have its key. The flush may drop it only if there is
	// no older run.
	rules := f.retentionRules(len(part.Runs) == 0)
	rules.RangeDeletes, rules.Older = append(rules.RangeDeletes, sealed.RangeDeletes()), part.ListOlder(nil)
	var live compact.Liveness
	var kept []layout.Segment
	// A memtable without separated values needs no look at each entry to know its segments: nothing
	// in them is needed after the flush.
	if sealed.Separated.Load() > 0 {
		live, kept = compact.MeasureLiveness(sealed.Iterator(), sealed.Shadowed(), f.unflushed.segments(), rules, room)
	}
	if len(kept) > 0 || f.feed.isWanted() {
		// The manifest must not name what a power loss would take.
		if err := f.unflushed.journal.SyncSealed(); err != nil {
			return false, fmt.Errorf("flush: %w", err)
		}
	}
	out, err := compact.Execute(ctx, compact.Input{
		Entries: sealed.Iterator(),
		Rules:   rules,
		Extract: live.Moves,
		Move:    part.MoveValue,
		Run:     f.files.NewRunWriter(rules.Bottom, entry.NewExpiries(rules.Now), manifest.Describe(part.Layout, nil)),
		Values:  f.files.NewValueWriter, ValueBytes: f.budget.segmentLimit(),
	})
	if err != nil {
		return false, fmt.Errorf("flush: %w", err)
	}
	// The values that a transaction has replaced itself have no entry any more, so the flush did
	// not meet them. If they were not counted as dead here, nobody ever would.
	for h := range sealed.Shadowed() {
		out.Dead.Add(h)
	}
	// From this edit on a replay begins behind the memtable's last journal segment.
	edit := &layout.Edit{
		FlushedTo:   sealed.Last,
		Lasting:     sealed.End.LastVersion,
		AddRuns:     layout.NewRuns(out.Run, layout.Upper),
		AddSegments: kept,
	}
	edit.JournalEnds = append(edit.JournalEnds, sealed.End.End)
	change := view.Change{Tables: []*view.Table{sealed}, Replaced: replacedBy(sealed), Since: part.Layout}
	if err := f.applyEdit(edit, &out, change); err != nil {
		return false, fmt.Errorf("flush: %w", err)
	}
	work.setResults(&out)
	return true, nil
}

// dropFeed gives up the history of the change feed that ends with upTo or before.
func (f *flusher) dropFeed(upTo entry.Version) error {
	if upTo == 0 {
		return nil
	}
	defer f.views.ReclaimViews()
	f.disk.dropped.Store(time.Now().UnixNano())
	return f.applyEdit(&layout.Edit{FeedFrom: upTo}, new(compact.Output), view.Change{})
}

// flushForCommit flushes all sealed memtables, for a commit that needs them in runs. An error that
// is not ErrStopped passes: the commit may be tried again.
func (f *flusher) flushForCommit(ctx context.Context) error {
	err := f.flushSealed(ctx)
	// Such an error has ended background work, or the store is closing. So it must not look like
	// one after which a commit may be tried again.
	if err != nil && !errs.Passes(err) {
		return fmt.Errorf("%w: %w", errs.ErrStopped, err)
	}
	return err
}
