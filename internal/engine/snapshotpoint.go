package engine

import (
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// snapshotPoint is the state that a copy of the store has: its last version, and the View that has
// everything up to this version in runs, and nothing newer.
type snapshotPoint struct {
	version entry.Version
	then    *layout.Layout // as of the moment at which that was the newest version
	milli   int64          // that moment, in Unix milliseconds
	last    *view.Table    // memtable that is flushed last; nil if nothing was to be flushed
	pin     *view.Pin      // of that View, once it is installed
	err     error          // why there is no pin
}

// snapshotPoints pins Views at the moment at which a memtable has become a run.
type snapshotPoints struct {
	*state
	writer *writer

	mu      sync.Mutex // guards the pins of points, and:
	waiting []*snapshotPoint
}

// begin seals what is in memory. It runs in the place of a commit leader, so that
// no commit is half before the point.
func (c *snapshotPoints) begin(k *snapshotPoint) error {
	if err := c.writer.sealAny(); err != nil {
		return err
	}
	k.version, k.milli = c.views.Visible(), c.cfg.Now().UnixMilli()
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.views.Current()
	k.then = v.Layout
	if len(v.Tables) > 1 {
		k.last = v.Tables[1]
		c.waiting = append(c.waiting, k)
		return nil
	}
	k.pin, k.err = c.views.Hold()
	return k.err
}

// pinFlushed pins the View for those who wait for a memtable that an edit has flushed. So no run
// has anything that was committed after a point. (A transaction that bypasses the memtables has
// flushed them before it commits.)
func (c *snapshotPoints) pinFlushed(by *view.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(k *snapshotPoint) bool {
		if !slices.Contains(by.Tables, k.last) {
			return false
		}
		k.pin, k.err = c.views.Hold()
		return true
	})
}

// isMade reports whether the point has its pin or its error.
func (c *snapshotPoints) isMade(k *snapshotPoint) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return k.pin != nil || k.err != nil
}

// giveUp ends a point that nobody waits for any more.
func (c *snapshotPoints) giveUp(k *snapshotPoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(other *snapshotPoint) bool { return other == k })
	if k.pin != nil {
		k.pin.Release()
	}
}
