// Package engine opens the files of a store and does its background work: it flushes
// memtables, compacts runs and collects segments. It applies the results as edits of the manifest,
// each of which leads to the next View; readers and writers go on meanwhile.
//
// Each kind of work is a type of its own. All share the state of the store, and newEngine says who
// hears of an edit. What is to be done follows from the state: a task that is kicked looks at the
// state itself (tasks).
//
// # Locks
//
// They are taken in the order of this table. Readers take none: they pin a View (package view).
//
//	lock                          protects                       is held over
//	Lifetime.working              files that calls of users      such a call, for reading; a Refresh
//	                              write or remove                of a follower
//	Rotator.turn                  which data keys there are      a change or a removal of keys
//	copying.gate, copying.store   the keyring that copies have   copies, or a change of keys
//	the turn of a commit leader   the active memtable, the end   a group of commits
//	                              of the journal
//	compactor.turn                which runs are inputs          a compaction
//	collector.turn                which segments are victims     a collection
//	flusher.turn                  which memtable is the oldest   a flush
//	state.applying                the layout                     an edit, and followEdit
//	throttle.mu                   since when writers wait        Config.OnStall
//	diskSpace.mu                  who waits for disk space       measuring it, and Config.OnSpace
//	searcher.mu                   what was sought past           seeks past deleted keys
//	that of view.Set              which Views are held           assignments only
//	those of damagedFiles,        their own fields               assignments only
//	Snapshots, copying, keyUse
//
// The leader's own edit (Log.Register) takes none of them.
package engine

import (
	"context"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/journal"
	"github.com/brockdb/brock/report"
)

// Engine is a store that is open. Its parts are safe for concurrent use, except what only a commit
// leader may call.
type Engine struct {
	Views     *view.Set        // readers pin a View
	Commits   *Commits         // what commits need
	Journal   *journal.Journal // nil if the store is read-only
	Keyspaces *Keyspaces
	Spills    *Spills // what transactions larger than their memory need
	Work      *Worker
	Snapshots *Snapshots
	Keys      *Rotator
	Files     *view.Opener
	Lifetime  *Lifetime
	Feed      *feedKeeper

	*state
	scrubber *scrubber
}

// Commits is what a commit pipeline needs of the store. For each group the leader calls Prepare,
// Apply for each transaction, and Publish, in this order, on one goroutine at a time.
type Commits struct {
	*writer
	*throttle
	*searcher
	*view.Leader
}

// newEngine joins the parts of an Engine. Each is given those that it needs, which are made before
// it.
func newEngine(cfg *Config, log *manifest.Log) *Engine {
	st := newState(cfg, log)
	leader := st.views.NewLeader()
	throttle := &throttle{state: st}
	searcher := newSearcher(cfg, st.views)
	writer := &writer{state: st, searcher: searcher, sampler: &sampler{state: st, leader: leader, looks: 1}}
	flusher := &flusher{state: st, turn: jobs.NewTurn()}
	work := &Worker{
		state: st, writer: writer, searcher: searcher, flusher: flusher,
		compactor: &compactor{state: st, flusher: flusher, turn: jobs.NewTurn()},
		collector: &collector{state: st, turn: jobs.NewTurn()},
	}
	snapshots := &Snapshots{state: st, work: work, copying: newCopying()}
	st.followEdit = func(c *view.Change) {
		snapshots.pinFlushed(c) // first: During, which is woken next, looks for the pin
		st.views.WakeWatchers()
		throttle.endStall()
		st.tasks.kickAll()
		st.setExpiryAlarm() // a keyspace may retain less now
		st.views.ReportLongReader(cfg.OnLongReader)
	}
	return &Engine{
		Views: st.views, Commits: &Commits{writer, throttle, searcher, leader}, Keyspaces: &Keyspaces{st},
		Spills: &Spills{state: st, Lifetime: st.lifetime, work: work},
		Work:   work, Snapshots: snapshots, Keys: &Rotator{state: st, work: work, copies: snapshots.copying, turn: jobs.NewTurn()},
		Files: st.files, Lifetime: st.lifetime, Feed: st.feed,
		state: st, scrubber: &scrubber{state: st},
	}
}

// makeTasks makes the tasks.
func (e *Engine) makeTasks() {
	pool, t, w := e.cfg.Jobs, &e.tasks, e.Work
	t.flush = pool.Task(jobs.Flush, "flush", w.flusher.flushSealed)
	busy := func(do func(context.Context, occasion) (bool, error)) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := do(ctx, whileBusy)
			return err
		}
	}
	t.compact = pool.Task(jobs.Compaction, "compact", busy(w.compactor.compactPlanned))
	t.collect = pool.Task(jobs.Cleanup, "collect", busy(w.collector.collectPlanned))
	t.seal = pool.Task(jobs.Flush, "seal", func(ctx context.Context) error { return e.cfg.Exclusive(ctx, w.writer.sealAny) })
	if e.cfg.Keyring != nil {
		t.rekey = pool.Task(jobs.Cleanup, "rekey", e.Keys.tryFinishRewriting)
	}
	t.poll = pool.IdleAlarm(pool.Task(jobs.Flush, "poll", e.disk.pollSpace), policy.DiskPoll)
	t.rest = pool.Task(jobs.Compaction, "idle", w.workAtRest)
	t.idle = pool.IdleAlarm(t.rest, e.cfg.IdleAfter)
	forget := pool.Task(jobs.Brief, "forget", func(context.Context) error { e.files.Open.Bits.EndEpoch(); return nil })
	e.files.Open.Bits.EndEpochsBy(pool.Alarm(forget))
	t.scrub = pool.Alarm(pool.Task(jobs.Cleanup, "scrub", e.scrubber.verifyDue))
	t.expiry = pool.Alarm(pool.Task(jobs.Compaction, "expire", w.removeExpired))
}

// Start lets background work begin. Call it when Config.Exclusive can be called.
func (e *Engine) Start() {
	e.disk.measureSpace()
	// Otherwise each Open would replay them again, until the memtable is full.
	if len(e.unflushed.segments()) > policy.ReplayedSegments {
		e.tasks.seal.Kick()
	}
	e.tasks.kickAll()
	e.setExpiryAlarm()
	e.scrubber.setFirstAlarm()
}

// Sessions lists the newest sessions of the store. The Layout of a View may lack the one that has
// just begun: the commit leader records it beside Views.
func (e *Engine) Sessions() layout.Sessions { return e.log.Sessions() }

// Metrics returns the metrics. It looks at each run and segment.
func (e *Engine) Metrics() (m report.Tree) {
	m.Version = uint64(e.views.Visible())
	e.count.addTo(&m)
	m.JumpedBytes = int64(e.jumped.Load())
	m.FreeBytes, m.ReserveBytes = e.disk.left.Load(), e.disk.reserve.Load()
	m.WorkRefused, m.WorkWaiting = e.cfg.Jobs.Failing()
	m.ReleaseFailures = e.files.Failures.Load()
	e.scrubber.addTo(&m)
	reader := e.views.LongReader()
	m.PinnedVersion, m.PinnedBy, m.PinnedFor = reader.Version, reader.Begun, reader.For
	m.PinnedBytes, m.PinnedMemory = reader.FileBytes, reader.MemoryBytes
	m.OpenFiles, m.MappedFiles = e.files.Open.Count(), e.files.Open.Mapped()
	if journal := e.unflushed.journal; journal != nil {
		m.OpenFiles += journal.OpenFiles()
		m.JournalBytes, m.SegmentBytes = journal.Written(), journal.Ahead()
	}
	if left, set := e.tasks.expiry.Left(); set {
		m.ExpiryWait = max(left, 1) // 0 says that no alarm is set
	}
	// After Close nobody gets a pin. What was counted is still told.
	hold, err := e.views.Acquire(0)
	if err != nil {
		return m
	}
	defer hold.Release()
	m.Memory.Known, m.Memory.Chunks = e.files.Open.Bits.Bytes(), e.files.Chunks.Bytes()
	_, m.Memory.Memtables = e.views.CountMemtables()
	addView(&m, hold.View(), &e.cfg.Policy, e.cfg.unixMilli())
	addJournal(&m, e.unflushed.segments())
	e.feed.addTo(&m, hold.View().Layout, e.unflushed.segments())
	return m
}

// ListFiles lists the files of the current View. A retired file, which older Views hold, is not among
// them.
func (e *Engine) ListFiles() ([]report.File, error) {
	hold, err := e.views.Acquire(0)
	if err != nil {
		return nil, err
	}
	defer hold.Release()
	return hold.View().ListFiles(e.unflushed.segments(), &e.cfg.Policy, e.cfg.unixMilli()), nil
}

// Verify reads SUPER, the manifest, and every run and segment, and checks all checksums. It
// also checks that they agree: every handle leads to its record, and the layout counts dead
// records and references right. Of a store that is followed it leaves out SUPER and the manifest,
// which its follower verifies. It calls report for each problem. It returns an error only
// if it could not go on.
func (e *Engine) Verify(ctx context.Context, report func(*errs.Corruption)) error {
	hold, err := e.views.Hold()
	if err != nil {
		return err
	}
	// To verify takes long: memtables must not stay in memory for it.
	part, release := hold.HoldPart(func(part *view.View) { part.Tables, part.Feed = nil, hold.View().Feed })
	defer release()
	// After the first damage, pages that were verified before are verified again.
	found := func(c *errs.Corruption) {
		e.files.Open.Bits.Forget()
		report(c)
	}
	if !e.cfg.Follow {
		if err := view.ReportDamage(e.log.Verify(found), found); err != nil {
			return err
		}
	}
	return part.Verify(ctx, e.files.SegmentConfig(), e.views.Coder, found)
}

// Unflushed describes, in order, the journal segments whose records are not yet in runs.
func (e *Engine) Unflushed() []journal.SegmentInfo { return e.unflushed.segments() }
