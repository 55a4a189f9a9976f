package jobs

// Step runs the first waiting task of a manual pool (Options.Manual: tests run tasks one by one) on
// the caller's goroutine. ok is false if none waits, or the pool is closed.
func (p *Pool) Step() (task string, ok bool, err error) {
	p.mu.Lock()
	t := p.takeTaskLocked()
	p.mu.Unlock()
	if t == nil {
		return "", false, nil
	}
	err = p.runOne(t)
	p.mu.Lock()
	p.countEndLocked(t)
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

// Ring fires the alarms of a manual pool that are set, but for idle ones, and returns how many
// there were.
func (p *Pool) Ring() int { return p.ringAlarms(false) }

// Idle fires the idle alarms that are set, as if the store had been idle for long enough.
func (p *Pool) Idle() int { return p.ringAlarms(true) }

func (p *Pool) ringAlarms(idle bool) int {
	p.mu.Lock()
	var due []*Alarm
	for a := range p.alarms {
		if idle == (a.quiet > 0) {
			a.touched.Store(false)
			due = append(due, a)
		}
	}
	p.mu.Unlock()
	for _, a := range due {
		a.ring()
	}
	return len(due)
}
