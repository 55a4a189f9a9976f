package brock

import (
	"sync/atomic"
	"time"
)

// clock is Options.Now, until forget is called.
type clock struct {
	tell atomic.Pointer[func() time.Time] // never nil
}

func newClock(user func() time.Time) *clock {
	c := new(clock)
	if c.forget(); user != nil {
		c.tell.Store(&user)
	}
	return c
}

func (c *clock) now() time.Time { return (*c.tell.Load())() }

// forget lets go of the user's function.
func (c *clock) forget() {
	system := time.Now
	c.tell.Store(&system)
}
