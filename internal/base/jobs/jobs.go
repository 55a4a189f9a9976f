// Package jobs runs background work: a bounded number of goroutines, by
// priority, that exist only while there is work. A pool with nothing to do has
// no goroutine and no timer.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
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

	began  time.Time      // times of alarms are counted from here
	active sync.WaitGroup // one for each task that runs

	mu       sync.Mutex          // guards what follows
	tasks    []*Task             // all of them
	queue    [priorities][]*Task // tasks that wait, by priority, oldest first
	running  [priorities]int     // how many tasks run now, by priority
	closed   bool                // no task begins any more
	alarms   map[*Alarm]struct{} // those that are set
	failures int64               // how many runs have failed in a way that passes
}

// New returns a Pool; it owns no goroutine before the first Kick.
func New(o Options) *Pool {
	o.Workers = max(cmp.Or(o.Workers, 2), 1)
	p := &Pool{o: o, began: time.Now(), alarms: make(map[*Alarm]struct{})}
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
	again    *Alarm // set while the task waits for its next try after a failure that may pass

	// Guarded by pool.mu.
	queued, running bool
	failed          error         // of the first of the last runs in a row that failed in a way that passes; nil: none
	pause           time.Duration // before the next try, doubled with each failure
}

// Task makes a task that calls run, whose context ends with Close.
func (p *Pool) Task(priority Priority, name string, run func(context.Context) error) *Task {
	t := &Task{pool: p, name: name, priority: priority, run: run}
	t.again = p.Alarm(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks = append(p.tasks, t)
	return t
}

// Kick has the task run once more, from its start, after this call. Kicks that
// come before that run begins share it; if the task waits for its next try after a
// failure, that is the run. It never waits; after Close it does nothing.
func (t *Task) Kick() {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || t.queued || t.again.Armed() {
		return
	}
	// Also while it runs: what has changed since that run began needs another one.
	t.queued = true
	p.queue[t.priority] = append(p.queue[t.priority], t)
	p.startWorkersLocked()
}

// startWorkersLocked starts workers, as many as may run and have work.
func (p *Pool) startWorkersLocked() {
	if p.o.Manual {
		return
	}
	for {
		t := p.takeTaskLocked()
		if t == nil {
			return
		}
		go p.runTasks(t)
	}
}

// takeTaskLocked takes the first task that may run now off the queue.
func (p *Pool) takeTaskLocked() *Task {
	if p.closed {
		return nil
	}
	// A task that runs already stays in the queue until it has ended, and lets others
	// pass.
	for priority := range p.queue {
		if !p.hasWorkerLocked(Priority(priority)) {
			continue
		}
		for i, t := range p.queue[priority] {
			if !t.running {
				p.queue[priority] = slices.Delete(p.queue[priority], i, i+1)
				t.queued, t.running = false, true
				p.running[priority]++
				p.active.Add(1)
				return t
			}
		}
	}
	return nil
}

// hasWorkerLocked reports whether one more task of this priority may run.
func (p *Pool) hasWorkerLocked(priority Priority) bool {
	low := p.running[Compaction] + p.running[Cleanup]
	switch {
	case priority == Brief:
		return p.running[Brief] == 0
	case p.running[Flush]+low >= p.o.Workers:
		return false
	}
	// The last free worker is kept for a flush: else writers would stand still until a long
	// compaction has ended.
	return priority == Flush || p.o.Workers == 1 || low < p.o.Workers-1
}

// runTasks runs t and then whatever else may run, until there is nothing.
func (p *Pool) runTasks(t *Task) {
	// One goroutine runs task after task, and ends when the queue is empty: a quiet
	// pool has none.
	for t != nil {
		_ = p.runOne(t)
		p.mu.Lock()
		p.countEndLocked(t)
		t = p.takeTaskLocked()
		p.startWorkersLocked()
		p.mu.Unlock()
	}
}

// runOne runs t once, and reports its error.
func (p *Pool) runOne(t *Task) error {
	began := time.Now()
	err := t.run(p.ctx)
	t.noteEnd(err, began)
	// Errors of tasks that Close has cancelled tell nothing.
	if err != nil && p.o.OnError != nil && !(p.ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		p.o.OnError(t.name, err)
	}
	return err
}

// countEndLocked counts t as ended.
func (p *Pool) countEndLocked(t *Task) {
	t.running = false
	p.running[t.priority]--
	p.active.Done()
}

// Close forgets what waits, cancels the context of what runs, and waits for that to end. Nothing
// starts after Close, and no timer stays behind.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	// Tasks look at the context between steps, and end soon.
	p.cancel()
	clear(p.queue[:])
	for a := range p.alarms {
		a.stopTimerLocked()
	}
	p.mu.Unlock()
	p.active.Wait()
}

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
	if passes {
		p.failures++
		t.failed, t.pause = cmp.Or(t.failed, err), min(max(2*t.pause, leastPause), mostPause)
	} else {
		t.failed, t.pause = nil, 0
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
