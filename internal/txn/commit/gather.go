package commit

import (
	"runtime"
	"time"
)

// Bounds of gathering.
const (
	leastPatience  = 100 * time.Microsecond // a wait that takes longer was in vain
	memberPatience = 20 * time.Microsecond  // it may take this much longer for each member, to make its next transaction
	vainYields     = 2                      // yields in a row that bring no member end the wait
	leastSkipped   = 16                     // groups that do without after the first wait in vain
	mostSkipped    = 1 << 16                // the number doubles up to this
)

// gathering decides when a group is held open for more members. The current leader owns it, except
// full: members send on it.
type gathering struct {
	now          func() time.Time // nil: no group is held open
	previousSize int              // members of the group before
	expected     int              // members of a complete group: those of the group before, and who waited at its end
	sleeps       backoff          // of sleepForMembers
	yields       backoff          // of yieldForMembers
	full         chan struct{}    // the last expected member sends, if the leader sleeps; room for one value
	timer        *time.Timer      // ends the sleep; made once, reused by each leader
}

// gatherMembers holds g open until it is complete. The members of the group that has just been finished
// are awake, but have not run yet. If they run now, they bring their next transactions to this
// group. Otherwise they form a second group, and the two alternate: with 64 writers, gathering
// doubles the commits per sync, and four that write without syncs share one write instead of
// making four.
//
// A leader of synced groups sleeps. One that yields (runtime.Gosched) is at once the next goroutine
// on its processor again, so it does not let those run that are ready on another processor, which
// may be busy, or stopped by the system. If an expected member does not come, only the timer wakes
// the sleeper, up to about 1 ms later; without a sync that would be a long time, so a leader of
// such groups yields.
//
// A lone writer expects nobody, and never waits. In a process that is busy with other work, either
// wait may cost milliseconds in which nobody commits: after one in vain the next groups do without.
// Groups that don't sleep yield: a late member says nothing about those that are ready to run.
func (p *Pipeline) gatherMembers(g *group) {
	a := &p.gathering
	switch {
	case a.now == nil || a.expected < 2:
	case p.leader.synced && !a.sleeps.skipsWait():
		a.sleeps.countWait(p.sleepForMembers(g))
	case !a.yields.skipsWait():
		a.yields.countWait(p.yieldForMembers(g))
	}
}

// backoff says which groups do without a wait: 16 after the first one in vain, and up to 65,536 if
// more than one wait in six is in vain.
type backoff struct {
	left int // groups that still do without
	next int // groups to skip after the next wait in vain, if more than leastSkipped
}

// skipsWait reports whether the next group does without the wait. Call it once for each group.
func (b *backoff) skipsWait() bool {
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}

// countWait notes whether a wait has succeeded. One success does not undo a failure, which doubles the
// number: about six do.
func (b *backoff) countWait(ok bool) {
	if ok {
		b.next -= (b.next + 7) / 8
		return
	}
	b.left = max(b.next, leastSkipped)
	b.next = min(2*b.left, mostSkipped)
}

// yieldForMembers lets the committers run that are ready on this processor, until g is complete or
// nobody comes. It returns false if that took long: other work has the processors.
func (p *Pipeline) yieldForMembers(g *group) bool {
	a := &p.gathering
	size := p.sizeOf(g)
	for vain := 0; vain < vainYields && size < a.expected; vain++ {
		began := a.now()
		runtime.Gosched()
		took := a.now().Sub(began)
		came := p.sizeOf(g) - size
		if took > patienceFor(came) {
			return false
		}
		if size += came; came > 0 {
			vain = -1 // there may be more, so count anew
		}
	}
	return true
}

// sizeOf returns how many members g has by now: they join while its leader waits.
func (p *Pipeline) sizeOf(g *group) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(g.members)
}

// patienceFor is how long a wait for n members may take.
func patienceFor(n int) time.Duration { return leastPatience + time.Duration(n)*memberPatience }

// sleepForMembers sleeps until g is complete. It returns false if the timer has ended the sleep.
func (p *Pipeline) sleepForMembers(g *group) bool {
	a := &p.gathering
	p.mu.Lock()
	missing := a.expected - len(g.members)
	// Set under mu, so that a member that joins from now on sees it and wakes this leader.
	if missing > 0 {
		g.awaited = a.expected
	}
	p.mu.Unlock()
	if missing <= 0 {
		return true
	}
	if a.timer == nil {
		a.timer = time.NewTimer(patienceFor(missing))
	} else {
		a.timer.Reset(patienceFor(missing))
	}
	select {
	case <-a.full:
		a.timer.Stop()
		return true
	case <-a.timer.C:
	}
	p.mu.Lock()
	// The last member came between the timer and the lock. Its value must be received: left in the
	// channel, it would wake the leader of a later group at once.
	late := g.awaited == 0
	g.awaited = 0
	p.mu.Unlock()
	if late {
		<-a.full
	}
	return false
}

// joinedLocked wakes the leader of g if it sleeps and g is complete now. Call it after each join.
func (p *Pipeline) joinedLocked(g *group) {
	if len(g.members) == g.awaited {
		g.awaited = 0
		p.gathering.full <- struct{}{} // never blocks: a group sends one value
	}
}
