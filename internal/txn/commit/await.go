package commit

import "time"

// awaiting is the state of await. The current leader owns it; members of a group use full.
type awaiting struct {
	synced   bool          // the group before was synced
	expected int           // members of a complete group
	full     chan struct{} // gets a value when the group is complete
	timer    *time.Timer   // ends the sleep
	vain     backoff       // after sleeps that the timer has ended
}

// awaitComplete sleeps until g is complete: as many members have joined as the group before had,
// plus those that waited when it was finished. It returns false, without having slept, if
// this is not the time to try it. Then gather yields instead.
//
// Why sleep: a leader that yields (runtime.Gosched) is at once the next goroutine on its
// processor again. So it does not let goroutines run that are ready on another processor,
// which may be busy, or stopped by the system. A leader that sleeps leaves its processor
// to them.
//
// Why not always: if an expected member does not commit again, only the timer wakes the
// leader, up to about 1 ms later. So await is tried only if groups are synced, where 1 ms
// matters less, and more and more seldom if it fails.
func (p *Pipeline) awaitComplete(g *group) bool {
	a := &p.awaiting
	if !a.synced || a.vain.skips() {
		return false
	}
	p.mu.Lock()
	missing := a.expected - len(g.members)
	if missing > 0 {
		g.awaited = a.expected
	}
	p.mu.Unlock()
	if missing <= 0 {
		return true
	}
	limit := slowTurn + time.Duration(missing)*memberTurn
	if a.timer == nil {
		a.timer = time.NewTimer(limit)
	} else {
		a.timer.Reset(limit)
	}
	select {
	case <-a.full:
		a.timer.Stop()
		a.vain.worked()
	case <-a.timer.C:
		p.mu.Lock()
		late := g.awaited == 0 // the last one came this moment
		g.awaited = 0
		p.mu.Unlock()
		if late {
			<-a.full
		}
		a.vain.countFailure()
	}
	return true
}

// joinedLocked wakes the leader of g if it sleeps and g is complete now.
func (p *Pipeline) joinedLocked(g *group) {
	if len(g.members) == g.awaited {
		g.awaited = 0
		p.awaiting.full <- struct{}{} // it has room for the one value
	}
}
