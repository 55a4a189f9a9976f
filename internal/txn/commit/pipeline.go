// Package commit writes transactions. Those that commit at the same time form one
// group. The group is checked for conflicts, appended to the journal, synced, applied
// and published as one (group commit: DeWitt et al., "Implementation Techniques for
// Main Memory Database Systems", SIGMOD 1984).
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
//   - There is at most one leader. Pipeline.hasLeader is true from the moment a committer
//     becomes leader until it finds no group to hand leadership to. Leadership passes
//     under mu: what only leaders touch needs no other lock.
//   - Groups are taken in the order in which they were begun. A request is in one
//     group. It leaves the group by withdrawing before the group is taken, or when
//     the group is finished. Each taken request gets exactly one result.
//   - The leader numbers the requests that pass: each version is greater than the
//     one before, and the next one unless the request brings it along. A version whose append failed is never published. Either the failure
//     stops the pipeline, or it was a refusal, as by a full disk, that has left nothing
//     of the group: then its versions are given out again. A group whose sync was
//     refused is taken back, with the same result.
//   - For a request that has read much, the leader checks a bounded number of keys only.
//     The request's committer has checked the rest before (ahead.go).
//   - The steps of a group are: check, append, sync (if a member that passed asked
//     for it), apply, publish, wake. So what is visible is a prefix of the journal, and
//     nothing that needed a sync is visible before it. Steps of two groups never
//     interleave. To append during the sync before would gain little: the group could
//     be published only after that sync, and requests that would have formed one large
//     group would be split over two syncs.
//   - After a failed append, sync or apply nothing is written any more: the disk may
//     hold any part of the group, and a repeated sync may report success without it.
//   - No code of the user runs in a leader. If a leader panics all the same, the pipeline
//     stops and all waiters get an error; they don't wait for ever.
//
// # Lock order
//
// mu is a leaf: while it is held, no other lock is taken and nothing is waited for.
// The leader calls Store and Journal with no lock held. A function given to Do
// runs as leader: it may take other locks, but it must not commit, which would
// wait for itself.
package commit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/invariant"
)

// Config is what a Pipeline needs; Now and OnSync may be nil.
type Config struct {
	Store    Store
	Journal  Journal
	Last     entry.Version            // newest version already used
	HashSeed uint64                   // of the store's key hashes
	Now      func() time.Time         // times syncs and yields; nil: don't wait for more committers
	OnSync   func(took time.Duration) // called by the leader after each sync: be quick; needs Now
}

// Pipeline commits transactions. Its methods may be called at any time from any
// goroutine, except from a function that runs in Do.
type Pipeline struct {
	Turns Turns // lines of Update calls that conflict again and again

	store Store

	mu        sync.Mutex
	queue     queue
	hasLeader bool  // there is a leader
	closed    bool  // no new requests
	stopped   error // no new groups; only a leader sets it, with mu, so leaders read it without

	// Used by the leader only, without mu. It is handed on under mu, which orders the accesses.
	leader    leader
	gathering gathering
}

// New returns a pipeline that continues after version cfg.Last.
func New(cfg Config) *Pipeline {
	p := &Pipeline{store: cfg.Store, gathering: gathering{now: cfg.Now, full: make(chan struct{}, 1)}}
	p.leader.Config, p.leader.last, p.leader.writes = cfg, cfg.Last, groupWrites{store: cfg.Store, seed: cfg.HashSeed}
	p.leader.visible.Store(uint64(cfg.Last))
	return p
}

// Commit writes r and returns its version. When it returns, r is visible and, if
// r.Synced, durable. For a request without records it returns r.Check.Since: that
// saw a snapshot and changed nothing, so there is nothing to check. If r has operations, and they
// change nothing, it returns 0.
//
// Commit returns errs.ErrConflict if r.Check does not hold, errs.ErrVersionMismatch if a version in
// r.Given is not above that of every commit before, and errs.ErrInvalid if an operation does not
// fit the value of its key. It returns errs.ErrNoSpace or errs.ErrRefused (without
// errs.ErrStopped) if the disk is full or the system has refused a call: a later Commit may
// succeed. It returns ctx.Err() if ctx ends before a leader takes the request; later ctx is
// ignored. In all these cases nothing was written.
//
// After any other failure to write or sync, this and every later Commit returns an error
// that wraps errs.ErrStopped and the cause. It is not known whether the store, once it is
// opened again, has the requests of the group that failed.
func (p *Pipeline) Commit(ctx context.Context, r *Request) (entry.Version, error) {
	switch {
	case len(r.Operations) > 0:
		return p.commitOperations(ctx, r)
	case r.Records == 0:
		return r.Check.Since, nil
	}
	return p.commitRequest(ctx, r)
}

// commitRequest is Commit for a request whose records are known.
func (p *Pipeline) commitRequest(ctx context.Context, r *Request) (entry.Version, error) {
	if invariant.Enabled {
		checkPayload(r)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	// Before it joins a group: a writer that waits here holds up nobody else.
	if err := p.store.Throttle(ctx, r.Payload); err != nil {
		return 0, err
	}
	if err := p.Turns.checkTurns(r); err != nil {
		return 0, err
	}
	// Memtables are hash tables. To find changes in a range they must be sorted, which may take
	// long: the committer pays for it, not the leader.
	if r.Check.AsksRanges(r.Ranges) {
		p.store.SortSince(r.Check.Since)
	}
	v, err := p.submitChecked(ctx, r)
	// After the commit, so that a search for emptied ranges delays no group.
	if err == nil {
		p.store.CatchUp()
	}
	return v, err
}

// commitOperations is Commit for a request with operations.
func (p *Pipeline) commitOperations(ctx context.Context, r *Request) (v entry.Version, err error) {
	r.plain, r.plainRecords = len(r.Payload), r.Records
	for range operationTries {
		if err := p.readBases(r); err != nil {
			return 0, err
		}
		if v, err := p.commitRequest(ctx, r); err != errOutdated {
			return v, err
		}
	}
	err = p.Do(ctx, func() (err error) {
		err = errPanicked // as in CommitAlone
		defer func() { p.stopOn(err) }()
		defer p.leader.forgetGroup()
		if err = p.readBases(r); err != nil {
			return err
		}
		r.checked, r.version, r.err = 0, 0, nil
		if err = p.leader.commitGroup([]*Request{r}); err == nil {
			v, err = r.version, r.err
		}
		return err
	})
	if err == nil {
		p.store.CatchUp()
	}
	return v, err
}

// readBases reads the bases of r's operations and encodes the results.
func (p *Pipeline) readBases(r *Request) (err error) {
	if r.basesAt, err = p.store.ReadBases(r.Operations); err == nil {
		err = r.encodeResults()
	}
	return err
}

// Sync returns when everything committed before the call is durable.
func (p *Pipeline) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Everything that was published is durable already. The answer must still say whether the store
	// was closed or has stopped.
	if p.leader.durable.Load() >= p.leader.visible.Load() {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.refusalLocked()
	}
	// An empty request joins a group, whose sync covers all that was committed before.
	_, err := p.submitRequest(ctx, &Request{Synced: true})
	return err
}

// Do runs fn between two groups: while it runs, nothing is checked, written or
// published. It returns fn's error, which stops nothing. If ctx ends before fn begins, Do
// returns the cause.
func (p *Pipeline) Do(ctx context.Context, fn func() error) error {
	g, err := p.beginExclusive(ctx, false)
	if err != nil {
		return err
	}
	defer p.releaseGroup(g)
	// The turn is exclusive, so this goroutine is the leader and may read stopped.
	if p.stopped != nil {
		return p.stopped
	}
	return fn()
}

// Close waits for all groups that were begun before it. Later calls return
// errs.ErrClosed. It syncs nothing. A second Close only waits.
func (p *Pipeline) Close() error {
	g, err := p.beginExclusive(context.Background(), true)
	if err == nil {
		p.releaseGroup(g)
	}
	return err
}

// refusalLocked returns why no request is taken any more; nil if requests are taken.
func (p *Pipeline) refusalLocked() error {
	if p.closed {
		return errs.ErrClosed
	}
	return p.stopped
}

// submitRequest puts r into a group and returns its result. This goroutine leads the group, or it
// waits for the one that does.
func (p *Pipeline) submitRequest(ctx context.Context, r *Request) (entry.Version, error) {
	r.version, r.err = 0, nil
	p.mu.Lock()
	if err := p.refusalLocked(); err != nil {
		p.mu.Unlock()
		return 0, err
	}
	// Only the last group has room, so that requests are taken in order of arrival.
	g := p.queue.groupWithRoom(r)
	g.addMember(r)
	if !p.hasLeader {
		// Nobody leads: no channel and no wakeup are needed, which is the usual case of a lone
		// writer.
		p.hasLeader, g.called = true, true
		p.mu.Unlock()
		p.leadGroup(g)
		return r.version, r.err
	}
	wake := g.waitChannel()
	p.joinedLocked(g)
	p.mu.Unlock()

	select {
	// A value means "lead your group", a closed channel "your result is set".
	case _, called := <-wake:
		if called {
			p.leadGroup(g)
		}
	case <-ctx.Done():
		if p.withdrawRequest(g, r) {
			return 0, ctx.Err()
		}
		<-wake // too late: the leader has r, and may be writing it
	}
	return r.version, r.err
}

// leadGroup writes g, wakes its members and passes leadership on. The caller is the leader.
func (p *Pipeline) leadGroup(g *group) {
	p.gatherMembers(g)
	// From here on nobody joins or withdraws: members is read without mu.
	p.mu.Lock()
	p.takeGroupLocked(g)
	p.mu.Unlock()
	p.gathering.previousSize = len(g.members)

	// Members wait until releaseGroup. So they must get a result even if commitGroup panics.
	err := errPanicked
	// The result of a group that panicked is not known. Waiters get errPanicked instead of waiting
	// for ever; the panic goes on in this goroutine.
	defer func() {
		if err != nil {
			for _, r := range g.members {
				r.version, r.err = 0, err
			}
			p.stopOn(err)
		}
		// Before releaseGroup: then the next leader owns it.
		p.leader.forgetGroup()
		p.releaseGroup(g)
	}()
	if p.stopped != nil {
		err = p.stopped
	} else {
		err = p.leader.commitGroup(g.members)
	}
}

// stopOn stops the pipeline if err is an errs.ErrStopped.
func (p *Pipeline) stopOn(err error) {
	if !errors.Is(err, errs.ErrStopped) {
		return
	}
	p.mu.Lock()
	p.stopped = err
	p.mu.Unlock()
}

// Stopped returns the errs.ErrStopped of every Commit from now on; nil while nothing has failed.
func (p *Pipeline) Stopped() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// beginExclusive waits for an exclusive turn. It returns as the leader of a group that nobody else
// is in. releaseGroup ends the turn. If ctx ends before the turn comes, or no requests are taken any
// more, it returns the cause, and nothing is to be released. With last, it is the last turn: it comes
// in any case, and no later request is taken.
func (p *Pipeline) beginExclusive(ctx context.Context, last bool) (*group, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refusalLocked(); err != nil && !last {
		return nil, err
	}
	// Nobody can join between this and the turn: requests see closed.
	p.closed = p.closed || last
	g := p.queue.pushGroup()
	g.exclusive = true
	// Requests that come later form a group behind this one, as hasRoom refuses them here. So an
	// exclusive turn waits only for groups that were there before it.
	if p.hasLeader {
		wake := g.waitChannel()
		p.mu.Unlock()
		var ended error
		select {
		case <-wake:
		case <-ctx.Done():
			ended = errs.Ended(ctx)
		}
		p.mu.Lock()
		if ended != nil {
			// The token may have come at the same moment: dropGroupLocked then hands it on.
			p.dropGroupLocked(g)
			return nil, ended
		}
	}
	// Also if a token came: the leader before left it true.
	p.hasLeader = true
	p.takeGroupLocked(g)
	return g, nil
}

// withdrawRequest takes r out of its group. It returns false if a leader has taken the group
// already: then r's result will come, and must be waited for.
func (p *Pipeline) withdrawRequest(g *group, r *Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(g.members, r)
	// Once the group is taken, the leader reads members without mu and may be writing r.
	if g.taken || i < 0 {
		return false
	}
	g.members = slices.Delete(g.members, i, i+1)
	g.bytes -= len(r.Payload)
	g.versions -= r.versionCount()
	// If g was called, its token stays in the channel for another member.
	if len(g.members) == 0 {
		p.dropGroupLocked(g)
	}
	return true
}

// dropGroupLocked takes g, which nobody is in any more, out of the queue.
func (p *Pipeline) dropGroupLocked(g *group) {
	p.queue.unlinkGroup(g)
	// g was to be led next. It is gone, so the next group must get the leadership, or nobody would
	// ever lead again.
	if g.called {
		<-g.wake // the token; there is no other member to receive it
		p.passLeadershipLocked()
	}
	p.queue.recycleGroup(g)
}

// takeGroupLocked takes g, the first group, from the queue: nobody may join or withdraw any more.
func (p *Pipeline) takeGroupLocked(g *group) {
	p.queue.unlinkGroup(g)
	g.taken = true
}

// releaseGroup wakes the members of g, whose results are set, and passes leadership on.
func (p *Pipeline) releaseGroup(g *group) {
	// One close wakes all members, however many there are. An exclusive turn has none.
	if g.wake != nil && !g.exclusive {
		close(g.wake)
	}
	p.mu.Lock()
	p.passLeadershipLocked()
	p.queue.recycleGroup(g)
	p.mu.Unlock()
}

// passLeadershipLocked makes a member of the next group leader, if there is one.
func (p *Pipeline) passLeadershipLocked() {
	// The members of the finished group are likely to commit again, and so are those that wait.
	p.gathering.expected = p.gathering.previousSize
	if len(p.queue.groups) == 0 {
		p.hasLeader = false
		return
	}
	g := p.queue.groups[0]
	p.gathering.expected += len(g.members)
	// g was not led at once, so a member waits and the channel exists. A group gets one
	// token in all, for which the channel has room: the send never blocks.
	g.called = true
	g.wake <- struct{}{}
}
