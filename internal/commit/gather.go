package commit

import (
	"runtime"
	"time"
)

// Bounds of gathering.
const (
	stillTurns = 2                      // turns of the scheduler that bring nobody end it
	slowTurn   = 100 * time.Microsecond // a turn that took longer was spent on somebody else's work
	hurryMin   = 256                    // groups that are not held open after a slow turn
	hurryMax   = 1 << 16                // as many after one slow turn upon the other
)

// gathering is when to wait for company; it passes on with the leadership.
type gathering struct {
	company int // how many shared the group before
	hurried int // so many groups are not held open
	hurry   int // what hurried is set to by a slow turn, if it is more than hurryMin
}

// gather holds g open for a moment if other committers are about. Those whose
// group has just been finished are awake but have not run yet; let them, and
// they bring their next transaction to this group instead of to a second one
// that would alternate with it. That doubles the commits a sync with 64
// writers. A lone writer does not wait: there is nobody to wait for.
//
// In a process that is busy with other work a turn of the scheduler may take
// many milliseconds, during which nobody commits. So the first slow turn ends
// the gathering, of this group and of many after it.
func (p *Pipeline) gather(g *group) {
	a := &p.leader.gathering
	if p.cfg.Now == nil {
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
	for still := 0; still < stillTurns; {
		began := p.cfg.Now()
		runtime.Gosched()
		if p.cfg.Now().Sub(began) > slowTurn {
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
