package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
)

// state is what the store consists of: the manifest, the Views, the files, and the journal. All
// work shares it. What the manifest says is changed in two ways only: applyEdit, for work that has
// written files, and recordEdit, for an edit that needs none.
type state struct {
	cfg       *Config
	log       *manifest.Log // what is true after a crash
	views     *view.Set     // what readers see now
	files     *view.Opener  // opens and removes files, and gives them numbers
	unflushed unflushed     // the journal
	damaged   damagedFiles  // files that work leaves alone
	budget    *budget       // how much garbage there may be
	disk      *diskSpace    // who may write when disk space is short
	keys      keyUse        // which data keys are needed by work under way
	feed      *feedKeeper   // what stays for the change feed
	lifetime  *Lifetime     // whether work may go on
	tasks     tasks
	count     counters      // since Open
	jumped    atomic.Uint64 // bytes that iterators jumped to; each clustering takes its price off

	applying sync.Mutex // held while an edit is made, recorded and installed

	// followEdit is called after each edit, when the View with it is installed and before another
	// edit can be recorded.
	followEdit func(*view.Change)
}

func newState(cfg *Config, log *manifest.Log) *state {
	st := &state{cfg: cfg, log: log}
	pool := cfg.Jobs
	if cfg.ReadOnly {
		// Nothing runs in the background of such a store: readers release Views themselves.
		pool = nil
	}
	st.views = view.NewSet(cfg.Now, pool, log.Layout())
	st.files = view.NewOpener(cfg.OpenerConfig)
	st.lifetime = newLifetime(st.views, cfg.OnFailure)
	st.budget, st.disk = &budget{state: st}, &diskSpace{state: st}
	st.disk.left.Store(-1)
	st.feed = newFeedKeeper(cfg.Feed, cfg.Now)
	st.keys = keyUse{ring: cfg.Ring, open: make(map[crypt.ID]int)}
	return st
}

// occasion says when compactions and collections are done, which decides how much they do, and how
// fast.
type occasion int

const (
	whileBusy occasion = iota // gives way to writers
	atIdle                    // leaves less garbage, and still gives way
	onRequest                 // leaves least garbage, and gives way to nobody
)

// planWork returns the plan of policy for a View: which compaction or collection to do next.
func (st *state) planWork(v *view.View, o occasion) policy.Plan {
	s := st.policyState(v)
	s.Idle, s.Reclaim, s.JumpedBytes = o == atIdle, o == onRequest, st.jumped.Load()
	s.DiskSpace, s.Full, s.Dropped = st.disk.available(), st.disk.isRefusing(), v.DroppedBytes()
	return policy.Decide(v.Layout, s, st.cfg.Policy)
}

// reportWork counts a piece of work if it has succeeded, and tells OnWork of it. begin is when it
// began.
func (st *state) reportWork(w Work, begin time.Time, err error) {
	w.Took, w.Err = time.Since(begin), err
	// OnWork tells users which keys are concerned, so this comes before it.
	st.views.Current().NameKeys(err)
	if err == nil {
		st.count.add(w.Kind, w.BytesOut)
	}
	st.cfg.OnWork(w)
}

// tasks has all background tasks. A task finds its work in the store's state by itself, and
// runs until it finds none. So code that changes the state kicks all tasks, and need not know
// which of them has work now. Each edit kicks them (state.followEdit), the writer after each
// memtable that it seals. The fields are nil until Open has made the tasks. A store that is only read
// kicks none.
type tasks struct {
	flush   *jobs.Task
	compact *jobs.Task
	collect *jobs.Task
	seal    *jobs.Task  // seals the memtable, so that it is flushed
	rekey   *jobs.Task  // removes old data keys; nil: the store is plain
	rest    *jobs.Task  // work at rest
	idle    *jobs.Alarm // starts it, once writers are silent
	scrub   *jobs.Alarm // rings when files are to be verified
	expiry  *jobs.Alarm // rings when expired entries should be removed from the files
	poll    *jobs.Alarm // checks whether a full disk has room again
}

// kickAll starts all tasks that may have work after a change of the state.
func (t *tasks) kickAll() {
	t.flush.Kick()
	t.compact.Kick()
	t.collect.Kick()
	if t.rekey != nil {
		t.rekey.Kick()
	}
	// Each change puts the work at rest off, as the store is not at rest.
	t.idle.Touch()
}

// damagedFiles knows the segments, and the files of runs, that can't be read as a whole. They stay
// as they are, so that nothing more of them gets lost.
type damagedFiles struct {
	mu   sync.Mutex
	nums []entry.FileNum // add replaces the slice and never changes it: list returns it
}

// add adds a damaged file. It may be in the list already.
func (d *damagedFiles) add(num entry.FileNum) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A plan may still be reading the old slice, without the mutex.
	d.nums = append(slices.Clone(d.nums), num)
}

// list returns the numbers of the damaged files. The caller must not change the slice.
func (d *damagedFiles) list() []entry.FileNum {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nums
}

// newCommit begins an edit that commits as version v, beside the journal. It runs in the place of a
// commit leader, so the newest commit before is the visible one.
func (st *state) newCommit(v entry.Version, k layout.KeyspaceChange) *layout.Edit {
	beside := layout.FeedCommit{Version: v, Skipped: uint64(v - st.views.Visible() - 1), Keyspace: k}
	return &layout.Edit{LastVersion: v, Lasting: v, FeedCommits: []layout.FeedCommit{beside}}
}
