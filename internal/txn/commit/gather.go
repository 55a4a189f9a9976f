package commit

import (
	"runtime"
	"time"
)

// Bounds of gathering.
const (
	stillTurns = 2                      // yields without a new member after which gathering ends
	slowTurn   = 100 * time.Microsecond // a yield that takes longer ran other work than commits
	memberTurn = 20 * time.Microsecond  // that a yield may take longer for each new member
	loneMin    = 32                     // groups of one member, after which one group is held open
	loneMax    = 1 << 12                // the number doubles up to this while nobody joins
)

// gathering decides when a group is held open for more members. The current leader owns it.
type gathering struct {
	now     func() time.Time // nil: no group is held open
	company int              // members of the group before
	busy    backoff          // after slow yields
	lone    int              // groups of one member in a row
	look    int              // how many of them until one is held open; loneMin if it is less
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
	p.mu.Lock()
	size, waited := len(g.members), g.wake != nil
	p.mu.Unlock()
	if !a.due(waited) || p.awaitComplete(g) {
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

// slow reports whether a yield took longer than the work of the members that it brought. If
// so, the next groups are not held open.
func (a *gathering) slow(took time.Duration, came int) bool {
	if took <= slowTurn+time.Duration(came)*memberTurn {
		return false
	}
	a.busy.countFailure()
	return true
}

// due reports whether the next group is to be held open. waited: a member of it has waited,
// so there are other committers.
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
