package commit

import (
	"runtime"
	"time"
)

// Bounds of gathering.
const (
	stillTurns = 2                      // turns of the scheduler without a new member that end it
	slowTurn   = 100 * time.Microsecond // a longer turn was spent on other work
	memberTurn = 20 * time.Microsecond  // by which a turn may be longer for each member that it brings
	loneMin    = 32                     // groups of one after which one is held open
	loneMax    = 1 << 12                // and if that brings nobody; the number doubles
)

// gathering decides when a group is held open for company. It passes on with the leadership.
type gathering struct {
	now     func() time.Time // nil: no group is held open
	company int              // transactions in the group before
	busy    backoff          // after slow turns
	lone    int              // groups of one in a row
	look    int              // what lone must reach until one is held open, if it is more than loneMin
}

// gather holds g open for a moment if other committers are active. Those whose
// group has just been finished are awake but have not run yet. If they run now,
// they bring their next transaction to this group, rather than to a second group
// that would alternate with it. With 64 writers that doubles the commits a sync.
//
// A lone writer does not wait, or only now and then: others may be ready to run, and
// come to nothing because its commits, unsynced, never give its processor up.
//
// In a process that is busy with other work, one turn of the scheduler may take
// many milliseconds, during which nobody commits. So the first slow turn ends
// the gathering, of this group and of the next 16; of up to 65,536 if more than every
// sixth turn is slow.
func (p *Pipeline) gather(g *group) {
	a := &p.gathering
	if a.now == nil {
		return
	}
	p.mu.Lock()
	size, waited := len(g.members), g.wake != nil
	p.mu.Unlock()
	if !a.due(waited) || p.await(g) {
		return
	}
	// Yield rather than sleep: the other committers are ready to run.
	for still := 0; still < stillTurns; still++ {
		began := a.now()
		runtime.Gosched()
		took := a.now().Sub(began)
		p.mu.Lock()
		came := len(g.members) - size
		p.mu.Unlock()
		if size += came; came > 0 {
			still = -1
		}
		if a.slow(took, came) {
			return
		}
	}
	a.busy.worked()
}

// slow reports whether a turn was spent on other work, and has the next groups not held
// open if so. What brings members is their own work, which would have to be done anyway.
func (a *gathering) slow(took time.Duration, came int) bool {
	if took <= slowTurn+time.Duration(came)*memberTurn {
		return false
	}
	a.busy.failed()
	return true
}

// due reports whether the next group is held open. waited says that it has a member
// that has waited.
func (a *gathering) due(waited bool) bool {
	if a.busy.skips() {
		return false
	}
	if waited || a.company > 1 {
		a.lone, a.look = 0, 0
		return true
	}
	if a.lone++; a.lone < max(a.look, loneMin) {
		return false
	}
	a.lone, a.look = 0, min(2*max(a.look, loneMin), loneMax)
	return true
}
