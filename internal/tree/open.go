package tree

import (
	"context"
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/failure"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/follow"
	"github.com/brockdb/brock/internal/garbage"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/view"
)

// Recovery says what Open found.
type Recovery struct {
	Frames    int   // journal frames replayed
	Entries   int64 // entries in them
	Bytes     int64 // of journal read for them
	CutBytes  int64 // of the journal's torn tail
	CutFrames int   // whole frames behind it, which cannot count
	Removed   int   // files that nothing refers to
	Manifest  manifest.Recovery
	Lost      *Lost // behind damage; nil: nothing
}

// Open opens the files that the manifest names, replays the journal, mends the
// manifest and removes what a crash left over. The caller holds the store's lock. Until
// all was read and found good, no byte and no name is changed.
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
	first := &view.View{Layout: layout, Unclustered: policy.FindUnclustered(layout, policy.State{}, cfg.Policy)}
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
		return nil, rec, rec.unreachable(err)
	}
	result, err := t.writer.replay(layout, first, &rec)
	if err != nil {
		return nil, rec, err
	}
	last := max(layout.LastVersion(), result.Begin.LastVersion)
	if rec.Lost = rec.lost(first, &result); rec.Lost != nil {
		last = max(newest(first), greatestFloor(layout)) // the manifest may know versions that are lost
	}
	if last > entry.MaxVersion-1<<32 {
		return nil, rec, fmt.Errorf("%w: the last version is %d, and few are left", errs.ErrUnsupported, last)
	}
	t.views.Publish(last)
	if !cfg.ReadOnly {
		if err := log.Mend(); err != nil {
			return nil, rec, err
		}
		rec.Removed = t.files.RemoveLeftovers(names, layout, result)
		_, known := files.StartOf(layout)
		t.unflushed.Journal = journal.New(journal.Config{
			FS: cfg.FS, Dir: cfg.ValueDir, UUID: cfg.UUID, Owner: journalOwner{t.files, t.budget, t.disk, log},
			Begin: result.Begin, NoMap: cfg.NoMap, Files: t.files.Open, MaxUnsynced: files.Unsynced(cfg.OpenFiles),
			Registered: known, Newest: files.NewestWithFrames(result.Segments),
		})
		// What the replay has made durable. Where there is no space for the edit,
		// the first Sync tries again.
		if err := t.unflushed.Journal.Register(); err != nil && !failure.Passes(err) {
			return nil, rec, err
		}
	}
	t.background.prepare()
	t.views.Install(func(next *view.View) {
		next.Tables, next.Runs, next.Segments = first.Tables, first.Runs, first.Segments
		next.Layout, next.Unclustered = first.Layout, first.Unclustered
		t.budget.Measure(next)
	})
	garbage.NoteAllDropped(first.Runs, layout)
	return t, rec, nil
}

// follow is Open of a store that another process may be writing.
func (t *Tree) follow() error {
	cfg := t.cfg
	t.follower = follow.New(follow.Config{
		Log: t.log, Files: t.files, Views: t.views, Seed: cfg.Seed, TableBytes: cfg.MemtableBytes, Memory: cfg.Memory, Policy: cfg.Policy,
		Journal: journal.ReplayConfig{FS: cfg.FS, Dir: cfg.ValueDir, UUID: cfg.UUID, NoMap: cfg.NoMap, Files: t.files.Open},
	})
	if _, err := t.follower.Refresh(context.Background()); err != nil {
		t.follower.Close()
		return err
	}
	t.background.prepare()
	return nil
}
