package storetest

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that a test sets.
type Clock struct {
	Millis atomic.Int64 // since 1970
}

// NewClock returns a clock that stands at ms milliseconds since 1970.
func NewClock(ms int64) *Clock {
	c := new(Clock)
	c.Millis.Store(ms)
	return c
}

// Now is for Options.Now.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.Millis.Load()) }

// Add moves the clock on.
func (c *Clock) Add(d time.Duration) { c.Millis.Add(d.Milliseconds()) }
