package engine

import (
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/view/files"
	"github.com/brockdb/brock/internal/view/garbage"
)

// newTree joins the parts of a Tree. Each is given those that it needs, which are
// made before it.
func newTree(cfg *Config, log *manifest.Log) *Tree {
	t := &Tree{cfg: cfg, log: log, tasks: &tasks{readOnly: cfg.ReadOnly}, count: new(counters), damaged: new(garbage.Damaged), unflushed: new(files.Unflushed)}
	sets := view.Config{Now: cfg.Now, Coder: &t.coder, Jobs: cfg.Jobs}
	if cfg.ReadOnly {
		sets.Jobs = nil
	}
	t.views = view.NewSet(sets, log.Layout())
	t.count.onWork = func(w Work) {
		t.views.Current().Explain(w.Err)
		if cfg.OnWork != nil {
			cfg.OnWork(w)
		}
	}
	t.leader = t.views.Reserve()
	t.life = newLifetime(t.views, cfg.OnFailure)
	t.decisions()
	t.work()
	return t
}

// decisions makes the parts that decide, and the files: the garbage budget says how many files
// may wait to be used again.
func (t *Tree) decisions() {
	cfg := t.cfg
	t.budget = garbage.NewBudget(t.views, t.damaged, cfg.Policy, cfg.SegmentBytes, cfg.unixMilli)
	t.files = files.New(files.Config{
		FS: cfg.FS, Dir: cfg.Dir, ValueDir: cfg.ValueDir, UUID: cfg.UUID, Ring: cfg.Ring, Seed: cfg.Seed, NoMap: cfg.NoMap, Follow: cfg.Follow, OpenFiles: cfg.OpenFiles, VerifyReads: cfg.VerifyReads,
		CacheBytes: cfg.CacheBytes, Memory: cfg.Memory, RunFileBytes: cfg.RunFileBytes,
	})
	t.disk = &diskSpace{cfg: cfg, views: t.views, files: t.files, unflushed: t.unflushed, life: t.life, tasks: t.tasks, count: t.count}
	t.disk.left.Store(-1)
	t.planner = &planner{cfg: cfg, damaged: t.damaged, disk: t.disk}
	t.retention = &garbage.Retention{Views: t.views, Now: cfg.Now, Policy: &cfg.Policy}
	t.throttle = &throttle{views: t.views, budget: t.budget, disk: t.disk, life: t.life, count: t.count, tell: cfg.OnStall}
	t.expiry = &expiry{cfg: cfg, views: t.views, life: t.life, tasks: t.tasks}
	t.longReaders = &view.LongReaders{Views: t.views, Now: cfg.Now, Tell: cfg.OnLongReader}
	t.sampler = garbage.NewSampler(t.views, t.leader, t.budget, cfg.Seed)
}

// work makes the parts that write: first the writer of the commit leader, then background work.
func (t *Tree) work() {
	cfg := t.cfg
	t.searcher = newSearcher(cfg, t.views)
	t.writer = &writer{
		cfg: cfg, log: t.log, views: t.views, files: t.files, unflushed: t.unflushed, budget: t.budget, sampler: t.sampler,
		disk: t.disk, tasks: t.tasks, expiry: t.expiry, searcher: t.searcher, count: t.count,
		tableBytes: int64(cfg.MemtableBytes),
	}
	cuts := &cuts{cfg: cfg, views: t.views, writer: t.writer}
	t.installer = &installer{
		cfg: cfg, log: t.log, views: t.views, files: t.files, life: t.life, unflushed: t.unflushed, budget: t.budget, damaged: t.damaged,
		throttle: t.throttle, expiry: t.expiry, longReaders: t.longReaders, tasks: t.tasks, cuts: cuts,
	}
	t.keyspaces = &keyspaces{views: t.views, installer: t.installer, tasks: t.tasks}
	t.flusher = &flusher{
		views: t.views, files: t.files, unflushed: t.unflushed, retention: t.retention, budget: t.budget, sampler: t.sampler,
		installer: t.installer, disk: t.disk, life: t.life, count: t.count, turn: jobs.NewTurn(),
	}
	keys := &keyUse{ring: cfg.Ring}
	t.compactor = &compactor{
		views: t.views, files: t.files, retention: t.retention, planner: t.planner, installer: t.installer,
		disk: t.disk, damaged: t.damaged, life: t.life, keys: keys, count: t.count, turn: jobs.NewTurn(),
	}
	t.clustering = &clustering{
		cfg: cfg, views: t.views, files: t.files, budget: t.budget, planner: t.planner, compactor: t.compactor,
		damaged: t.damaged, life: t.life, count: t.count, tasks: t.tasks,
	}
	t.collector = &collector{
		cfg: cfg, views: t.views, files: t.files, planner: t.planner, installer: t.installer, budget: t.budget,
		disk: t.disk, damaged: t.damaged, life: t.life, keys: keys, count: t.count, tasks: t.tasks, turn: jobs.NewTurn(),
	}
	t.scrubber = &scrubber{cfg: cfg, views: t.views, files: t.files, log: t.log, life: t.life, installer: t.installer, tasks: t.tasks}
	t.rotator = &rotator{
		cfg: cfg, log: t.log, views: t.views, files: t.files, unflushed: t.unflushed, life: t.life, writer: t.writer, flusher: t.flusher,
		compactor: t.compactor, collector: t.collector, installer: t.installer, planner: t.planner, damaged: t.damaged, keys: keys, tasks: t.tasks, copies: newCopying(), turn: jobs.NewTurn(),
	}
	t.background = &background{
		cfg: cfg, log: t.log, views: t.views, files: t.files, unflushed: t.unflushed, life: t.life, tasks: t.tasks, planner: t.planner,
		disk: t.disk, expiry: t.expiry, writer: t.writer, searcher: t.searcher,
		flusher: t.flusher, compactor: t.compactor, collector: t.collector, clustering: t.clustering, scrubber: t.scrubber, cuts: cuts,
		rekey: t.rotator.tryFinish, copies: t.rotator.copies,
	}
	t.spills = &spills{
		cfg: cfg, views: t.views, files: t.files, coder: &t.coder, leader: t.leader, searcher: t.searcher, disk: t.disk,
		life: t.life, count: t.count, writer: t.writer, flusher: t.flusher, installer: t.installer, background: t.background, keys: keys,
	}
	t.rotator.flush = t.background.flush
}
