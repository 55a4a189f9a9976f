// Package commit is the way of every write: transactions that commit at the same
// time become one group. The group is checked for conflicts, appended to the
// journal, synced, applied and published as one (group commit: DeWitt et al.,
// "Implementation Techniques for Main Memory Database Systems", SIGMOD 1984).
//
// # How it runs
//
// A committer joins the last waiting group. If there is no leader, it leads that
// group at once; else it waits. The leader writes its group alone, hands
// leadership to a member of the next group, and returns: the pipeline has no
// goroutine of its own. While one group is written and synced, the next one fills.
//
// # Invariants
//
//   - There is at most one leader. Pipeline.busy is true from the moment a committer
//     becomes leader until it finds no group to hand leadership to. Leadership passes
//     under mu: what only leaders touch needs no other lock.
//   - Groups are taken in the order in which they were begun. A request is in one
//     group. It leaves the group by withdrawing before the group is taken, or when
//     the group is finished. Each taken request gets exactly one result.
//   - The leader numbers the requests that pass: each version is greater than the
//     last. A version whose append failed is never published. Either the failure
//     stops the pipeline, or the whole group was refused, as by a full disk, and
//     nothing of it is left: then its versions are given out again. The same holds for
//     a group whose sync was refused: it is taken back.
//   - The leader checks a bounded number of keys for a request that has read much: its
//     committer has checked it before (ahead.go).
//   - The steps of a group are: check, append, sync (if a member that passed asked
//     for it), apply, publish, wake. So what is visible is a prefix of the journal, and
//     nothing that needed a sync is visible before it. Steps of two groups never
//     interleave. To append during the sync before would gain little: the group could
//     be published only after that sync, and requests that would have formed one large
//     group would be split over two syncs.
//   - After a failed append, sync or apply nothing is written any more: the disk may
//     hold any part of the group, and a repeated sync may report success without it.
//   - No code of the user runs in a leader. Should a leader panic, the pipeline stops
//     and all waiters get an error rather than wait for ever.
//
// # Lock order
//
// mu is a leaf: nothing is called and nothing is waited for while it is held.
// The leader calls Store and Journal with no lock held. A function given to Do
// runs as leader: it may lock what it likes, but it may not commit.
package commit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/invariant"
)

// Config is what a Pipeline needs; Now and OnSync may be nil.
type Config struct {
	Store    Store
	Journal  Journal
	Last     entry.Version            // newest version already used
	HashSeed uint64                   // of the store's key hashes
	Now      func() time.Time         // times syncs and turns of the scheduler; without it groups are not held open for company
	OnSync   func(took time.Duration) // called by the leader after each sync, so it must be quick; needs Now
}

// Pipeline commits transactions. Its methods may be called at any time from any
// goroutine, except from a function that runs in Do.
type Pipeline struct {
	Turns Turns

	store Store

	mu      sync.Mutex
	queue   queue
	busy    bool  // there is a leader
	closed  bool  // no new requests
	stopped error // no new groups; changed by the leader only

	leader    leader    // belongs to the committer that leads
	gathering gathering // passes on with it
	awaiting  awaiting
}

// New returns a pipeline that continues after version cfg.Last.
func New(cfg Config) *Pipeline {
	p := &Pipeline{store: cfg.Store}
	l := &p.leader
	l.store, l.journal, l.now, l.onSync = cfg.Store, cfg.Journal, cfg.Now, cfg.OnSync
	l.last = cfg.Last
	l.visible.Store(uint64(cfg.Last))
	l.writes.store, l.writes.seed = cfg.Store, cfg.HashSeed
	p.gathering.now = cfg.Now
	p.awaiting.full = make(chan struct{}, 1)
	return p
}

// Commit writes r and returns its version. When it returns, r is visible and, if
// r.Synced, durable. For a request without records it returns r.Check.Since: that
// saw a snapshot and changed nothing, so there is nothing to check.
//
// Commit returns errs.ErrConflict if r.Check does not hold. It returns errs.ErrNoSpace
// or errs.ErrRefused, and not errs.ErrStopped, if the disk is full or the system has
// refused a call: a later Commit may succeed. It
// returns ctx.Err() if ctx ends before a leader takes the request; from then on ctx is
// ignored. In all three cases nothing was written.
//
// After a failed write or sync this and every later Commit returns an error that is
// errs.ErrStopped and the cause. Whether a reopened store has the requests of the group
// that failed is not known.
func (p *Pipeline) Commit(ctx context.Context, r *Request) (entry.Version, error) {
	if r.Records == 0 {
		return r.Check.Since, nil
	}
	if invariant.Enabled {
		checkPayload(r)
	}
	r.Turn.commits()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := p.store.Throttle(ctx, r.Payload); err != nil {
		return 0, err
	}
	if err := p.Turns.yields(r); err != nil {
		return 0, err
	}
	if r.Check.AsksRanges(r.Ranges) {
		p.store.SortSince(r.Check.Since)
	}
	v, err := p.submitChecked(ctx, r)
	if err == nil {
		p.store.CatchUp()
	}
	return v, err
}

// Sync returns when everything committed before the call is durable.
func (p *Pipeline) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.leader.durable.Load() >= p.leader.visible.Load() {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.refusalLocked()
	}
	// An empty request joins a group, whose sync covers all that was committed before.
	_, err := p.submit(ctx, &Request{Synced: true})
	return err
}

// Do runs fn between two groups: while it runs, nothing is checked, written or
// published. It returns fn's error, which stops nothing.
func (p *Pipeline) Do(fn func() error) error {
	g, err := p.turn()
	if err != nil {
		return err
	}
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
	// Only the last group has room, so that requests are taken in order of arrival.
	g := p.queue.room(len(r.Payload))
	g.add(r)
	if !p.busy {
		p.busy, g.called = true, true
		p.mu.Unlock()
		p.lead(g)
		return r.version, r.err
	}
	wake := g.wait()
	p.joinedLocked(g)
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
		<-wake // too late: the leader has r, and may be writing it
	}
	return r.version, r.err
}

// lead writes g, wakes its members and hands leadership on.
func (p *Pipeline) lead(g *group) {
	p.gather(g)
	p.mu.Lock()
	p.takeLocked(g)
	p.mu.Unlock()
	p.gathering.company = len(g.members)

	// Members wait until release, so they get a result even if write panics.
	err := errPanicked
	defer func() {
		if err != nil {
			for _, r := range g.members {
				r.version, r.err = 0, err
			}
			p.stopOn(err)
		}
		p.awaiting.synced = p.leader.synced
		p.leader.reset()
		p.release(g)
	}()
	err = p.write(g)
}

func (p *Pipeline) write(g *group) error {
	if p.stopped != nil {
		return p.stopped
	}
	return p.leader.write(g.members)
}

// stopOn ends all writing if err says so.
func (p *Pipeline) stopOn(err error) {
	if !errors.Is(err, errs.ErrStopped) {
		return
	}
	p.mu.Lock()
	p.stopped = err
	p.mu.Unlock()
}

// turn is turnLocked, unless the pipeline takes no requests any more.
func (p *Pipeline) turn() (*group, error) {
	p.mu.Lock()
	if err := p.refusalLocked(); err != nil {
		p.mu.Unlock()
		return nil, err
	}
	return p.turnLocked(), nil
}

// turnLocked waits for an exclusive turn: it returns, with mu unlocked, as the
// leader of a group that nobody else is in. release ends the turn.
func (p *Pipeline) turnLocked() *group {
	g := p.queue.push()
	g.alone = true
	// Requests that come later need a group behind this one: hasRoom refuses them.
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
	// An empty group that was to lead next must not keep the leadership.
	if g.called {
		<-g.wake // the token; there is no other member to receive it
		p.handOnLocked()
	}
	p.queue.recycle(g)
	return true
}

// takeLocked closes g, which is the next group: nobody may join or withdraw any more.
func (p *Pipeline) takeLocked(g *group) {
	p.queue.unlink(g)
	g.taken = true
}

// release ends the leadership of a group whose results are set.
func (p *Pipeline) release(g *group) {
	// One close wakes all members, however many there are. An exclusive turn has none.
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
	g := p.queue.head()
	p.awaiting.expected = p.gathering.company
	if g == nil {
		p.busy = false
		return
	}
	p.awaiting.expected += len(g.members)
	// Members of a group that was not led at once wait, so the channel is there. It
	// has room for the one token that it ever gets.
	g.called = true
	g.wake <- struct{}{}
}
