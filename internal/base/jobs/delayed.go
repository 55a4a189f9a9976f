package jobs

import (
	"sync/atomic"
	"time"
)

// Delayed kicks a task once nothing has touched it for a while. Its timer
// exists only while a kick is to come.
type Delayed struct {
	task  *Task
	delay time.Duration

	armed   atomic.Bool // a timer runs
	touched atomic.Bool // Touch was called since the timer was set

	timer *time.Timer // guarded by task.pool.mu
}

// Delayed makes a trigger that kicks t when delay has passed since the last
// Touch, and at most twice that. A manual pool has no timers: its Idle kicks.
func (p *Pool) Delayed(t *Task, delay time.Duration) *Delayed {
	return &Delayed{task: t, delay: delay}
}

// Arm begins the delay unless a timer runs already. Unlike Touch it doesn't put off
// a kick that is to come. It costs as little as Touch.
func (d *Delayed) Arm() {
	if !d.armed.Load() {
		d.arm()
	}
}

// Touch begins the delay anew. It may be called for each write: while the timer
// runs, it reads two shared words and seldom writes them.
func (d *Delayed) Touch() {
	// Written only where that changes it: each write of the store comes by here.
	if !d.touched.Load() {
		d.touched.Store(true)
	}
	if !d.armed.Load() {
		d.arm()
	}
}

// arm starts the timer, unless one runs.
func (d *Delayed) arm() {
	p := d.task.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || d.armed.Load() {
		return
	}
	d.touched.Store(false)
	d.armed.Store(true)
	p.delayed[d] = struct{}{}
	if !p.o.Manual {
		d.timer = time.AfterFunc(d.delay, d.fire)
	}
}

// Armed reports whether a kick is to come.
func (d *Delayed) Armed() bool { return d.armed.Load() }

// Stop forgets the kick to come, if there is one.
func (d *Delayed) Stop() {
	d.task.pool.mu.Lock()
	defer d.task.pool.mu.Unlock()
	d.stopLocked()
}

// stopLocked stops the timer, if one runs.
func (d *Delayed) stopLocked() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	delete(d.task.pool.delayed, d)
	d.armed.Store(false)
}

// fire runs when the timer ends: touched meanwhile, it waits once more.
func (d *Delayed) fire() {
	p := d.task.pool
	p.mu.Lock()
	// Stop came between the timer's end and the lock.
	if p.closed || d.timer == nil {
		p.mu.Unlock()
		return
	}
	// One timer for any number of touches: it is set again here, not by Touch.
	if d.touched.Swap(false) {
		d.timer.Reset(d.delay)
		p.mu.Unlock()
		return
	}
	d.stopLocked()
	p.mu.Unlock()
	d.task.Kick()
	// A Touch that saw the timer just before it was stopped must not be lost.
	if d.touched.Load() {
		d.Touch()
	}
}
