package engine

import (
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// cut is a checkpoint that begins: the version at which it ends, and the View that has
// everything up to this version in runs, and nothing newer.
type cut struct {
	version entry.Version
	then    *layout.Layout // as of the moment at which that was the newest version
	milli   int64          // that moment, in Unix milliseconds
	last    *view.Table    // memtable that is flushed last; nil if nothing was to be flushed
	pin     *view.Pin      // of that View, once it is installed
	err     error          // why there is no pin
}

// cuts pins Views at the moment at which a memtable has become a run.
type cuts struct {
	*state
	writer *writer

	mu      sync.Mutex // guards the pins of cuts, and:
	waiting []*cut
}

// beginCut seals what is in memory. It runs in the place of a commit leader, so that
// no commit is half in the cut.
func (c *cuts) beginCut(k *cut) error {
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
// has anything that was committed after a cut. (A transaction that bypasses the memtables has
// flushed them before it commits.)
func (c *cuts) pinFlushed(by *change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(k *cut) bool {
		if !slices.Contains(by.tables, k.last) {
			return false
		}
		k.pin, k.err = c.views.Hold()
		return true
	})
}

// isMade reports whether the cut has its pin or its error.
func (c *cuts) isMade(k *cut) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return k.pin != nil || k.err != nil
}

// giveUpCut ends a cut that nobody waits for any more.
func (c *cuts) giveUpCut(k *cut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(other *cut) bool { return other == k })
	if k.pin != nil {
		k.pin.Release()
	}
}
