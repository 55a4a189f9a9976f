package brock

import (
	"sync/atomic"
	"time"
)

// clock is Options.Now, until forget is called.
type clock struct {
	user atomic.Pointer[func() time.Time] // nil: time.Now
}

func newClock(user func() time.Time) *clock {
	c := new(clock)
	if user != nil {
		c.user.Store(&user)
	}
	return c
}

func (c *clock) now() time.Time {
	if user := c.user.Load(); user != nil {
		return (*user)()
	}
	return time.Now()
}

// forget lets go of the user's function.
func (c *clock) forget() { c.user.Store(nil) }
