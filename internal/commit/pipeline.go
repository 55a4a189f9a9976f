// Package commit is the road of every write: transactions that commit at the
// same time become one group, which is checked for conflicts, appended to the
// journal, synced, applied and published as one.
//
// # How it runs
//
// A committer joins the last waiting group. If nobody leads, it leads that
// group at once; else it waits. The leader writes its group alone, hands
// leadership to a member of the next group, and returns: there is no goroutine
// of the pipeline's own. While a group is written and synced, the next fills.
//
// # Invariants
//
//   - There is at most one leader. Pipeline.busy is true exactly from the moment
//     somebody becomes leader until it hands on to nobody. Leadership passes
//     under mu: all that the leader touches needs no other lock.
//   - Groups are taken in the order in which they were begun. A request is in one
//     group; it leaves it only by withdrawing before the group is taken, or by
//     the group being finished. Each taken request gets exactly one result.
//   - Versions are given out by the leader to the requests that pass, each one
//     greater than the last; a version whose append failed was never published
//     and never will be, because that stops the pipeline, or, if the journal
//     refused the group whole for want of space, left nothing of it. The same
//     holds for a group whose sync was refused so: it is taken back.
//   - For every group: conflicts, append, sync (if a member that passed asked),
//     apply, publish, wake. So what is visible is a prefix of the journal, and
//     nothing that needed a sync is visible before it. The groups' steps never
//     interleave. (An append during the sync before it would gain little: it
//     could be published only after that sync, and the requests that would
//     have formed the one large next group would be split over two syncs.)
//   - Once an append, a sync or an apply has failed, nothing is written any more:
//     the disk may hold any part of it, and a repeated sync would lie.
//   - No code of the user runs in a leader. Should it panic none the less, the
//     pipeline stops and all waiters get an error, rather than wait for ever.
//
// # Lock order
//
// mu is a leaf: nothing is called and nothing is waited for while it is held.
// The leader calls Store and Journal with no lock held; a function given to Do
// runs as leader, so it may lock what it likes, but it may not commit.
package commit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/invariant"
)

// Limits of one group.
const (
	MaxTransactions = 1<<16 - 1 // as many as a frame can count
	MaxBytes        = 8 << 20   // of payload, unless one transaction alone is larger
)

// Store is what is written to. Admit and CatchUp are called by all committers, at
// any time; the others only by the leader, so never two at a time.
type Store interface {
	conflict.Changes
	// Admit may make a committer wait until the store can take the payload, or
	// refuse it; nil stands for a large transaction that has none.
	Admit(ctx context.Context, payload []byte) error
	// Prepare makes room for n bytes of payload. If it fails, nothing of the
	// group is written, but the pipeline goes on.
	Prepare(n int) error
	// Apply adds the records of one transaction, which begin at this position.
	Apply(payload []byte, at entry.Position) error
	// Publish makes all versions up to v visible.
	Publish(v entry.Version)
	// CatchUp does, after a commit, what the store is late with because of it.
	CatchUp()
}

// Config is what a Pipeline needs; Now and the functions may be nil. OnSync and
// OnGroup are called by the leader, so they must be quick.
type Config struct {
	Store    Store
	Journal  Journal
	Last     entry.Version                 // newest version already used
	HashSeed uint64                        // of the store's key hashes
	Now      func() time.Time              // times syncs and turns of the scheduler; without it groups are not held open for company
	OnSync   func(took time.Duration)      // after each sync, if there is a clock
	OnGroup  func(transactions, bytes int) // after each group that was published
}

// Pipeline commits transactions. Its methods may be called at any time from any
// goroutine, except from a function that runs in Do.
type Pipeline struct {
	mu      sync.Mutex
	queue   queue
	busy    bool  // there is a leader
	closed  bool  // no new requests
	stopped error // no new groups; changed by the leader only

	cfg     Config
	leader  leader        // belongs to whoever leads
	visible atomic.Uint64 // newest published version
	durable atomic.Uint64 // newest version known to be durable; of what was there before, the journal is asked
	counts  counters
}

// New returns a pipeline that continues after version cfg.Last.
func New(cfg Config) *Pipeline {
	p := &Pipeline{cfg: cfg}
	p.leader.last = cfg.Last
	p.leader.writes.store, p.leader.writes.seed = cfg.Store, cfg.HashSeed
	p.visible.Store(uint64(cfg.Last))
	return p
}

// Commit writes r and returns its version; it is then visible and, if r.Synced,
// durable. If r conflicts, the error is errs.ErrConflict and nothing is written.
// A request without records returns its Check.Since: it saw a snapshot and
// changed nothing, so there is nothing to check.
//
// If the error is errs.ErrNoSpace and not errs.ErrStopped, nothing was written,
// and a later Commit may succeed.
//
// ctx is honoured until a leader takes the request: if that ends with
// ctx.Err(), nothing was written. Later the result is waited for.
//
// After a failed write or sync this and every later Commit returns an error
// that is errs.ErrStopped and the cause. Whether the requests of the group that
// failed will be there when the store is opened again is not known.
func (p *Pipeline) Commit(ctx context.Context, r *Request) (entry.Version, error) {
	if r.Records == 0 {
		return r.Check.Since, nil
	}
	if invariant.Enabled {
		checkPayload(r)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := p.cfg.Store.Admit(ctx, r.Payload); err != nil {
		return 0, err
	}
	v, err := p.submit(ctx, r)
	if err == nil {
		p.cfg.Store.CatchUp()
	}
	return v, err
}

// Sync returns when everything committed before the call is durable.
func (p *Pipeline) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.durable.Load() >= p.visible.Load() {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.refusalLocked()
	}
	_, err := p.submit(ctx, &Request{Synced: true})
	return err
}

// Do runs fn between two groups: while it runs, nothing is checked, written or
// published. It returns fn's error, which stops nothing.
func (p *Pipeline) Do(fn func() error) error {
	p.mu.Lock()
	if err := p.refusalLocked(); err != nil {
		p.mu.Unlock()
		return err
	}
	g := p.turnLocked()
	defer p.release(g)
	if p.stopped != nil {
		return p.stopped
	}
	return fn()
}

// Close waits for all groups that were begun before it; what comes later gets
// errs.ErrClosed. It syncs nothing. Closing again only waits.
func (p *Pipeline) Close() error {
	p.mu.Lock()
	p.closed = true
	p.release(p.turnLocked())
	return nil
}

// Err returns the error that stopped the pipeline, nil as long as it runs.
func (p *Pipeline) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

func (p *Pipeline) refusalLocked() error {
	if p.closed {
		return errs.ErrClosed
	}
	return p.stopped
}

// submit has r written, by this goroutine or another.
func (p *Pipeline) submit(ctx context.Context, r *Request) (entry.Version, error) {
	r.version, r.err = 0, nil
	p.mu.Lock()
	if err := p.refusalLocked(); err != nil {
		p.mu.Unlock()
		return 0, err
	}
	g := p.queue.tail
	if g == nil || !g.hasRoom(len(r.Payload)) {
		g = p.queue.push()
	}
	g.add(r)
	if !p.busy {
		p.busy, g.called = true, true
		p.mu.Unlock()
		p.lead(g)
		return r.version, r.err
	}
	wake := g.wait()
	p.mu.Unlock()

	select {
	case _, called := <-wake:
		if called {
			p.lead(g)
		}
	case <-ctx.Done():
		if p.withdraw(g, r) {
			return 0, ctx.Err()
		}
		<-wake
	}
	return r.version, r.err
}

// turnLocked waits for an exclusive turn: it returns, with mu unlocked, as the
// leader of a group that nobody else is in. release ends the turn.
func (p *Pipeline) turnLocked() *group {
	g := p.queue.push()
	g.alone = true
	if p.busy {
		wake := g.wait()
		p.mu.Unlock()
		<-wake
		p.mu.Lock()
	}
	p.busy = true
	p.takeLocked(g)
	p.mu.Unlock()
	return g
}

// withdraw takes r out of its group; it reports false if that has been taken.
func (p *Pipeline) withdraw(g *group, r *Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !g.remove(r) {
		return false
	}
	if len(g.members) > 0 {
		return true
	}
	p.queue.unlink(g)
	if g.called {
		<-g.wake // the token: nobody else is left who could have received it
		p.handOnLocked()
	}
	p.queue.recycle(g)
	return true
}

// takeLocked closes g, which is the next group, to those who come or go.
func (p *Pipeline) takeLocked(g *group) {
	p.queue.unlink(g)
	g.taken = true
}

// release ends the leadership of a group whose results are set.
func (p *Pipeline) release(g *group) {
	if g.wake != nil && !g.alone {
		close(g.wake)
	}
	p.mu.Lock()
	p.handOnLocked()
	p.queue.recycle(g)
	p.mu.Unlock()
}

// handOnLocked makes a member of the next group leader, if there is one.
func (p *Pipeline) handOnLocked() {
	g := p.queue.head
	if g == nil {
		p.busy = false
		return
	}
	g.called = true
	g.wake <- struct{}{}
}
