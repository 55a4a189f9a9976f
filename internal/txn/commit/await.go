package commit

import "time"

// awaiting is the state of awaitComplete. The current leader owns it, except full: members send on
// it.
type awaiting struct {
	synced       bool          // the group before was synced
	expected     int           // members of a complete group, by what the last groups had
	full         chan struct{} // the last expected member sends; room for one value
	timer        *time.Timer   // ends the sleep; made once, reused by each leader
	sleepBackoff backoff       // skips groups after sleeps that timed out
}

// awaitComplete sleeps until g is complete: as many members have joined as the group before had,
// plus those that waited when it was finished. It returns false, without having slept, if this is
// not the time to try it. Then gather yields instead.
//
// Why sleep: a leader that yields (runtime.Gosched) is at once the next goroutine on its processor
// again. So it does not let goroutines run that are ready on another processor, which may be busy,
// or stopped by the system. A leader that sleeps leaves its processor to them.
//
// Why not always: if an expected member does not commit again, only the timer wakes the leader, up
// to about 1 ms later. So it is tried only if groups are synced, where 1 ms matters less, and more
// and more seldom if it fails.
func (p *Pipeline) awaitComplete(g *group) bool {
	a := &p.awaiting
	if !a.synced || a.sleepBackoff.skips() {
		return false
	}
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
	// The limit grows with what is missing: each member needs time for its next transaction.
	limit := slowTurn + time.Duration(missing)*memberTurn
	if a.timer == nil {
		a.timer = time.NewTimer(limit)
	} else {
		a.timer.Reset(limit)
	}
	select {
	case <-a.full:
		a.timer.Stop()
		a.sleepBackoff.countSuccess()
	case <-a.timer.C:
		p.mu.Lock()
		// The last member came between the timer and the lock. Its value must be received: left in
		// the channel, it would wake the leader of a later group at once.
		late := g.awaited == 0
		g.awaited = 0
		p.mu.Unlock()
		if late {
			<-a.full
		}
		a.sleepBackoff.countFailure()
	}
	return true
}

// joinedLocked wakes the leader of g if it sleeps and g is complete now. Call it after each join.
func (p *Pipeline) joinedLocked(g *group) {
	if len(g.members) == g.awaited {
		g.awaited = 0
		p.awaiting.full <- struct{}{} // never blocks: a group sends one value
	}
}
