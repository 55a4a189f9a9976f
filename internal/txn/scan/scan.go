// Package scan walks what a transaction sees, in the order of keys: the newest visible version
// of each key, or all versions. That includes the transaction's own writes, and leaves out
// what deletes and expiry hide. Scans read separated values ahead of the user.
package scan

import (
	"cmp"
	"math"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/txn/pending"
	"github.com/brockdb/brock/internal/view"
)

// Config says what is scanned.
type Config struct {
	Pin       *view.Pin       // must stay held until Close, and the source's Close
	Writes    *pending.Writes // the transaction's own; nil: it has none
	Clock     Clock
	Lo, Hi    []byte        // stored keys in [Lo, Hi)
	At, Since entry.Version // versions after Since up to At
	All       bool          // every version and delete, newest first
	Filter    func(key []byte, meta byte) bool
	Shown     *Span  // is extended to each key before Filter is called; nil: not needed
	Prefix    int    // length of the keyspace's prefix, which Filter is not shown
	Prefetch  int    // values read ahead; 0 = as many as pays, <0 = none
	KeysOnly  bool   // no value is read ahead
	Limit     int    // entries that the user will see after a seek, at most, while it moves on; 0 = any number
	Habit     *Habit // what earlier scans of the keyspace read; nil: not known
}

// Clock tells the time of expiry in Unix milliseconds: the same to all scans of a
// transaction.
type Clock interface{ Now() uint64 }

// Scan is at an entry or at none. It is used by one goroutine at a time. It must
// not be copied once it was begun.
type Scan struct {
	cfg       Config // Shown is nil without a Filter, and Habit unless the scan adapts
	walk      walk
	backward  bool  // the last move went backward, in keys
	direct    bool  // nothing stands between walk and user: no filter, no readahead
	jumps     int32 // values that lay far from the one before, a score; a negative one delays reading ahead
	asked     int   // values that were asked for since the seek
	waited    bool  // the disk was waited for since the seek
	sought    bool  // there was a seek; when it ends, the Habit is told of it
	readahead *readahead
	locality  locality
	stream    stream
	err       error

	firstKey [32]byte // first memory of walk.key, so that a short key allocates nothing
}

// scans has those that were freed: a short scan would otherwise be mostly their allocation.
var scans = sync.Pool{New: func() any { return new(Scan) }}

// Begin returns a Scan of c, at no entry.
func Begin(c *Config) *Scan {
	s := scans.Get().(*Scan)
	s.cfg = *c
	if c.Filter == nil {
		s.cfg.Shown = nil
	}
	w := &s.walk
	w.key, w.clock, w.lo, w.hi = s.firstKey[:0], c.Clock, c.Lo, c.Hi
	w.pin, w.at, w.since, w.all = c.Pin, c.At, min(c.Since, entry.MaxVersion), c.All
	w.store, w.storeCover = c.Pin.Iterator(), c.Pin.Cover(!c.All)
	w.setSource(nil, w.storeCover)
	// Who gives a number gets that, whatever the scan does with values.
	if c.Prefetch > 0 && !c.KeysOnly {
		s.readahead = newReadahead(s, c.Prefetch)
	}
	if !s.adapts() {
		s.jumps, s.cfg.Habit = math.MinInt32, nil
	}
	s.setDirect()
	return s
}

// adapts reports whether the scan reads ahead as much as pays.
func (s *Scan) adapts() bool { return s.cfg.Prefetch == 0 && !s.cfg.KeysOnly }

func (s *Scan) setDirect() { s.direct = s.cfg.Filter == nil && s.readahead == nil }

// Bounds are the stored bounds.
func (s *Scan) Bounds() (lo, hi []byte) { return s.walk.lo, s.walk.hi }

// Seek moves to the first entry from the stored key on or, backward, to the last one
// before it. It sees all that the transaction has written by now.
func (s *Scan) Seek(key []byte, backward bool) (ok bool) {
	defer pageio.Guard(pageio.Arm(), &s.err, pageio.SomeFile)
	s.err, s.backward = nil, backward
	// Only a seek takes up new writes, so that a walk in progress does not change
	// under its user.
	if s.cfg.Writes != nil {
		s.walk.addOwnWrites(s.cfg.Writes)
	}
	if s.cfg.Habit != nil {
		s.predictReadahead()
	}
	ok = s.seekWalk(key, backward)
	if s.readahead != nil {
		return s.readahead.beginAt(ok, backward)
	}
	return ok
}

// Move moves to the next entry or, backward, to the one before. It is only called
// at an entry.
func (s *Scan) Move(backward bool) bool {
	s.backward = backward
	// A move to an entry that is known to be visible touches no mapped memory, and neither does one
	// within the entries ahead. So they need no guard.
	if s.direct {
		if !backward && s.walk.lookahead.takeKnown() {
			return true
		}
	} else if r := s.readahead; r != nil && r.holdsNext(backward) {
		r.passEntry()
		return true
	}
	return s.moveGuarded(backward)
}

// moveGuarded is Move below its one guard: nothing that it calls has its own.
func (s *Scan) moveGuarded(backward bool) (ok bool) {
	defer pageio.Guard(pageio.Arm(), &s.err, pageio.SomeFile)
	if s.direct {
		return s.walk.moveOn(backward)
	}
	if s.readahead == nil {
		return s.moveWalk(backward)
	}
	if s.readahead.isIdle() {
		return s.endReadahead(backward)
	}
	return s.readahead.moveOn(backward)
}

// seekWalk moves the walk to the first entry that the filter accepts, from the stored
// key on or, backward, before it.
func (s *Scan) seekWalk(key []byte, backward bool) bool {
	return s.skipRefused(s.walk.seekKey(key, backward), backward)
}

// moveWalk moves the walk to the next entry that the filter accepts.
func (s *Scan) moveWalk(backward bool) bool { return s.skipRefused(s.walk.moveOn(backward), backward) }

// skipRefused moves on while the filter refuses the entry that the walk is at. The filter is the
// user's code; who hands it to Begin sees to it that it calls no method of the scan.
func (s *Scan) skipRefused(ok, backward bool) bool {
	if s.cfg.Filter == nil {
		return ok
	}
	for ok {
		e := s.walk.entry
		// Before the call: the filter may panic.
		if s.cfg.Shown != nil {
			s.cfg.Shown.Extend(e.Key, backward)
		}
		if s.cfg.Filter(e.Key[s.cfg.Prefix:len(e.Key):len(e.Key)], e.Meta) {
			return true
		}
		ok = s.walk.moveOn(backward)
	}
	// A filter that is not called although the scan reads ahead shows that nothing follows.
	if s.cfg.Shown != nil {
		s.cfg.Shown.End(s.walk.lo, s.walk.hi, backward)
	}
	return false
}

// Entry is the entry that the scan is at, until the next move or NoteAsked.
func (s *Scan) Entry() *entry.Entry {
	if s.readahead != nil {
		return s.readahead.currentEntry()
	}
	return s.walk.entry
}

// ReadsAhead reports whether the scan holds entries ahead of its user.
func (s *Scan) ReadsAhead() bool { return s.readahead != nil }

// Err returns the error because of which the scan is at no entry; nil at the end.
func (s *Scan) Err() error {
	err := cmp.Or(s.err, s.walk.err())
	s.cfg.Pin.View().NameKeys(err)
	return err
}

// Close ends the scan, but for its source, and returns how many bytes of values it
// has jumped to.
func (s *Scan) Close() (jumped uint64) {
	s.recordReads()
	if r := s.readahead; r != nil {
		r.freeRing()
		s.readahead = nil
	}
	return s.locality.jumped
}

// Source is what the scan reads. Who does not call FreeMemory closes it, before the pin is released.
func (s *Scan) Source() iterator.Iterator { return s.walk.src }

// FreeMemory closes the source of a scan that was closed, and gives its memory to other scans:
// nothing may be called any more.
func (s *Scan) FreeMemory() {
	// Before the pin is released: sources hold pages of its View.
	s.walk.src.Close()
	if invariant.Enabled { // else a scan that is used after FreeMemory is found out
		return
	}
	*s = Scan{}
	scans.Put(s)
}
