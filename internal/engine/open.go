package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/journal"
	"github.com/brockdb/brock/report"
)

// Recovery says what Open found.
type Recovery struct {
	view.Recovered
	Removed  int // files that nothing refers to
	Manifest manifest.Recovery
	Lost     *report.Loss // what was left out because of damage; nil: nothing
}

// Open opens the files that the manifest names, replays the journal, repairs the manifest, and
// removes the files that a crash has left. The caller holds the store's lock. Until everything
// was read and found good, Open changes no byte and no name. Only journal.Replay may write the
// same bytes again.
//
// A store that another process may be writing has no View yet: its follower makes all of them.
func Open(cfg Config, log *manifest.Log) (e *Engine, rec Recovery, err error) {
	if cfg.Policy.SegmentBytes == 0 {
		cfg.Policy.SegmentBytes = uint64(cfg.SegmentBytes)
	}
	cfg.Policy.Memory = cfg.Memory
	e = newEngine(&cfg, log)
	rec.Manifest = log.Recovered()
	if cfg.Follow {
		e.makeTasks()
		return e, rec, nil
	}
	layout := log.Layout()
	first := &view.View{Layout: layout}
	defer func() {
		if err != nil {
			first.Close()
		}
	}()
	rec.Recovered, err = e.files.RecoverView(first, view.RecoverOptions{
		ReadOnly: cfg.ReadOnly, UpTo: cfg.UpTo, Damage: rec.Manifest.Damage,
		NewTable: func() *view.Table { return newTable(&cfg, int64(cfg.MemtableBytes)) }, Deleted: e.Work.searcher.countDelete,
	})
	if err != nil {
		return nil, rec, err
	}
	e.unflushed.found = rec.Segments
	rec.Lost = lostBehind(&rec.Manifest, first, &rec.ReplayResult)
	last := max(layout.LastVersion(), rec.Begin.LastVersion)
	// What had the layout's last version may be lost, so publish only what is left. But not below a
	// floor: history there may be gone.
	if rec.Lost != nil { // the manifest may know versions that are lost
		last = max(newestVersion(first), greatestFloor(layout))
	}
	if last > entry.MaxVersion-1<<32 {
		// Refuse to open rather than run out of versions later: a commit could not be ordered any
		// more.
		return nil, rec, fmt.Errorf("%w: the last version is %d, and few are left", errs.ErrUnsupported, last)
	}
	e.views.Publish(last)
	if !cfg.ReadOnly {
		if err := e.prepareWriting(&rec); err != nil {
			return nil, rec, err
		}
		layout = log.Layout()
	} else {
		log.Read(e.views.Visible(), newestIn(rec.Segments))
	}
	e.makeTasks()
	e.views.Install(func(next *view.View) {
		next.Tables, next.Runs, next.Segments, next.Feed = first.Tables, first.Runs, first.Segments, first.Feed
		next.Layout = layout
		e.budget.measureView(next)
	})
	view.WeighAllDropped(first.Runs, layout)
	return e, rec, nil
}

// newestIn returns the newest version in journal segments.
func newestIn(segments []journal.SegmentInfo) (v entry.Version) {
	for _, s := range segments {
		v = max(v, s.Max)
	}
	return v
}

// prepareWriting prepares what was read for writing: the manifest, the files and the journal.
func (e *Engine) prepareWriting(rec *Recovery) error {
	// Files are removed below because of what was read. So it must be durable before.
	if err := e.log.Mend(rec.Begin.End, e.views.Visible(), newestIn(rec.Segments)); err != nil {
		return err
	}
	rec.Removed = e.files.RemoveLeftovers(e.log.Layout(), &rec.Recovered)
	if len(rec.Dropped) > 0 {
		// A segment that was given up must not come back once others continue the chain there.
		if err := e.cfg.FS.SyncDir(e.cfg.ValueDir); err != nil {
			return err
		}
	}
	known := view.KnownJournal(e.log.Layout())
	e.Journal = journal.New(journal.Config{
		Config: e.files.SegmentConfig(), NoMap: e.cfg.NoMap, Owner: journalOwner{e.log, e.state},
		Begin: rec.Begin, MaxUnsynced: view.UnsyncedFiles(e.cfg.OpenFiles), Registered: known.LastProven(), Found: rec.Segments,
		OnDurable: e.views.News.Ring,
	})
	e.unflushed.journal = e.Journal
	// Register what the replay has made durable. If the disk has no room for the edit, the first
	// Sync tries again.
	if err := e.Journal.Register(); err != nil && !errs.Passes(err) {
		return err
	}
	return nil
}

// Close ends background work and waits for it, makes the journal durable, records where the
// journal ends, and closes the manifest. Close the commit pipeline before. A file is closed
// when its last reader has released it.
func (e *Engine) Close() error {
	// From here on nobody gets a pin, so no new work begins while this waits for the old.
	if !e.views.Close() {
		return nil
	}
	e.lifetime.endWork() // Compact, Reclaim and others do their work on the goroutine of their caller
	e.cfg.Jobs.Close()
	err := e.Work.awaitWork(context.Background()) // no context ends this wait
	e.Commits.throttle.endStall()
	if !e.cfg.ReadOnly {
		// All work has ended, so this edit is the last one. It says that the session was closed in
		// order.
		err = errors.Join(err, e.recordEnd(e.scrubber.progress))
	}
	err = errors.Join(err, e.log.Close())
	// Each View has a memtable. A committer that has waited may still measure the disk space.
	e.views.Install(func(next *view.View) {
		*next = view.View{Layout: next.Layout, Tables: []*view.Table{newTable(e.cfg, 0)}}
	})
	e.views.ReclaimViews()
	return err
}

// lostBehind describes what Open has left out because of damage; nil if there was none.
func lostBehind(m *manifest.Recovery, v *view.View, result *journal.ReplayResult) *report.Loss {
	damage := m.Damage
	l := &report.Loss{Edits: int64(m.LostEdits), Version: uint64(newestVersion(v))}
	if damage != nil {
		l.Bytes = m.CutBytes
	}
	if j := result.Lost; j != nil {
		// Damage of the manifest comes first: what the journal lacks then may follow from it.
		if damage == nil && !errors.As(j.Damage, &damage) {
			return nil
		}
		l.Commits, l.LastVersion = int64(j.Transactions), uint64(j.LastVersion)
		l.Bytes += result.CutBytes
	}
	if damage == nil {
		return nil
	}
	l.Damage = damage
	// The loss may be of edits only. Then no version beyond what is left is known.
	l.LastVersion = max(l.LastVersion, l.Version)
	return l
}

// newestVersion returns the greatest version of all entries of a View.
func newestVersion(v *view.View) (last entry.Version) {
	for _, r := range v.Runs {
		last = max(last, r.MaxVersion())
	}
	for _, t := range v.Tables {
		last = max(last, t.MaxVersion())
	}
	return last
}

// greatestFloor returns the greatest floor of all keyspaces. Below its floor, history of a
// keyspace may be gone.
func greatestFloor(l *layout.Layout) entry.Version {
	floor := l.Floor()
	for _, k := range l.Keyspaces() {
		floor = max(floor, k.Floor())
	}
	return floor
}
