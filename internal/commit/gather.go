package commit

import (
	"runtime"
	"time"
)

// Bounds of gathering.
const (
	yieldsStill  = 2                      // a group is held open until so many turns of the scheduler brought nobody
	yieldSlow    = 100 * time.Microsecond // a turn that took longer was spent on somebody else's work
	hurriedAfter = 256                    // groups that are then not held open
)

// gather holds g open for a moment if other committers are about. Those whose
// group has just been finished are awake but have not run yet; let them, and
// they bring their next transaction to this group instead of to a second one
// that would alternate with it. That doubles the commits a sync with 64
// writers, and costs a lone writer nothing, for there is nobody to wait for.
//
// A process that is busy with other work would make each turn long, so a slow
// one ends the gathering of this group and of some after it.
func (p *Pipeline) gather(g *group) {
	l := &p.leader
	if l.hurried > 0 {
		l.hurried--
		return
	}
	p.mu.Lock()
	size, waited := len(g.members), g.wake != nil
	p.mu.Unlock()
	if !waited && l.company <= 1 {
		return
	}
	for still := 0; still < yieldsStill; {
		if p.yield() {
			l.hurried = hurriedAfter
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
}

// yield lets other goroutines run and reports whether that took long.
func (p *Pipeline) yield() (slow bool) {
	if p.cfg.Now == nil {
		runtime.Gosched()
		return false
	}
	began := p.cfg.Now()
	runtime.Gosched()
	return p.cfg.Now().Sub(began) > yieldSlow
}
