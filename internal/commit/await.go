package commit

import "time"

// awaiting is how a leader sleeps until its group is complete. It passes on with the
// leadership.
type awaiting struct {
	synced   bool          // the group before was synced
	expected int           // members of a complete group
	full     chan struct{} // gets a value when the group is complete
	timer    *time.Timer   // ends the sleep
	vain     backoff
}

// await sleeps until all have joined g who are expected: those of the group before and
// those who waited when it was finished. It reports false if that is not tried, and then
// has taken no time.
//
// A leader that yields to the scheduler keeps a processor from the goroutines that are
// ready on another one: what is next for the processor is the leader. So it asks in vain
// while the other processor works, or does not run at all because the machine is busy.
// One that sleeps leaves its processor to them. But only a timer wakes it if one of them
// does something else now, and that may take a millisecond. So it is tried only where
// groups are synced, and ever more seldom when it fails.
func (p *Pipeline) await(g *group) bool {
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
		a.vain.failed()
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
