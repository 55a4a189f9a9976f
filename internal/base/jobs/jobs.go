// Package jobs runs background work: a bounded number of goroutines, by
// priority, that exist only while there is work. A pool with nothing to do has
// no goroutine and no timer.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Priority orders waiting work; lower values go first.
type Priority int

// The priorities.
const (
	Brief Priority = iota // takes milliseconds, and has a worker of its own
	Flush
	Compaction
	Cleanup

	priorities
)

// Options says how a Pool works. The zero value is good.
type Options struct {
	// Workers is how many tasks may run at once; 0 = 2, at least 1. With two or
	// more, the last free one is kept for Flush: a flush never waits for a compaction.
	// One Brief task may run besides.
	Workers int
	// Manual pools run nothing by themselves: tests call Step, Idle and Ring.
	Manual bool
	// OnError gets the error of each run of a task that failed, on the
	// goroutine of the task; nil = errors are dropped. It may call Kick, not
	// Close. Errors that follow from Close are not reported.
	OnError func(task string, err error)
	// Passes says of the error of a task whether it may pass. If so, the pool runs the
	// task again, after a pause that grows, until a run succeeds or fails otherwise.
	// nil = no error does.
	Passes func(err error) bool
	// OnFailing is called, as OnError is, with the error of the first of such runs, and
	// with nil when the task has succeeded again; nil = nobody is told.
	OnFailing func(task string, err error)
}

// Pool runs tasks. Its methods may be called by any goroutine, but a task must
// not close its own pool.
type Pool struct {
	o      Options
	ctx    context.Context // cancelled by Close
	cancel context.CancelFunc

	mu      sync.Mutex          // guards what follows
	queue   [priorities][]*Task // tasks that wait, by priority, oldest first
	running int                 // tasks that run now
	brief   int                 // how many of them are Brief
	low     int                 // how many of them are neither Brief nor Flush
	closed  bool
	delayed map[*Delayed]struct{} // those with a kick to come
	alarms  map[*Alarm]struct{}   // those that are set
	began   time.Time             // times of alarms are counted from here
	changed chan struct{}         // closed, and replaced, when a task ends

	failing  map[*Task]failing // tasks whose last failure may pass
	failures int64             // how many runs have failed so
}

// New returns a Pool; it owns no goroutine before the first Kick.
func New(o Options) *Pool {
	o.Workers = max(cmp.Or(o.Workers, 2), 1)
	p := &Pool{o: o, delayed: make(map[*Delayed]struct{}), alarms: make(map[*Alarm]struct{}), began: time.Now(), changed: make(chan struct{}), failing: make(map[*Task]failing)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Task is work that may have to be done again and again. It never runs twice at
// the same time.
type Task struct {
	pool     *Pool
	name     string
	priority Priority
	run      func(context.Context) error
	again    *Alarm // rings for the next try after a failure that may pass

	// Guarded by pool.mu.
	queued, running bool
	waits           bool // for again
}

// Task makes a task that calls run, whose context ends with Close.
func (p *Pool) Task(priority Priority, name string, run func(context.Context) error) *Task {
	t := &Task{pool: p, name: name, priority: min(max(priority, Brief), Cleanup), run: run}
	t.again = p.Alarm(t)
	return t
}

// Kick has the task run once more, from its start, after this call. Kicks that
// come before that run begins share it; if the task waits for its next try after a
// failure, that is the run. It never waits; after Close it does nothing.
func (t *Task) Kick() {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || t.queued || t.waits {
		return
	}
	// Also while it runs: what has changed since that run began needs another one.
	t.queued = true
	p.queue[t.priority] = append(p.queue[t.priority], t)
	p.startLocked()
}

// startLocked starts workers, as many as may run and have work.
func (p *Pool) startLocked() {
	if p.o.Manual {
		return
	}
	for {
		t := p.takeLocked()
		if t == nil {
			return
		}
		go p.runTasks(t)
	}
}

// takeLocked takes the first task that may run now off the queue.
func (p *Pool) takeLocked() *Task {
	if p.closed {
		return nil
	}
	// A task that runs already stays in the queue until it has ended, and lets others
	// pass.
	for priority := range p.queue {
		if !p.roomLocked(Priority(priority)) {
			continue
		}
		for i, t := range p.queue[priority] {
			if !t.running {
				p.queue[priority] = slices.Delete(p.queue[priority], i, i+1)
				p.beginLocked(t)
				return t
			}
		}
	}
	return nil
}

// roomLocked reports whether one more task of this priority may run.
func (p *Pool) roomLocked(priority Priority) bool {
	switch {
	case priority == Brief:
		return p.brief == 0
	case p.running-p.brief >= p.o.Workers:
		return false
	}
	// The last free worker is kept for a flush: else writers would stand still until a long
	// compaction has ended.
	return priority == Flush || p.o.Workers == 1 || p.low < p.o.Workers-1
}

// beginLocked counts t as running.
func (p *Pool) beginLocked(t *Task) {
	t.queued, t.running = false, true
	p.running++
	p.countLocked(t.priority, 1)
}

// countLocked adds n to the count for this priority.
func (p *Pool) countLocked(priority Priority, n int) {
	switch {
	case priority == Brief:
		p.brief += n
	case priority != Flush:
		p.low += n
	}
}

// runTasks runs t and then whatever else may run, until there is nothing.
func (p *Pool) runTasks(t *Task) {
	// One goroutine runs task after task, and ends when the queue is empty: a quiet
	// pool has none.
	for t != nil {
		_ = p.runOne(t)
		p.mu.Lock()
		p.endLocked(t)
		t = p.takeLocked()
		p.startLocked()
		p.mu.Unlock()
	}
}

// runOne runs t once, and reports its error.
func (p *Pool) runOne(t *Task) error {
	began := time.Now()
	err := t.run(p.ctx)
	t.ended(err, began)
	// Errors of tasks that Close has cancelled tell nothing.
	if err != nil && p.o.OnError != nil && !(p.ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		p.o.OnError(t.name, err)
	}
	return err
}

// endLocked counts t as ended, and wakes those who wait for that.
func (p *Pool) endLocked(t *Task) {
	t.running = false
	p.running--
	p.countLocked(t.priority, -1)
	close(p.changed)
	p.changed = make(chan struct{})
}

// Close forgets what waits, cancels the context of what runs, and waits for
// that to end. If ctx ends first, its error is returned and the tasks end
// later; Close may be called again. Nothing starts after Close.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Timers are stopped, too: nothing of a closed pool stays behind.
	p.closed = true
	// Tasks look at the context between steps, and end soon.
	p.cancel()
	clear(p.queue[:])
	for d := range p.delayed {
		d.stopLocked()
	}
	for a := range p.alarms {
		a.stopLocked()
	}
	for p.running > 0 {
		// Taken under the lock: a task that ends right after Unlock closes this very channel.
		changed := p.changed
		p.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		p.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}
