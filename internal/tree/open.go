package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/brockdb/brock/internal/emptied"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/frame"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
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
}

// Open opens the files that the manifest names, replays the journal and removes
// what a crash left over. The caller holds the store's lock.
func Open(cfg Config, log *manifest.Log) (t *Tree, rec Recovery, err error) {
	if cfg.Policy.SegmentBytes == 0 {
		cfg.Policy.SegmentBytes = uint64(cfg.SegmentBytes)
	}
	cfg.Policy.MovedRecords = movedRecords(cfg.Memory)
	t = newTree(&cfg, log)
	layout := log.Layout()
	first := &view.View{Layout: layout, Unclustered: policy.FindUnclustered(layout, policy.State{}, cfg.Policy)}
	defer func() {
		if err != nil {
			first.Close()
		}
	}()
	names, err := t.files.list()
	if err != nil {
		return nil, rec, err
	}
	t.files.numbers.Store(uint64(highest(names, layout)))
	if err := t.openLayout(layout, first); err != nil {
		return nil, rec, err
	}
	result, err := t.replay(layout, first, &rec)
	if err != nil {
		return nil, rec, err
	}
	t.views.Publish(max(layout.LastVersion(), result.Begin.LastVersion))
	if !cfg.ReadOnly {
		if rec.Removed, err = t.files.removeLeftovers(names, layout, result); err != nil {
			return nil, rec, err
		}
		_, known := startOf(layout)
		t.journal = journal.New(journal.Config{
			FS: cfg.FS, Dir: cfg.ValueDir, UUID: cfg.UUID, Owner: journalOwner{t.files, t.budget, t.disk, log},
			Begin: result.Begin, NoMap: cfg.NoMap, Files: t.files.open, MaxUnsynced: unsyncedFiles(cfg.OpenFiles),
			Registered: known, Newest: newestWithFrames(result.Segments),
		})
		t.disk.journal, t.unflushed.journal = t.journal, t.journal
		// What the replay has made durable. Where there is no space for the edit,
		// the first Sync tries again.
		if err := t.journal.Register(); err != nil && !isFull(err) {
			return nil, rec, err
		}
	}
	t.prepareBackground()
	t.views.Install(func(next *view.View) {
		next.Tables, next.Runs, next.Segments = first.Tables, first.Runs, first.Segments
		next.Layout, next.Unclustered = first.Layout, first.Unclustered
		t.budget.measure(next)
	})
	noteAllDropped(t.views.Current().Runs, t.layout())
	return t, rec, nil
}

// newTree joins the parts of a Tree. Each is given what it needs of those before it.
func newTree(cfg *Config, log *manifest.Log) *Tree {
	t := &Tree{cfg: cfg, log: log, tasks: &tasks{readOnly: cfg.ReadOnly}, count: &counters{onWork: cfg.OnWork}, damaged: new(damaged), unflushed: new(unflushed)}
	sets := view.Config{Now: cfg.Now, Coder: &t.coder, Jobs: cfg.Jobs}
	if cfg.ReadOnly {
		sets.Jobs = nil
	}
	t.views = view.NewSet(sets, log.Layout())
	t.leader = t.views.Reserve()
	t.emptied = emptied.NewTracker(emptied.Options{Seed: cfg.Seed, MemtableBytes: cfg.MemtableBytes})
	t.life = newLifetime(t.views, cfg.OnFailure)
	t.budget = &garbageBudget{views: t.views, damaged: t.damaged, policy: cfg.Policy, segmentBytes: cfg.SegmentBytes}
	t.files = newFiles(cfg, &spares{budget: t.budget, least: min(policy.SpareLeastBytes, cfg.SegmentBytes/policy.SpareLeastShare)})
	t.disk = &diskSpace{cfg: cfg, views: t.views, files: t.files, life: t.life, tasks: t.tasks, count: t.count}
	t.disk.left.Store(-1)
	t.planner = &planner{cfg: cfg, damaged: t.damaged, disk: t.disk}
	t.retention = &retention{views: t.views, defaults: cfg.Retention, now: cfg.Now}
	t.throttle = &throttle{views: t.views, budget: t.budget, disk: t.disk, life: t.life, count: t.count, tell: cfg.OnStall}
	t.expiry = &expiry{cfg: cfg, views: t.views, life: t.life, tasks: t.tasks}
	t.longReaders = &longReaders{views: t.views, now: cfg.Now, tell: cfg.OnLongReader}
	t.sampler = &sampler{views: t.views, leader: t.leader, budget: t.budget, seed: cfg.Seed, retention: cfg.Retention}
	return t
}

// openLayout opens the runs and segments that the manifest names.
func (t *Tree) openLayout(layout *layout.Layout, v *view.View) error {
	for _, m := range layout.Runs() {
		r, err := t.files.openRun(m)
		if err != nil {
			return missing(err, "a run that the manifest names")
		}
		v.Runs = append(v.Runs, r)
	}
	for i, r := range v.Runs {
		r.WeighRanges(v.Runs[i+1:])
	}
	if err := t.openSegments(layout, v); err != nil {
		return err
	}
	return t.openRemaps(layout, v)
}

// openSegments opens the segments that have their records.
func (t *Tree) openSegments(l *layout.Layout, v *view.View) error {
	var files []*view.Segment
	defer func() { v.Segments = view.NewSegments(files) }()
	for _, s := range l.Segments() {
		if s.State().Status != layout.Live {
			continue
		}
		f, err := t.files.openSegment(s.Kind, s.Num, int64(s.FileBytes), s.Stamp)
		if err != nil {
			return missing(err, "a segment that the manifest names")
		}
		files = append(files, f)
	}
	return nil
}

// openRemaps opens what leads to the records of relocated segments.
func (t *Tree) openRemaps(l *layout.Layout, v *view.View) error {
	var remaps []*view.Segment
	defer func() { v.Segments = v.Segments.With(remaps...) }()
	for _, s := range l.Segments() {
		st := s.State()
		if st.Status != layout.Relocated {
			continue
		}
		target := v.Segments.Find(st.Target)
		if target == nil || target.Moved != nil {
			return fmt.Errorf("segment %d is relocated to segment %d, which is relocated itself: %w", s.Num, st.Target, errs.ErrFormat)
		}
		f, err := t.files.openRemap(st.Map, s.Num, target)
		if err != nil {
			return missing(err, "a remap that the manifest names")
		}
		remaps = append(remaps, f)
	}
	return nil
}

// missing turns the absence of a file that must be there into a report of damage.
func missing(err error, what string) error {
	var path *fs.PathError
	if !errors.As(err, &path) || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c := errs.NewCorruption(filepath.Base(path.Path), -1, "%s is not there", what)
	c.Err = err
	return c
}

// replay reads the journal into memtables. A memtable ends where a segment
// ends, once it is full.
func (t *Tree) replay(layout *layout.Layout, v *view.View, rec *Recovery) (journal.ReplayResult, error) {
	v.Tables = []*view.Table{t.newTable()}
	var at entry.FileNum
	begin, durable := startOf(layout)
	result, err := journal.Replay(journal.ReplayConfig{
		FS: t.cfg.FS, Dir: t.cfg.ValueDir, UUID: t.cfg.UUID, Begin: begin, Durable: durable, Registered: knownAfter(layout), ReadOnly: t.cfg.ReadOnly, NoMap: t.cfg.NoMap, Files: t.files.open,
	}, func(pos entry.Position, payload []byte, h frame.Header) error {
		if pos.Segment != at && int(v.Active().Bytes()) >= t.cfg.MemtableBytes {
			v.Tables = append([]*view.Table{t.newTable()}, v.Tables...)
		}
		at = pos.Segment
		rec.Frames++
		rec.Entries += int64(h.Records)
		rec.Bytes += h.Size
		v.Active().Replayed = true
		return t.add(v.Active(), payload, pos, 0)
	})
	if err != nil {
		return result, err
	}
	rec.CutBytes, rec.CutFrames = result.CutBytes, result.CutFrames
	var files []*view.Segment
	defer func() { v.Segments = v.Segments.With(files...) }()
	for _, s := range result.Segments {
		f, err := t.files.openSegment(filename.Journal, s.Num, s.End, 0)
		if err != nil {
			return result, err
		}
		files = append(files, f)
		t.unflushed.replayed = append(t.unflushed.replayed, s)
	}
	for _, m := range v.Tables {
		m.End = t.unflushed.pointAfter(m.Last)
	}
	return result, nil
}
