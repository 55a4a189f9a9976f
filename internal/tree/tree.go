// Package tree is the store's life: it opens the files, flushes memtables,
// compacts runs and collects segments in the background, and installs what came of
// that as the next View, without stopping anybody.
//
// # Lock order
//
// The commit leader's calls come first, then merging or flushing, each held over
// a whole piece of work, then recording, held over the sync of an edit, then the
// mutex of view.Set, then mu; these two are held over assignments only. The
// leader's own edit (Register) takes none of them. Readers take no lock: they pin a
// View (package view).
package tree

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/emptied"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/memtable"
	"github.com/brockdb/brock/internal/view"
)

// Tree is safe for concurrent use, save for what only the commit leader calls.
type Tree struct {
	cfg     *Config
	log     *manifest.Log
	journal *journal.Journal // nil if read-only
	views   *view.Set
	files   *files
	life    *lifetime
	tasks   *tasks
	count   *counters
	emptied *emptied.Tracker // of what deletes leave for seeks to skip
	coder   codec.Coder      // of compressed values

	damaged     *damaged
	budget      *garbageBudget
	disk        *diskSpace
	planner     *planner
	retention   *retention
	throttle    *throttle
	expiry      *expiry
	longReaders *longReaders
	sampler     *sampler
	unflushed   *unflushed

	turns         turns
	drops         atomic.Uint64 // of keyspaces, since Open
	clusterFailed atomic.Bool   // by a disk that is full, or alike: there is no other one
	scattered     atomic.Uint64 // bytes of unclustered values that iterators jumped to; clustering takes its price off
	spilling      sync.RWMutex  // held for reading while a transaction writes or removes files
	recording     sync.Mutex    // held while an edit is made, recorded and installed

	// The commit leader's.
	leader       *view.Pin     // with which it looks at a View
	writing      entry.FileNum // journal segment that Apply last followed
	journalBytes int64         // applied to the active memtable
}

// layout is that of the current View.
func (t *Tree) layout() *layout.Layout { return t.views.Current().Layout }

func (t *Tree) newTable() *view.Table {
	return view.NewTable(memtable.Options{Seed: t.cfg.Seed, Limit: t.cfg.MemtableBytes})
}

// Journal is what the commit pipeline appends to; nil if the Tree is read-only.
func (t *Tree) Journal() *journal.Journal { return t.journal }

// Throttle slows a committer of a payload down while background work lags behind,
// the more the further it lags, and lets it wait only where memory would
// otherwise grow without bound. It refuses one that there is no disk space for. It
// returns early with the context's error. A nil payload stands for a large
// transaction that has none.
func (t *Tree) Throttle(ctx context.Context, payload []byte) error {
	return t.throttle.admit(ctx, payload)
}
