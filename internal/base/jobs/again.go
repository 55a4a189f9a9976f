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

// Hurry is Kick for a task that may be waiting for its next try: it runs at once.
func (t *Task) Hurry() {
	t.again.Stop() // Kick does nothing while the alarm is set
	t.Kick()
}

// noteEnd is called after each run, with its error. If the failure may pass, it sets the time of
// the next try.
func (t *Task) noteEnd(err error, began time.Time) {
	p := t.pool
	passes := err != nil && p.o.Passes != nil && p.o.Passes(err)
	p.mu.Lock()
	failed := t.failed != nil
	switch {
	case !passes:
		t.failed, t.pause = nil, 0
	case !failed:
		t.failed = err
	}
	if passes {
		p.failures++
		t.pause = min(max(2*t.pause, leastPause), mostPause)
	}
	pause := t.pause
	// OnFailing is called without the lock: it may call Kick.
	p.mu.Unlock()
	if passes {
		// See above: as long as the run was, at least.
		t.again.Set(max(pause, time.Since(began)))
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
	for _, t := range p.tasks {
		if t.failed != nil {
			lines = append(lines, t.name+": "+t.failed.Error())
		}
	}
	slices.Sort(lines)
	return p.failures, strings.Join(lines, "; ")
}
