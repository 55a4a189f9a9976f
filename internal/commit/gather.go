package commit

import (
	"runtime"
	"time"
)

// Bounds of gathering.
const (
	stillTurns = 2                      // turns of the scheduler without a new member that end it
	slowTurn   = 100 * time.Microsecond // a longer turn was spent on other work
	hurryMin   = 256                    // groups that are not held open after a slow turn
	hurryMax   = 1 << 16                // and after many slow turns in a row; the number doubles
)

// gathering decides when a group is held open for company. It passes on with the leadership.
type gathering struct {
	now     func() time.Time // nil: no group is held open
	company int              // transactions in the group before
	hurried int              // groups left that are not held open
	hurry   int              // what a slow turn sets hurried to, if it is more than hurryMin
}

// gather holds g open for a moment if other committers are active. Those whose
// group has just been finished are awake but have not run yet. If they run now,
// they bring their next transaction to this group, rather than to a second group
// that would alternate with it. With 64 writers that doubles the commits a sync.
// A lone writer does not wait.
//
// In a process that is busy with other work, one turn of the scheduler may take
// many milliseconds, during which nobody commits. So the first slow turn ends
// the gathering, of this group and of the next 256 to 65,536.
func (p *Pipeline) gather(g *group) {
	a := &p.gathering
	if a.now == nil {
		return
	}
	if a.hurried > 0 {
		a.hurried--
		return
	}
	p.mu.Lock()
	size, waited := len(g.members), g.wake != nil
	p.mu.Unlock()
	if !waited && a.company <= 1 {
		return
	}
	// Yield rather than sleep: the other committers are ready to run.
	for still := 0; still < stillTurns; {
		began := a.now()
		runtime.Gosched()
		if a.now().Sub(began) > slowTurn {
			a.hurried = max(a.hurry, hurryMin)
			a.hurry = min(2*a.hurried, hurryMax)
			return
		}
		p.mu.Lock()
		if len(g.members) > size {
			still = 0
		} else {
			still++
		}
		size = len(g.members)
		p.mu.Unlock()
	}
	a.hurry = 0
}
