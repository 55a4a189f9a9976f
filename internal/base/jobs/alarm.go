package jobs

import (
	"sync/atomic"
	"time"
)

// Alarm kicks a task at a time to come: Set brings that time forward, and Touch puts it off. Its
// timer exists only while a kick is to come.
type Alarm struct {
	task  *Task
	quiet time.Duration // from the last Touch to the kick; 0: only Set is used

	at      atomic.Int64 // when it rings, in nanoseconds after pool.began; 0: it is not set
	touched atomic.Bool  // Touch was called since the timer was set

	timer *time.Timer // nil: none runs; guarded by task.pool.mu
}

// Alarm makes an alarm that kicks t. A manual pool has no timers: its Ring kicks.
func (p *Pool) Alarm(t *Task) *Alarm { return &Alarm{task: t} }

// IdleAlarm makes an alarm that kicks t once quiet has passed since the last Touch, and at most
// twice that. A manual pool has no timers: its Idle kicks.
func (p *Pool) IdleAlarm(t *Task, quiet time.Duration) *Alarm { return &Alarm{task: t, quiet: quiet} }

// maxAlarm bounds one wait for a time by the clock, since the system's clock may be set and timers
// may sleep with the machine. So an alarm may ring early: its task must look whether there is
// something to do.
const maxAlarm = time.Hour

// Set makes the alarm ring once: after d, or earlier if it was set to ring earlier.
// Calls that change nothing take no lock.
func (a *Alarm) Set(d time.Duration) {
	d = max(d, 0)
	if a.quiet == 0 {
		d = min(d, maxAlarm)
	}
	p := a.task.pool
	// 0 means that it doesn't ring.
	at := max(int64(time.Since(p.began)+d), 1)
	// The usual call: many readers ask for a time that is no earlier.
	if now := a.at.Load(); now != 0 && now <= at {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := a.at.Load(); p.closed || now != 0 && now <= at {
		return
	}
	a.touched.Store(false)
	a.at.Store(at)
	p.alarms[a] = struct{}{}
	switch {
	case p.o.Manual:
	case a.timer != nil:
		a.timer.Reset(d)
	default:
		a.timer = time.AfterFunc(d, a.ring)
	}
}

// Arm sets an idle alarm unless it is set. Unlike Touch it doesn't put off a kick that is to come.
func (a *Alarm) Arm() {
	if !a.Armed() {
		a.Set(a.quiet)
	}
}

// Touch puts off the kick of an idle alarm. It may be called for each write: while the timer
// runs, it reads two shared words and seldom writes them.
func (a *Alarm) Touch() {
	// Written only where that changes it: each write of the store comes by here.
	if !a.touched.Load() {
		a.touched.Store(true)
	}
	// The flag comes before this look at the time, and ring does both the other way round: so a
	// Touch is either seen by ring or sets the alarm itself.
	a.Arm()
}

// Armed reports whether a kick is to come.
func (a *Alarm) Armed() bool { return a.at.Load() != 0 }

// Left is how long it is until the alarm rings; false if it does not.
func (a *Alarm) Left() (time.Duration, bool) {
	at := a.at.Load()
	return time.Duration(at) - time.Since(a.task.pool.began), at != 0
}

// Stop cancels the alarm.
func (a *Alarm) Stop() {
	if !a.Armed() {
		return
	}
	a.task.pool.mu.Lock()
	defer a.task.pool.mu.Unlock()
	a.stopTimerLocked()
}

// stopTimerLocked ends the timer and forgets the time.
func (a *Alarm) stopTimerLocked() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	delete(a.task.pool.alarms, a)
	a.at.Store(0)
}

// ring kicks the task when the timer ends. Touched meanwhile, the alarm waits once more: there is
// one timer for any number of touches.
func (a *Alarm) ring() {
	p := a.task.pool
	p.mu.Lock()
	// Stop may have come between the timer's end and the lock.
	on := !p.closed && a.Armed()
	a.stopTimerLocked()
	p.mu.Unlock()
	switch {
	case on && a.touched.Swap(false):
		a.Set(a.quiet)
	case on:
		a.task.Hurry()
	}
}
