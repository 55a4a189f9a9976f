package jobs

import (
	"sync/atomic"
	"time"
)

// Alarm kicks a task at a time that may be brought forward. Its timer exists
// only while a kick is to come.
type Alarm struct {
	task *Task
	at   atomic.Int64 // nanoseconds after pool.began; 0: it is not set

	timer *time.Timer // guarded by task.pool.mu
}

// Alarm makes an alarm that kicks t. A manual pool has no timers: its Ring kicks.
func (p *Pool) Alarm(t *Task) *Alarm { return &Alarm{task: t} }

// maxAlarm bounds one wait, since the system's clock may be set and timers may
// sleep with the machine. So an alarm may ring early: its task must look whether
// there is something to do.
const maxAlarm = time.Hour

// Set makes the alarm ring once: after d, or earlier if it was set to ring earlier.
// Calls that change nothing take no lock.
func (a *Alarm) Set(d time.Duration) {
	d = min(max(d, 0), maxAlarm)
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

// Left is how long it is until the alarm rings; false if it does not.
func (a *Alarm) Left() (time.Duration, bool) {
	at := a.at.Load()
	return time.Duration(at) - time.Since(a.task.pool.began), at != 0
}

// Stop cancels the alarm.
func (a *Alarm) Stop() {
	if a.at.Load() == 0 {
		return
	}
	a.task.pool.mu.Lock()
	defer a.task.pool.mu.Unlock()
	a.stopLocked()
}

// stopLocked ends the timer and forgets the time.
func (a *Alarm) stopLocked() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	delete(a.task.pool.alarms, a)
	a.at.Store(0)
}

// ring kicks the task when the timer ends.
func (a *Alarm) ring() {
	p := a.task.pool
	p.mu.Lock()
	// Stop may have come between the timer's end and the lock.
	on := !p.closed && a.at.Load() != 0
	a.stopLocked()
	p.mu.Unlock()
	if on {
		a.task.Hurry()
	}
}

// Ring makes all alarms of a manual pool ring that are set, and returns how many there were.
func (p *Pool) Ring() int {
	p.mu.Lock()
	var on []*Alarm
	for a := range p.alarms {
		on = append(on, a)
	}
	p.mu.Unlock()
	for _, a := range on {
		a.ring()
	}
	return len(on)
}
