// Package tree is the store's life: it opens the files, flushes memtables,
// compacts runs and collects segments in the background, and installs what came of
// that as the next View, without stopping anybody.
//
// Each kind of work is a type of its own, which is given the parts that it needs
// (newTree joins them); Tree only hands calls on. What is to be done follows from
// the state: a task that is kicked looks by itself (tasks).
//
// # Lock order
//
// The commit leader's calls come first, then compactor.mu, then flusher.mu, each held
// over a whole piece of work, then installer.recording, held over the sync of an
// edit, then diskSpace.mu, held over a survey, then the mutex of view.Set and those of
// damaged, unflushed, cuts and spares, which are held over assignments only. searcher.mu is
// taken last but for those. The leader's own edit (journalOwner.Register) takes none
// of them. Readers take no lock: they pin a View (package view).
package tree

import (
	"context"
	"io"

	"github.com/brockdb/brock/internal/backup"
	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/follow"
	"github.com/brockdb/brock/internal/garbage"
	"github.com/brockdb/brock/internal/journal"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/view"
)

// Tree is safe for concurrent use, save for what only the commit leader calls.
type Tree struct {
	cfg   *Config
	coder codec.Coder // of compressed values

	// What the others share:
	log       *manifest.Log
	views     *view.Set
	leader    *view.Pin // with which the commit leader looks at a View
	files     *files.Opener
	unflushed *files.Unflushed
	life      *lifetime
	tasks     *tasks
	count     *counters
	damaged   *garbage.Damaged

	// What is decided:
	budget      *garbage.Budget
	disk        *diskSpace
	planner     *planner
	retention   *garbage.Retention
	throttle    *throttle
	expiry      *expiry
	longReaders *view.LongReaders
	sampler     *garbage.Sampler

	// What is done:
	searcher   *searcher
	installer  *installer
	writer     *writer
	flusher    *flusher
	compactor  *compactor
	clustering *clustering
	collector  *collector
	scrubber   *scrubber
	rotator    *rotator
	background *background
	keyspaces  *keyspaces
	spills     *spills
	follower   *follow.Follower // nil unless the store of another process is followed
	settling   *settling        // until Settle; nil: the store was not damaged
}

// Start lets background work begin, once what Config.Exclusive needs is there.
func (t *Tree) Start() { t.background.start() }

// Settle makes a store that was opened up to damage, with Config.UpTo, one of its own: all
// is in runs, no journal is needed, and the manifest says so. It is called once, after
// Start, before anybody writes. Until it has returned nil the store is, for another Open,
// as it was.
func (t *Tree) Settle(ctx context.Context) error {
	return t.settling.run(func() error { return t.Flush(ctx) }, t.installer.record)
}

// RotateKey changes the keys of an encrypted store, as o says, while others read and write.
func (t *Tree) RotateKey(ctx context.Context, o Rotation) error { return t.rotator.rotate(ctx, o) }

// Journal is what the commit pipeline appends to; nil if the Tree is read-only.
func (t *Tree) Journal() *journal.Journal { return t.unflushed.Journal }

// The commit leader's calls. Prepare, Apply and Publish are called by one goroutine at
// a time, in this order, once a group.

// Prepare makes room for n bytes of records in the active memtable.
func (t *Tree) Prepare(n int) error { return t.writer.prepare(n) }

// Apply adds the records of the transaction with version v, which begin at this place of
// the journal, to the memtable. Readers see them once they are published.
func (t *Tree) Apply(payload []byte, at entry.Position, v entry.Version) (next entry.Position, err error) {
	return t.writer.apply(payload, at, v)
}

// Publish makes everything up to v visible.
func (t *Tree) Publish(v entry.Version) { t.writer.publish(v) }

// Visible is the newest published version. Any goroutine may call it.
func (t *Tree) Visible() entry.Version { return t.views.Visible() }

// Newest returns the newest version of key, published or not, as view.Pin.Newest
// does. Only the commit leader may call it.
func (t *Tree) Newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	t.leader.Enter()
	defer t.leader.Leave()
	return t.leader.Newest(key, h, since)
}

// ChangedSince reports whether [lo, hi) has an entry newer than since, as
// view.Pin.ChangedSince does. Only the commit leader may call it.
func (t *Tree) ChangedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	t.leader.Enter()
	defer t.leader.Leave()
	return t.leader.ChangedSince(lo, hi, since)
}

// EachArrival calls fn with what is newer than since, as view.Pin.EachArrival does.
// Only the commit leader may call it.
func (t *Tree) EachArrival(since entry.Version, fn func(lo, hi []byte) error) (all bool, err error) {
	t.leader.Enter()
	defer t.leader.Leave()
	return t.leader.EachArrival(since, fn)
}

// Calls of committers and readers.

// CheckReads checks what a transaction has read against what was committed after since,
// or returns a conflict.Refusal. It returns up to which version it has looked. Many
// committers may call it at once.
func (t *Tree) CheckReads(reads *conflict.ReadSet, since entry.Version) (upTo entry.Version, err error) {
	p, err := t.views.Acquire(0)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	// What came since is mostly little beside the reads: each of it is looked up there.
	// The other way round is a look at each of the reads.
	n := 0
	all, err := p.EachArrival(since, func(lo, hi []byte) error {
		if n++; n > reads.Len() || hi != nil {
			return errTooMany
		}
		return reads.Refuse(lo, hi)
	})
	if err == errTooMany || err == nil && !all {
		p.SortSince(since)
		err = reads.Check(p, since)
	}
	return p.Version(), err
}

// Throttle slows a committer of a payload down while background work lags behind,
// the more the further it lags, and lets it wait only where memory would
// otherwise grow without bound. It refuses one that there is no disk space for. It
// returns early with the context's error. A nil payload stands for a large
// transaction that has none.
func (t *Tree) Throttle(ctx context.Context, payload []byte) error {
	return t.throttle.admit(ctx, payload)
}

// CatchUp is called by a committer whose commit is published, with no lock held: it
// searches for what deletes have emptied if the task that does so is late.
func (t *Tree) CatchUp() { t.searcher.catchUp() }

// SortSince is called by a committer who has read ranges, or deletes some, with no lock
// held: what the leader asks ChangedSince then costs it little, however much came since.
func (t *Tree) SortSince(since entry.Version) {
	if p, err := t.views.Hold(); err == nil { // of a closed store nothing is asked
		p.SortSince(since)
		p.Release()
	}
}

// Acquire pins the current View for reads at the version at; 0 means the newest
// published one. It returns ErrVersionGone for a version whose history may
// already have been dropped in every keyspace (Pin.Floor tells of each), ErrInvalid
// for one not yet published, and ErrClosed after Close.
func (t *Tree) Acquire(at entry.Version) (*view.Pin, error) { return t.views.Acquire(at) }

// Jumped adds bytes that iterators had to jump to, as Pin.Jump tells them, and has
// the store look, when it is idle, whether clustering is worth it by now.
func (t *Tree) Jumped(bytes uint64) { t.clustering.add(bytes) }

// Size estimates what [lo, hi) holds now, as view.Pin.Size does; 0 after Close.
func (t *Tree) Size(lo, hi []byte) (entries, bytes, separated uint64) {
	p, err := t.Acquire(0)
	if err != nil {
		return 0, 0, 0
	}
	defer p.Release()
	return p.Size(lo, hi)
}

// Split returns at most n-1 stored keys, in order, that cut [lo, hi) into parts
// of about the same size; a nil bound is open. It returns none after Close.
func (t *Tree) Split(lo, hi []byte, n int) [][]byte {
	p, err := t.Acquire(0)
	if err != nil {
		return nil
	}
	defer p.Release()
	return p.Split(lo, hi, n)
}

// NewSpill returns an empty Spill: a transaction's writes in files.
func (t *Tree) NewSpill() *Spill { return t.spills.begin() }

// Keyspaces lists the keyspaces that have a name, ascending by number. The list
// must not be written to.
func (t *Tree) Keyspaces() []layout.Keyspace { return t.views.Current().Layout.Keyspaces() }

// CreateKeyspace makes a keyspace with a number that no other ever had. It is
// durable on return. It returns ErrInvalid for a name that is taken.
func (t *Tree) CreateKeyspace(name string, o layout.KeyspaceOptions) (layout.Keyspace, error) {
	return t.keyspaces.create(name, o)
}

// SetKeyspace replaces the options of a keyspace. What is retained from now on
// follows them; what is gone stays gone. It is durable on return.
func (t *Tree) SetKeyspace(id entry.KeyspaceID, o layout.KeyspaceOptions) error {
	return t.keyspaces.set(id, o)
}

// DropKeyspace takes a keyspace away, with all that is in it. It is durable on return.
// Pins that were acquired before go on seeing the keyspace. The caller sees to it
// that nothing is written to it any more, and that what was committed before is
// durable.
func (t *Tree) DropKeyspace(id entry.KeyspaceID) error { return t.keyspaces.drop(id) }

// What users ask for.

// Flush writes everything committed so far into runs, and returns when that is done.
func (t *Tree) Flush(ctx context.Context) error { return t.background.flush(ctx) }

// Compact flushes, then compacts all runs into one, and returns when that is done.
func (t *Tree) Compact(ctx context.Context) error { return t.background.compact(ctx) }

// Reclaim gives back the space of everything that nobody can see any more, as
// far as that is worth the work: it flushes, compacts all runs, and collects until
// garbage is at most a fifth of what is live. It returns by how much the files
// shrank. Where the disk is full for one of these, it goes on with the next, and
// begins again if that has given some back.
func (t *Tree) Reclaim(ctx context.Context) (freed int64, err error) {
	return t.background.reclaim(ctx)
}

// Checkpoint makes a store in dir, which must not exist, that has everything committed
// so far, and nothing that is committed later. All of it is durable when Checkpoint
// returns nil. Files that never change are shared with it, where the system can do that.
// It returns errs.ErrExist if there is something in dir's place.
func (t *Tree) Checkpoint(ctx context.Context, dir string) error {
	return t.background.checkpoint(ctx, dir)
}

// Backup sends to w everything committed so far, and nothing that is committed later. See
// backup.Write.
func (t *Tree) Backup(ctx context.Context, w io.Writer, o backup.Options) (*backup.Info, error) {
	return t.background.backup(ctx, w, o)
}

// Verify reads SUPER, the manifest, every run and segment, checks all checksums,
// and that they agree with each other: every handle leads to its record, and
// what was counted dead or referred to is what there is. It calls report for
// each problem; its error says only why it could not go on.
func (t *Tree) Verify(ctx context.Context, report func(*errs.Corruption)) error {
	hold, err := t.views.Hold()
	if err != nil {
		return err
	}
	part, release := hold.Narrow(func(part *view.View) { part.Tables = nil })
	defer release()
	// Where something has rotted, nothing that was verified before is believed.
	found := func(c *errs.Corruption) {
		t.files.Open.Bits.Forget()
		report(c)
	}
	if err := view.Reported(t.verifyLog(found), found); err != nil {
		return err
	}
	return part.Verify(ctx, t.files.Segments(), &t.coder, found)
}

// Refresh moves a store that is followed to the newest durable version of its writer. Any
// other store has its newest version already.
func (t *Tree) Refresh(ctx context.Context) (entry.Version, error) {
	if t.follower == nil {
		return t.Visible(), nil
	}
	ctx, end := t.life.until(ctx)
	defer end()
	return t.follower.Refresh(ctx)
}

// verifyLog checks SUPER and the manifest.
func (t *Tree) verifyLog(report func(*errs.Corruption)) error {
	if t.follower != nil {
		return t.follower.Verify(report)
	}
	return t.log.Verify(report)
}
