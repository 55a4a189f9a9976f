package commit

import (
	"runtime"
	"time"
)

// Bounds of gathering.
const (
	stillTurns = 2                      // yields in a row without a new member that end gathering
	slowTurn   = 100 * time.Microsecond // a yield that takes longer ran other work than commits
	memberTurn = 20 * time.Microsecond  // a yield may take this much longer for each new member
	loneMin    = 32                     // groups of one member in a row before one is held open
	loneMax    = 1 << 12                // the number doubles up to this while nobody joins
)

// gathering decides when a group is held open for more members. The current leader owns it.
type gathering struct {
	now          func() time.Time // nil: no group is held open
	previousSize int              // members of the group before
	yieldBackoff backoff          // skips groups after slow yields
	loneGroups   int              // groups of one member in a row
	loneLimit    int              // how many of them before one is held open; loneMin if it is less
}

// gather holds g open for a moment if other committers are active. The members of the
// group that has just been finished are awake, but have not run yet. If they run now, they
// bring their next transactions to this group. Otherwise they form a second group, and the
// two alternate. With 64 writers gathering doubles the commits per sync.
//
// A lone writer does not wait, except once in 32 to 4,096 groups. Without that, other
// committers might be ready but never run, if commits without sync never give up the processor.
//
// In a process that is busy with other work, one yield to the scheduler may take many
// milliseconds, in which nobody commits. So the first slow yield ends gathering for this
// group and the next 16, and for up to 65,536 groups if more than one yield in six is slow.
func (p *Pipeline) gather(g *group) {
	a := &p.gathering
	if a.now == nil {
		return
	}
	// Members join under mu while this leader reads.
	p.mu.Lock()
	size, waited := len(g.members), g.wake != nil
	p.mu.Unlock()
	if !a.due(waited) || p.awaitComplete(g) {
		return
	}
	// Here sleeping has failed or groups are not synced. A yield costs microseconds: it lets the
	// committers run that are ready on this processor.
	for still := 0; still < stillTurns; still++ {
		began := a.now()
		runtime.Gosched()
		took := a.now().Sub(began)
		p.mu.Lock()
		came := len(g.members) - size
		p.mu.Unlock()
		if size += came; came > 0 {
			still = -1 // somebody came: there may be more, so count still yields anew
		}
		// Other work has the processors. Each further yield could cost milliseconds.
		if a.slow(took, came) {
			return
		}
	}
	a.yieldBackoff.countSuccess()
}

// slow reports whether a yield took longer than the work of the members that it brought. If
// so, the next groups are not held open.
func (a *gathering) slow(took time.Duration, came int) bool {
	if took <= slowTurn+time.Duration(came)*memberTurn {
		return false
	}
	a.yieldBackoff.countFailure()
	return true
}

// due reports whether the next group is to be held open. waited: a member of it has waited,
// so there are other committers.
func (a *gathering) due(waited bool) bool {
	if a.yieldBackoff.skips() {
		return false
	}
	// There are others, so this is no lone writer: count from the start.
	if waited || a.previousSize > 1 {
		a.loneGroups, a.loneLimit = 0, 0
		return true
	}
	if a.loneGroups++; a.loneGroups < max(a.loneLimit, loneMin) {
		return false
	}
	// Nobody joined the last group that was held open for a lone writer, if there was one: wait
	// twice as long before the next. The cost for a writer that stays alone goes to nothing.
	a.loneGroups, a.loneLimit = 0, min(2*max(a.loneLimit, loneMin), loneMax)
	return true
}
