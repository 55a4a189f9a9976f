package jobs

import "sync/atomic"

// Bell wakes all who wait for something to happen. While nobody waits, Ring costs one load. The zero
// value is ready to use; any number of goroutines may use it.
type Bell struct {
	waiting atomic.Pointer[chan struct{}] // closed by the next Ring; nil: nobody waits
}

// Wait returns a channel that the next Ring closes. Whoever waits takes the channel first, then looks
// whether there is something to do, and then waits: so no Ring is missed.
func (b *Bell) Wait() <-chan struct{} {
	made := make(chan struct{})
	for {
		if c := b.waiting.Load(); c != nil {
			return *c
		}
		if b.waiting.CompareAndSwap(nil, &made) {
			return made
		}
	}
}

// Ring wakes all who wait.
func (b *Bell) Ring() {
	if b.waiting.Load() == nil {
		return
	}
	if c := b.waiting.Swap(nil); c != nil {
		close(*c)
	}
}
