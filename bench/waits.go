package main

import (
	"errors"
	"time"

	"github.com/brockdb/brock/bench/internal/cage"
	"github.com/brockdb/brock/bench/internal/kv"
)

// Waits is how long the program looks at things. Tests look less long.
type Waits struct {
	Polls  int           // polls without work until a store counts as idle
	Settle time.Duration // for what a store does once its clients are silent
	Warm   time.Duration // run-up before a slice that is counted by time
	Slice  time.Duration // such a slice
	Watch  time.Duration // how long an idle store is watched

	ColdWarm, ColdSlice time.Duration // the same as Warm and Slice, for reads from the disk

	KeepCaches bool // don't write out what is dirty, nor drop caches, for the whole machine
}

func fullWaits() Waits {
	return Waits{
		Polls: 10, Settle: 6 * time.Second, Warm: 300 * time.Millisecond, Slice: time.Second, Watch: 5 * time.Second,
		ColdWarm: 500 * time.Millisecond, ColdSlice: time.Second,
	}
}

// tinyWaits are for tests, whose figures mean nothing.
func tinyWaits() Waits {
	return Waits{
		Polls: 1, Settle: time.Millisecond, Warm: time.Millisecond, Slice: 10 * time.Millisecond, Watch: 10 * time.Millisecond,
		ColdWarm: 5 * time.Millisecond, ColdSlice: 30 * time.Millisecond, KeepCaches: true,
	}
}

const (
	idlePoll  = 50 * time.Millisecond
	idleShare = 10 // a poll in which the process used less than 1/idleShare of a core is idle
	idleLimit = 10 * time.Minute
)

var errNeverIdle = errors.New("background work did not end within ten minutes")

// idle waits until the process has used next to no CPU and dirtied no file for
// some polls, and returns when the first of these began.
func (w Waits) idle() (time.Time, error) {
	start := time.Now()
	since := start
	cpu, _ := processTimes()
	written := bytesWritten()
	for quiet := 0; quiet < w.Polls; {
		time.Sleep(idlePoll)
		now := time.Now()
		if now.Sub(start) > idleLimit {
			return now, errNeverIdle
		}
		c, _ := processTimes()
		b := bytesWritten()
		if c-cpu > idlePoll/idleShare || b != written {
			quiet, since = 0, now
		} else {
			quiet++
		}
		cpu, written = c, b
	}
	return since, nil
}

// quiet writes out what waits in the store's memory, if it can be told to, and
// waits until no background work is left. It says since when there was none.
func (w Waits) quiet(s kv.Store) (time.Time, error) {
	f, ok := s.(kv.Flusher)
	if !ok {
		return w.idle()
	}
	if err := f.Flush(); err != nil {
		return time.Time{}, err
	}
	for {
		since, err := w.idle()
		if err != nil || !f.Busy() {
			return since, err
		}
	}
}

// rest waits until open stores have done what they do once their clients are
// silent, and returns when that was.
func (w Waits) rest() (time.Time, error) {
	begin := time.Now()
	cpu, _ := processTimes()
	written := bytesWritten()
	time.Sleep(w.Settle)
	if c, _ := processTimes(); c-cpu < w.Settle/100 && bytesWritten() == written {
		return begin, nil // nothing at all
	}
	return w.idle()
}

// flushDisk has the system write out all that is dirty, so that one store's
// leftovers don't disturb the next.
func (w Waits) flushDisk() {
	if !w.KeepCaches {
		flushDisk()
	}
}

// dropCaches empties the page cache of the machine.
func (w Waits) dropCaches() error {
	if w.KeepCaches {
		return nil
	}
	return cage.DropCaches()
}
