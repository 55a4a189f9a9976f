package jobs

import (
	"slices"
	"strings"
	"time"
)

// A task whose failure passes runs again after a pause, which doubles with each failure.
// A pause is at least as long as the run was, so that work which fails late takes at
// most half of the time.
const (
	leastPause = 10 * time.Millisecond
	mostPause  = time.Second // of runs that fail at once
)

// failing is the state of a task whose last run has failed in a way that may pass. Guarded by
// Pool.mu.
type failing struct {
	err   error         // of the first of the runs that failed
	pause time.Duration // before the next try, doubled with each failure
}

// Hurry is Kick for a task that may be waiting for its next try: it runs at once.
func (t *Task) Hurry() {
	t.pool.mu.Lock()
	// Kick does nothing while the task waits.
	t.waits = false
	t.pool.mu.Unlock()
	t.Kick()
}

// ended is called after each run, with its error. If the failure may pass, it sets the time of
// the next try.
func (t *Task) ended(err error, began time.Time) {
	p := t.pool
	passes := err != nil && p.o.Passes != nil && p.o.Passes(err)
	p.mu.Lock()
	f, failed := p.failing[t]
	t.waits = passes
	if passes {
		f.pause = min(max(2*f.pause, leastPause), mostPause)
		if p.failures++; !failed {
			f.err = err
		}
		p.failing[t] = f
	} else {
		delete(p.failing, t)
	}
	// OnFailing is called without the lock: it may call Kick.
	p.mu.Unlock()
	if passes {
		// See above: as long as the run was, at least.
		t.again.Set(max(f.pause, time.Since(began)))
	} else {
		t.again.Stop()
	}
	if begun, over := passes && !failed, failed && err == nil; (begun || over) && p.o.OnFailing != nil {
		p.o.OnFailing(t.name, err)
	}
}

// Failing returns how many runs have failed in a way that passes, and which tasks wait
// for their next try because of that, with the reason.
func (p *Pool) Failing() (runs int64, waiting string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	for t, f := range p.failing {
		lines = append(lines, t.name+": "+f.err.Error())
	}
	slices.Sort(lines)
	return p.failures, strings.Join(lines, "; ")
}
