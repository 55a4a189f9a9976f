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
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/emptied"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/jobs"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/memtable"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/run"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// Config is what a Tree needs; all fields are set unless said otherwise.
type Config struct {
	FS            vfs.FS
	Dir           string
	ValueDir      string
	UUID          [16]byte
	Seed          uint64    // of the key hash
	ReadOnly      bool      // nothing is written, no work is done in the background
	Memory        int64     // bytes that all parts together may take; 0 = no bound
	MemtableBytes int       // arena size at which a memtable is sealed
	JournalBytes  int64     // journal size of one memtable, likewise
	SegmentBytes  int64     // size at which a journal segment ends
	RunFileBytes  int64     // size at which a file of a run ends
	NoMap         bool      // read files without mapping them
	OpenFiles     int       // file descriptors, at most; 0 = no limit
	CacheBytes    int64     // of run chunks, where files are not mapped; 0 = a default
	Retention     Retention // of the default keyspace
	Now           func() time.Time
	Policy        policy.Options
	Jobs          *jobs.Pool
	DiskLimit     int64         // bytes of all files; 0 = none
	IdleAfter     time.Duration // silence after which upper runs are folded down
	// Exclusive runs fn in the place of a commit leader, so that it may seal.
	Exclusive func(fn func() error) error
	OnWork    func(Work)  // told of every finished flush and merge; may be nil
	OnStall   func(Stall) // told when writers begin to be slowed, and when they no longer are; may be nil
	OnSpace   func(Space) // told when writes begin to be refused for want of space, and when they no longer are; may be nil
	OnFailure func(error) // told once of the error that ends background work; may be nil
	// OnLongRead is told of a reader that keeps what was replaced for more than a
	// minute, and again when that time has doubled; may be nil.
	OnLongRead func(view.LongReader)
}

// Retention says what history a key keeps beside its newest version; a version
// stays while either rule holds.
type Retention struct {
	Versions int           // at least so many newest versions; 0 means 1
	Age      time.Duration // whatever was visible at some time since then
}

// Tree is safe for concurrent use, save for what only the commit leader calls.
type Tree struct {
	cfg     Config
	log     *manifest.Log
	journal *journal.Journal // nil if read-only
	views   *view.Set
	stats   counters
	work    background
	spares  recycle
	chunks  *run.Cache    // of runs whose files are not mapped
	files   *pageio.Files // opens what is read
	slowed  slowed
	space   space
	full    full
	emptied *emptied.Tracker // of what deletes leave for seeks to skip
	coder   codec.Coder      // of compressed values

	drops         atomic.Uint64   // of keyspaces, since Open
	numbers       atomic.Uint64   // last file number given out
	clusterFailed atomic.Bool     // by a disk that is full, or alike: there is no other one
	scattered     atomic.Uint64   // bytes of unsorted values that iterators jumped to; clustering takes its price off
	spilling      sync.RWMutex    // held for reading while a transaction writes or removes files
	closing       context.Context // ends when Close begins
	close         context.CancelCauseFunc
	failure       atomic.Pointer[error] // why background work has ended

	recording sync.Mutex // held while an edit is made, recorded and installed, and guards:
	told      struct {   // what OnLongRead was last told of
		view  uint64
		after time.Duration
	}

	mu       sync.Mutex            // guards:
	replayed []journal.SegmentInfo // journal segments from before Open, not yet in runs
	damaged  []entry.FileNum       // segments that can't be collected

	// The commit leader's.
	leader       *view.Pin     // with which it looks at a View
	writing      entry.FileNum // journal segment that Apply last followed
	journalBytes int64         // applied to the active memtable
}

func (t *Tree) now() time.Time { return t.cfg.Now() }

// unixMilli is the time by which entries expire.
func (t *Tree) unixMilli() uint64 { return uint64(max(t.now().UnixMilli(), 0)) }

// layout is that of the current View.
func (t *Tree) layout() *layout.Layout { return t.views.Current().Layout }

// nextFile gives out a file number that was never used before.
func (t *Tree) nextFile() entry.FileNum { return entry.FileNum(t.numbers.Add(1)) }

func (t *Tree) lastFile() entry.FileNum { return entry.FileNum(t.numbers.Load()) }

func (t *Tree) newTable() *view.Table {
	return view.NewTable(memtable.Options{Seed: t.cfg.Seed, Limit: t.cfg.MemtableBytes})
}

// path is where a file of the store lies.
func (t *Tree) path(name filename.Name) string {
	if name.Kind.InValueDir() {
		return filepath.Join(t.cfg.ValueDir, name.String())
	}
	return filepath.Join(t.cfg.Dir, name.String())
}

// Journal is what the commit pipeline appends to; nil if the Tree is read-only.
func (t *Tree) Journal() *journal.Journal { return t.journal }

// fail ends background work; writes that need it will report err.
func (t *Tree) fail(err error) {
	err = vfs.NoSpace(err)
	if t.failure.CompareAndSwap(nil, &err) && t.cfg.OnFailure != nil {
		t.cfg.OnFailure(err)
	}
	t.views.Wake()
}

// failed is why background work has ended; nil while it goes on.
func (t *Tree) failed() error {
	if err := t.failure.Load(); err != nil {
		return *err
	}
	return nil
}
