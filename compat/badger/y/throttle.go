package y

import "sync"

// Throttle bounds how many workers run at a time and keeps the first error of one. Do goes before
// each worker, Done at its end, Finish after all.
type Throttle struct {
	slots   chan struct{}
	running sync.WaitGroup

	mu  sync.Mutex
	err error // the first one that Done got
}

// NewThrottle returns a Throttle for at most n workers at a time.
func NewThrottle(n int) *Throttle { return &Throttle{slots: make(chan struct{}, n)} }

// Do waits for a free slot and takes it. It returns the error of an earlier worker instead, if there
// was one; then no slot is taken, and Done must not be called.
func (t *Throttle) Do() error {
	if err := t.failed(); err != nil {
		return err
	}
	t.slots <- struct{}{}
	if err := t.failed(); err != nil {
		<-t.slots
		return err
	}
	t.running.Add(1)
	return nil
}

// Done ends a worker that Do let start. It panics if there was none.
func (t *Throttle) Done(err error) {
	t.mu.Lock()
	if t.err == nil {
		t.err = err
	}
	t.mu.Unlock()
	select {
	case <-t.slots:
	default:
		panic("Throttle Do Done mismatch")
	}
	t.running.Done()
}

// Finish waits for all workers and returns the first error of one. It may be called again.
func (t *Throttle) Finish() error {
	t.running.Wait()
	return t.failed()
}

func (t *Throttle) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
