package engine

import (
	"context"
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/failure"
	"github.com/brockdb/brock/internal/copies/follow"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/journal"
	"github.com/brockdb/brock/report"
)

// Recovery says what Open found.
type Recovery struct {
	Frames    int   // journal frames replayed
	Entries   int64 // entries in them
	Bytes     int64 // of journal read for them
	CutBytes  int64 // of the journal's torn tail
	CutFrames int   // whole frames behind the torn tail, which are cut with it
	Removed   int   // files that nothing refers to
	Manifest  manifest.Recovery
	Lost      *report.Loss // what was left out because of damage; nil: nothing
}

// Open opens the files that the manifest names, replays the journal, repairs the manifest, and
// removes the files that a crash has left. The caller holds the store's lock. Until everything
// was read and found good, Open changes no byte and no name. Only journal.Replay may write the
// same bytes again.
func Open(cfg Config, log *manifest.Log) (e *Engine, rec Recovery, err error) {
	if cfg.Policy.SegmentBytes == 0 {
		cfg.Policy.SegmentBytes = uint64(cfg.SegmentBytes)
	}
	cfg.Policy.MovedRecords = movedRecords(cfg.Memory)
	e = newEngine(&cfg, log)
	rec.Manifest = log.Recovered()
	if cfg.Follow {
		return e, rec, e.follow()
	}
	layout := log.Layout()
	first := &view.View{Layout: layout}
	defer func() {
		if err != nil {
			first.Close()
		}
	}()
	names, err := e.files.List()
	if err != nil {
		return nil, rec, err
	}
	names = view.WithoutStrays(names, layout)
	e.files.CountFrom(names, layout)
	if err := e.files.OpenLayout(layout, first); err != nil {
		first.NameKeys(err)
		return nil, rec, unreachable(rec.Manifest.Damage, err)
	}
	result, err := e.Work.writer.replayJournal(layout, first, &rec)
	if err != nil {
		return nil, rec, err
	}
	rec.Lost = lostBehind(&rec.Manifest, first, &result)
	last := max(layout.LastVersion(), result.Begin.LastVersion)
	if rec.Lost != nil { // the manifest may know versions that are lost
		last = max(newest(first), greatestFloor(layout))
	}
	if last > entry.MaxVersion-1<<32 {
		return nil, rec, fmt.Errorf("%w: the last version is %d, and few are left", errs.ErrUnsupported, last)
	}
	e.views.Publish(last)
	if !cfg.ReadOnly {
		if err := e.forWriting(names, &result, &rec); err != nil {
			return nil, rec, err
		}
		layout = log.Layout()
	}
	e.makeTasks()
	e.views.Install(func(next *view.View) {
		next.Tables, next.Runs, next.Segments = first.Tables, first.Runs, first.Segments
		next.Layout = layout
		e.budget.measure(next)
	})
	view.WeighAllDropped(first.Runs, layout)
	return e, rec, nil
}

// forWriting prepares what was read for writing: the manifest, the files and the journal.
func (e *Engine) forWriting(names []filename.Name, result *journal.ReplayResult, rec *Recovery) error {
	if err := e.log.Mend(); err != nil {
		return err
	}
	e.log.Found(result.Begin.End)
	rec.Removed = e.files.RemoveLeftovers(names, e.log.Layout(), *result)
	if len(result.Dropped) > 0 {
		// A segment that was given up must not come back once others continue the chain there.
		if err := e.cfg.FS.SyncDir(e.cfg.ValueDir); err != nil {
			return err
		}
	}
	known := view.KnownJournal(e.log.Layout())
	e.Journal = journal.New(journal.Config{
		Config: e.files.Segments(), NoMap: e.cfg.NoMap, Owner: journalOwner{e.state, e.Work.disk}, MaxUnsynced: view.Unsynced(e.cfg.OpenFiles),
		Begin: result.Begin, Registered: known.Proven(), Found: result.Segments,
	})
	e.unflushed.journal = e.Journal
	// Register what the replay has made durable. If the disk has no room for the edit, the first
	// Sync tries again.
	if err := e.Journal.Register(); err != nil && !failure.Passes(err) {
		return err
	}
	return nil
}

// follow is Open of a store that another process may be writing.
func (e *Engine) follow() error {
	cfg := e.cfg
	keys := func(context.Context) (end func()) { return func() {} }
	if cfg.Keyring != nil {
		keys = cfg.Keyring.During
	}
	e.Copies.follower = follow.New(follow.Config{
		Keys: keys, Log: e.log, Files: e.files, Views: e.views, Store: cfg.Store, TableBytes: cfg.MemtableBytes, Memory: cfg.Memory, Policy: cfg.Policy,
		Journal: journal.ReplayConfig{Config: e.files.Segments(), NoMap: cfg.NoMap},
	})
	if _, err := e.Copies.follower.Refresh(context.Background()); err != nil {
		e.Copies.follower.Close()
		return err
	}
	e.makeTasks()
	return nil
}
