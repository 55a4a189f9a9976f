// Package tree opens the files of a store and does its background work: it flushes
// memtables, compacts runs and collects segments. It installs the results as the next View;
// readers and writers go on meanwhile.
//
// Each kind of work is a type of its own, with the parts that it needs as fields (newTree
// joins them). Tree only passes calls on. What is to be done follows from the state: a task
// that is kicked looks at the state itself (tasks).
//
// # Lock order
//
// Locks are taken in this order:
//
//  1. the turn of the commit leader
//  2. compactor.turn, held over a whole compaction
//  3. flusher.turn, held over a whole flush
//  4. installer.recording, held over the sync of an edit
//  5. diskSpace.mu, held over a survey
//  6. searcher.mu
//  7. the mutex of view.Set, and those of damaged, unflushed and cuts, which are held
//     over assignments only
//
// The leader's own edit (journalOwner.Register) takes none of them. Readers take no lock:
// they pin a View (package view).
package engine

import (
	"context"
	"errors"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/follow"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/txn/conflict"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/view/files"
	"github.com/brockdb/brock/internal/view/garbage"
	"github.com/brockdb/brock/internal/vlog/journal"
)

// Tree is safe for concurrent use, except the methods that only the commit leader may call.
type Tree struct {
	cfg   *Config
	coder codec.Coder // of compressed values

	// Used by all parts:
	log       *manifest.Log
	views     *view.Set
	leader    *view.Pin // the commit leader reads Views with it
	files     *files.Opener
	unflushed *files.Unflushed
	life      *lifetime
	tasks     *tasks
	count     *counters
	damaged   *garbage.Damaged

	// Parts that decide:
	budget      *garbage.Budget
	disk        *diskSpace
	planner     *planner
	retention   *garbage.Retention
	throttle    *throttle
	expiry      *expiry
	longReaders *view.LongReaders
	sampler     *garbage.Sampler

	// Parts that work:
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
}

// Start lets background work begin. Call it when Config.Exclusive can be called.
func (t *Tree) Start() { t.background.start() }

// Keys returns the provider of master keys that RotateKey has set last, or else that of Open; nil
// for a plain store.
func (t *Tree) Keys() keyring.Provider {
	if t.cfg.Keyring == nil {
		return nil
	}
	return t.cfg.Keyring.Provider()
}

// RotateKey changes the keys of an encrypted store, as o says, while others read and write.
func (t *Tree) RotateKey(ctx context.Context, o Rotation) error {
	return t.life.work(ctx, func(ctx context.Context) error { return t.rotator.rotate(ctx, o) })
}

// Journal returns the journal, which the commit pipeline appends to; nil if the Tree is
// read-only.
func (t *Tree) Journal() *journal.Journal { return t.unflushed.Journal }

// The calls of the commit leader. For each group it calls Prepare, Apply for each
// transaction, and Publish, in this order, on one goroutine at a time.

// Prepare makes room in the active memtable for payloads of so many records, ranges of them range
// deletes.
func (t *Tree) Prepare(payloads [][]byte, records, ranges int) error {
	return t.writer.prepare(payloads, records, ranges)
}

// Apply adds the records of the transaction with version v, which begin at this place of
// the journal, to the memtable. Readers see them once they are published.
func (t *Tree) Apply(payload []byte, at entry.Position, v entry.Version) (next entry.Position, err error) {
	return t.writer.apply(payload, at, v)
}

// Publish makes everything up to v visible.
func (t *Tree) Publish(v entry.Version) { t.writer.publish(v) }

// Visible returns the newest published version. Any goroutine may call it.
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

// CheckReads returns a conflict.Refusal if something that a transaction has read was written
// after since. Else it returns the version up to which it has looked. Many committers may
// call it at once.
func (t *Tree) CheckReads(reads *conflict.ReadSet, since entry.Version) (upTo entry.Version, err error) {
	p, err := t.views.Acquire(0)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	// Usually fewer keys were written since than were read: look up each written key in the
	// reads. Otherwise, or if a range was deleted or a run has to be read, look up each read.
	n := 0
	all, err := p.EachArrival(since, func(lo, hi []byte) error {
		if n++; n > reads.Len() || hi != nil {
			return errTooMany
		}
		return reads.Refuse(lo)
	})
	if err == errTooMany || err == nil && !all {
		p.SortSince(since)
		err = reads.Check(p, since)
	}
	return p.Version(), err
}

var errTooMany = errors.New("too many keys were written meanwhile")

// Throttle slows a committer down while background work lags behind: the more it lags, the
// longer. It stops the committer only while memory would grow without bound otherwise. It
// returns ErrNoSpace if there is no disk space for the payload, and the context's error if ctx
// ends. A large transaction, which writes files of its own, has a nil payload.
func (t *Tree) Throttle(ctx context.Context, payload []byte) error {
	return t.throttle.admit(ctx, payload)
}

// CatchUp seeks past what commits have deleted, if that is much. A committer calls it after its
// commit, with no lock held.
func (t *Tree) CatchUp() { t.searcher.catchUp() }

// SortSince sorts what is newer than since in memtables, so that ChangedSince is cheap for
// the leader. A committer that has read or deleted ranges calls it, with no lock held.
func (t *Tree) SortSince(since entry.Version) {
	if p, err := t.views.Hold(); err == nil { // after Close there is nothing to prepare for
		p.SortSince(since)
		p.Release()
	}
}

// Acquire pins the current View for reads at the version at; 0 means the newest
// published one. It returns ErrVersionGone for a version whose history may
// already have been dropped in every keyspace (Pin.Floor tells of each), ErrInvalid
// for one not yet published, and ErrClosed after Close.
func (t *Tree) Acquire(at entry.Version) (*view.Pin, error) { return t.views.Acquire(at) }

// Jumped adds to the jumped bytes of iterators (Pin.Jump). If clustering is worth it by now, the
// store does it when it is idle.
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

// CreateKeyspace makes a keyspace with a number that no other one ever had. It is durable when
// the call returns. It returns ErrInvalid for a name that is taken.
func (t *Tree) CreateKeyspace(name string, o layout.KeyspaceOptions) (layout.Keyspace, error) {
	return t.keyspaces.create(name, o)
}

// SetKeyspace replaces the options of a keyspace. Compactions follow the new Retention from
// now on; history that was dropped before does not come back. The change is durable when the
// call returns.
func (t *Tree) SetKeyspace(id entry.KeyspaceID, o layout.KeyspaceOptions) error {
	return t.keyspaces.set(id, o)
}

// DropKeyspace removes a keyspace with everything in it. It is durable when the call returns.
// Pins that were acquired before still see the keyspace. The caller must make sure that
// nothing more is written to it, and that earlier commits are durable.
func (t *Tree) DropKeyspace(id entry.KeyspaceID) error { return t.keyspaces.drop(id) }

// Calls of users.

// Flush writes everything committed so far into runs, and returns when that is done.
func (t *Tree) Flush(ctx context.Context) error { return t.background.flush(ctx) }

// Compact flushes, then compacts all runs into one, and returns when that is done.
func (t *Tree) Compact(ctx context.Context) error { return t.life.work(ctx, t.background.compact) }

// Reclaim frees the disk space of what no reader can see any more. It flushes, compacts all
// runs, and collects until garbage is at most a fifth of the live bytes. It returns how many
// bytes the files have shrunk by. If the disk is too full for one of these steps, it goes on
// with the next one; if that has freed space, it begins again.
func (t *Tree) Reclaim(ctx context.Context) (freed int64, err error) {
	err = t.life.work(ctx, func(ctx context.Context) error {
		freed, err = t.background.reclaim(ctx)
		return err
	})
	return freed, err
}

// Verify reads SUPER, the manifest, and every run and segment, and checks all checksums. It
// also checks that they agree: every handle leads to its record, and the layout counts dead
// records and references right. It calls report for each problem. It returns an error only
// if it could not go on.
func (t *Tree) Verify(ctx context.Context, report func(*errs.Corruption)) error {
	hold, err := t.views.Hold()
	if err != nil {
		return err
	}
	part, release := hold.Narrow(func(part *view.View) { part.Tables = nil })
	defer release()
	// After the first damage, pages that were verified before are verified again.
	found := func(c *errs.Corruption) {
		t.files.Open.Bits.Forget()
		report(c)
	}
	if err := view.Reported(t.verifyLog(ctx, found), found); err != nil {
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
func (t *Tree) verifyLog(ctx context.Context, report func(*errs.Corruption)) error {
	if t.follower == nil {
		return t.log.Verify(report)
	}
	ctx, end := t.life.until(ctx) // Close waits for the follower
	defer end()
	return t.follower.Verify(ctx, report)
}
