package jobs

// Step runs the first waiting task of a manual pool on the caller's goroutine.
// ok is false if none waits, or the pool is closed.
func (p *Pool) Step() (task string, ok bool, err error) {
	p.mu.Lock()
	t := p.takeLocked()
	p.mu.Unlock()
	if t == nil {
		return "", false, nil
	}
	err = p.runOne(t)
	p.mu.Lock()
	p.endLocked(t)
	p.mu.Unlock()
	return t.name, true, err
}

// Waiting names the tasks that wait to run, in the order in which they would.
func (p *Pool) Waiting() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, q := range p.queue {
		for _, t := range q {
			names = append(names, t.name)
		}
	}
	return names
}

// Idle kicks the tasks of all Delayed that are to come, as if their time had
// passed; it returns how many.
func (p *Pool) Idle() int {
	p.mu.Lock()
	var tasks []*Task
	for d := range p.delayed {
		// First all, then the kicks: a task that is kicked may set another one.
		d.stopLocked()
		tasks = append(tasks, d.task)
	}
	p.mu.Unlock()
	for _, t := range tasks {
		t.Kick()
	}
	return len(tasks)
}
