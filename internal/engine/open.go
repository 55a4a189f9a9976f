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
	"github.com/brockdb/brock/internal/view/files"
	"github.com/brockdb/brock/internal/view/garbage"
	"github.com/brockdb/brock/internal/vlog/journal"
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
	Lost      *Lost // what was left out because of damage; nil: nothing
}

// Open opens the files that the manifest names, replays the journal, repairs the manifest, and
// removes the files that a crash has left. The caller holds the store's lock. Until everything
// was read and found good, Open changes no byte and no name. Only journal.Replay may write the
// same bytes again.
func Open(cfg Config, log *manifest.Log) (t *Tree, rec Recovery, err error) {
	if cfg.Policy.SegmentBytes == 0 {
		cfg.Policy.SegmentBytes = uint64(cfg.SegmentBytes)
	}
	cfg.Policy.MovedRecords = files.MovedRecords(cfg.Memory)
	t = newTree(&cfg, log)
	rec.Manifest = log.Recovered()
	if cfg.Follow {
		return t, rec, t.follow()
	}
	layout := log.Layout()
	first := &view.View{Layout: layout}
	defer func() {
		if err != nil {
			first.Close()
		}
	}()
	names, err := t.files.List()
	if err != nil {
		return nil, rec, err
	}
	names = files.WithoutStrays(names, layout)
	t.files.CountFrom(names, layout)
	if err := t.files.OpenLayout(layout, first); err != nil {
		first.Explain(err)
		return nil, rec, unreachable(rec.Manifest.Damage, err)
	}
	result, err := t.writer.replay(layout, first, &rec)
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
	t.views.Publish(last)
	if !cfg.ReadOnly {
		if err := t.forWriting(names, &result, &rec); err != nil {
			return nil, rec, err
		}
		layout = log.Layout()
	}
	t.background.prepare()
	t.views.Install(func(next *view.View) {
		next.Tables, next.Runs, next.Segments = first.Tables, first.Runs, first.Segments
		next.Layout = layout
		t.budget.Measure(next)
	})
	garbage.NoteAllDropped(first.Runs, layout)
	return t, rec, nil
}

// forWriting prepares what was read for writing: the manifest, the files and the journal.
func (t *Tree) forWriting(names []filename.Name, result *journal.ReplayResult, rec *Recovery) error {
	if err := t.log.Mend(); err != nil {
		return err
	}
	t.log.Found(result.Begin.End)
	rec.Removed = t.files.RemoveLeftovers(names, t.log.Layout(), *result)
	if len(result.Dropped) > 0 {
		// A segment that was given up must not come back once others continue the chain there.
		if err := t.cfg.FS.SyncDir(t.cfg.ValueDir); err != nil {
			return err
		}
	}
	known := files.Known(t.log.Layout())
	var newest journal.SegmentInfo
	if n := len(result.Segments); n > 0 {
		newest = result.Segments[n-1]
	}
	t.unflushed.Journal = journal.New(journal.Config{
		FS: t.cfg.FS, Dir: t.cfg.ValueDir, UUID: t.cfg.UUID, Ring: t.cfg.Ring, Owner: journalOwner{t.files, t.budget, t.disk, t.log},
		Begin: result.Begin, NoMap: t.cfg.NoMap, Files: t.files.Open, MaxUnsynced: files.Unsynced(t.cfg.OpenFiles),
		Registered: known.Proven(), Newest: newest,
	})
	// Register what the replay has made durable. If the disk has no room for the edit, the first
	// Sync tries again.
	if err := t.unflushed.Journal.Register(); err != nil && !failure.Passes(err) {
		return err
	}
	return nil
}

// follow is Open of a store that another process may be writing.
func (t *Tree) follow() error {
	cfg := t.cfg
	keys := func(context.Context) (end func()) { return func() {} }
	if cfg.Keyring != nil {
		keys = cfg.Keyring.During
	}
	t.follower = follow.New(follow.Config{
		Keys: keys, Log: t.log, Files: t.files, Views: t.views, Seed: cfg.Seed, TableBytes: cfg.MemtableBytes, Memory: cfg.Memory, Policy: cfg.Policy,
		Journal: journal.ReplayConfig{FS: cfg.FS, Dir: cfg.ValueDir, UUID: cfg.UUID, Ring: cfg.Ring, NoMap: cfg.NoMap, Files: t.files.Open},
	})
	if _, err := t.follower.Refresh(context.Background()); err != nil {
		t.follower.Close()
		return err
	}
	t.background.follower = t.follower
	t.background.prepare()
	return nil
}
