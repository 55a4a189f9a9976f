package engine

import (
	"errors"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/txn/conflict"
	"github.com/brockdb/brock/internal/view"
)

// changes tells commits what others have written, published or not.
type changes struct {
	views  *view.Set
	leader *view.Pin // the commit leader reads Views with it
}

var errTooMany = errors.New("too many keys were written meanwhile")

// Newest returns the newest version of key, published or not, as view.Pin.Newest
// does. Only the commit leader may call it.
func (c *changes) Newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	c.leader.Enter()
	defer c.leader.Leave()
	return c.leader.Newest(key, h, since)
}

// ChangedSince reports whether [lo, hi) has an entry newer than since, as
// view.Pin.ChangedSince does. Only the commit leader may call it.
func (c *changes) ChangedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	c.leader.Enter()
	defer c.leader.Leave()
	return c.leader.ChangedSince(lo, hi, since)
}

// EachArrival calls fn with what is newer than since, if that is in memtables, as
// view.Pin.EachArrival does. Only the commit leader may call it.
func (c *changes) EachArrival(since entry.Version, fn func(lo, hi []byte) error) (all bool, err error) {
	c.leader.Enter()
	defer c.leader.Leave()
	return c.leader.EachArrival(since, 0, fn)
}

// CheckReads returns a conflict.Refusal if something that a transaction has read was written
// after since. Else it returns the version up to which it has looked. Many committers may
// call it at once.
func (c *changes) CheckReads(reads *conflict.ReadSet, since entry.Version) (upTo entry.Version, err error) {
	return c.check(reads, since)
}

// check is CheckReads for any conflict.Set.
func (c *changes) check(set conflict.Set, since entry.Version) (upTo entry.Version, err error) {
	p, err := c.views.Acquire(0)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	// Usually fewer keys were written since than are in the set: look up each written key there.
	// Otherwise, or if a range was deleted or much of runs has to be read, look up each key of the
	// set.
	n := 0
	all, err := p.EachArrival(since, set.Len(), func(lo, hi []byte) error {
		if n++; n > set.Len() || hi != nil {
			return errTooMany
		}
		return set.Refuse(lo)
	})
	if err == errTooMany || err == nil && !all {
		p.SortSince(since)
		err = set.Check(p, since)
	}
	return p.Version(), err
}

// SortSince sorts what is newer than since in memtables, so that ChangedSince is cheap for
// the leader. A committer that has read or deleted ranges calls it, with no lock held.
func (c *changes) SortSince(since entry.Version) {
	if p, err := c.views.Hold(); err == nil { // after Close there is nothing to prepare for
		p.SortSince(since)
		p.Release()
	}
}
