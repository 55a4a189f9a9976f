package jobs

import (
	"sync"
	"time"
)

// Calls makes calls one at a time, in the order in which they were added. Each has a
// goroutine, so that there is none while no call waits. Nobody but Drain waits for a
// call. The zero value is ready. A call that panics ends the program, as in any
// goroutine.
type Calls struct {
	mu       sync.Mutex
	waiting  []func()      // oldest first
	returned chan struct{} // closed when the call that runs has ended; nil: none runs
	dropped  int64         // how many calls were never made
}

// maxCalls is how many calls wait at most. When one more is added, the oldest is
// dropped: to a reader that is late, the newest events matter most.
const maxCalls = 1024

// Add queues call behind all calls that were added before. It never waits.
func (c *Calls) Add(call func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == maxCalls {
		c.takeOldestLocked()
		c.dropped++
	}
	c.waiting = append(c.waiting, call)
	if c.returned == nil {
		c.makeNextLocked()
	}
}

// takeOldestLocked takes the oldest call that waits.
func (c *Calls) takeOldestLocked() func() {
	call := c.waiting[0]
	// Else the array would keep what the call refers to.
	c.waiting[0] = nil
	c.waiting = c.waiting[1:]
	return call
}

// makeNextLocked makes the next call, if one waits.
func (c *Calls) makeNextLocked() {
	if c.returned = nil; len(c.waiting) == 0 {
		c.waiting = nil // its array goes, too: nothing is kept while nothing happens
		return
	}
	returned := make(chan struct{})
	c.returned = returned
	call := c.takeOldestLocked()
	go func() {
		// Deferred, so that a call which ends its goroutine does not stop the others.
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			close(returned) // Drain waits for it
			c.makeNextLocked()
		}()
		call()
	}()
}

// Drain returns when all calls have ended. If one takes longer than patience, or all of
// them five times that, Drain gives up, and drops those that wait. So it ends even if
// it is called by a call.
func (c *Calls) Drain(patience time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := time.Now().Add(5 * patience)
	for c.returned != nil {
		returned, late := c.returned, time.NewTimer(min(patience, time.Until(end)))
		// Calls must be able to end, and to add others.
		c.mu.Unlock()
		gaveUp := false
		select {
		case <-returned:
			late.Stop()
		case <-late.C:
			gaveUp = true
		}
		c.mu.Lock()
		if gaveUp {
			c.dropped += int64(len(c.waiting))
			c.waiting = nil
			return
		}
	}
}

// Dropped returns the number of calls that were dropped.
func (c *Calls) Dropped() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}
