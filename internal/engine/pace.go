package engine

import "time"

// pace has long work of an idle store give way to readers: after each step it looks whether
// somebody has read meanwhile, and pauses then. Readers of what is in memory wait for no disk,
// but for processors and their caches. It is used by one goroutine.
type pace struct {
	reads  func() int64 // how many reads there were so far
	sleep  func(time.Duration)
	now    func() time.Time
	seen   int64         // reads, when it looked last
	begun  time.Time     // the step; zero: none was begun
	paused time.Duration // in all
}

const (
	paceStep   = time.Millisecond // work between two looks, at least
	pausePart  = 3                // a pause takes this many times as long as the step before,
	longPause  = 20 * time.Millisecond
	mostPauses = 30 * time.Second // then others may wait for the work: it goes on without
)

// step is called from time to time during the work.
func (p *pace) step() {
	now := p.now()
	took := now.Sub(p.begun)
	if p.begun.IsZero() {
		p.begun, p.seen = now, p.reads()
		return
	}
	if took < paceStep || p.paused > mostPauses {
		return
	}
	if reads := p.reads(); reads != p.seen {
		p.seen = reads
		long := min(pausePart*took, longPause)
		p.sleep(long)
		p.paused, now = p.paused+long, p.now()
	}
	p.begun = now
}
