// Package scan walks what a transaction sees, in the order of keys: the newest visible version
// of each key, or all versions. That includes the transaction's own writes, and leaves out
// what deletes and expiry hide. Scans read separated values ahead of the user.
package scan

import (
	"math"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
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
	walk      walk
	pin       *view.Pin
	writes    *pending.Writes
	filter    func(key []byte, meta byte) bool
	shown     *Span // nil without a filter
	prefix    int
	all       bool
	backward  bool  // the last move went backward, in keys
	direct    bool  // nothing stands between walk and user: no filter, no readahead
	jumps     int32 // values that lay far from the one before, a score; a negative one delays reading ahead
	asked     int   // values that were asked for since the seek
	waited    bool  // the disk was waited for since the seek
	adapts    bool  // reads ahead as much as pays
	limit     int   // Config.Limit
	sought    bool  // there was a seek; when it ends, habit is told of it
	readahead *readahead
	locality  locality
	stream    stream
	habit     *Habit // nil unless it adapts
	err       error

	firstKey [32]byte // first memory of walk.key, so that a short key allocates nothing
}

// scans has those that were freed: a short scan would otherwise be mostly their allocation.
var scans = sync.Pool{New: func() any { return new(Scan) }}

// Begin returns a Scan of c, at no entry.
func Begin(c *Config) *Scan {
	s := scans.Get().(*Scan)
	s.pin, s.writes, s.filter, s.prefix, s.all = c.Pin, c.Writes, c.Filter, c.Prefix, c.All
	s.limit = c.Limit
	if c.Filter != nil {
		s.shown = c.Shown
	}
	w := &s.walk
	w.key, w.clock, w.lo, w.hi = s.firstKey[:0], c.Clock, c.Lo, c.Hi
	w.pin, w.at, w.since, w.all = c.Pin, c.At, min(c.Since, entry.MaxVersion), c.All
	w.store, w.storeCover = c.Pin.Iterator(), c.Pin.Cover(!c.All)
	w.setSource(nil, w.storeCover)
	switch {
	// Who gives a number gets that, whatever the scan does with values.
	case c.Prefetch > 0 && !c.KeysOnly:
		s.readahead = newReadahead(s, c.Prefetch)
		s.jumps = math.MinInt32 // never adapts
	case c.Prefetch != 0 || c.KeysOnly:
		s.jumps = math.MinInt32
	default:
		s.adapts, s.habit = true, c.Habit
	}
	s.setDirect()
	return s
}

func (s *Scan) setDirect() { s.direct = s.filter == nil && s.readahead == nil }

// Bounds are the stored bounds.
func (s *Scan) Bounds() (lo, hi []byte) { return s.walk.lo, s.walk.hi }

// Seek moves to the first entry from the stored key on or, backward, to the last one
// before it. It sees all that the transaction has written by now.
func (s *Scan) Seek(key []byte, backward bool) (ok bool) {
	defer pageio.Guard(pageio.Arm(), &s.err, pageio.SomeFile)
	s.err, s.backward = nil, backward
	// Only a seek takes up new writes, so that a walk in progress does not change
	// under its user.
	if s.writes != nil {
		s.walk.addOwnWrites(s.writes)
	}
	if s.habit != nil {
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
	if s.readahead.adaptive && s.readahead.isIdle() {
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
	if s.filter == nil {
		return ok
	}
	for ok {
		e := s.walk.entry
		// Before the call: the filter may panic.
		if s.shown != nil {
			s.shown.Extend(e.Key, backward)
		}
		if s.filter(e.Key[s.prefix:len(e.Key):len(e.Key)], e.Meta) {
			return true
		}
		ok = s.walk.moveOn(backward)
	}
	// A filter that is not called although the scan reads ahead shows that nothing follows.
	if s.shown != nil {
		s.shown.End(s.walk.lo, s.walk.hi, backward)
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
	err := s.err
	if err == nil {
		err = s.walk.err()
	}
	s.pin.View().NameKeys(err)
	return err
}

// Values reads the separated values of the scan's entries.
func (s *Scan) Values() Values {
	if s.writes == nil {
		return Values{Pin: s.pin}
	}
	return Values{s.pin, s.writes.Files()}
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

// Source is what the scan reads. Who does not call Free closes it, before the pin is released.
func (s *Scan) Source() iterator.Iterator { return s.walk.src }

// FreeMemory closes the source of a scan that was closed, and gives its memory to other scans:
// nothing may be called any more.
func (s *Scan) FreeMemory() {
	// Before the pin is released: sources hold pages of its View.
	s.walk.src.Close()
	if invariant.Enabled { // else a scan that is used after Free is found out
		return
	}
	*s = Scan{}
	scans.Put(s)
}

// Values reads separated values: the store's, and those of a transaction's own
// writes in files. It is used by any number of goroutines.
type Values struct {
	Pin   *view.Pin
	Files pending.Files // nil: no own write is in a file
}

// ReadValue is view.Pin.ReadValue, also for an own write in files.
func (v Values) ReadValue(key []byte, e *entry.Entry, dst []byte, lend bool) (value []byte, own bool, err error) {
	if v.IsOwn(e) {
		return v.Files.Value(key, e, dst)
	}
	return v.Pin.ReadValue(key, e, dst, lend)
}

// IsOwn reports whether e is an own write of the transaction, with its value in Files.
func (v Values) IsOwn(e *entry.Entry) bool { return e.Version == rangedel.Pending && v.Files != nil }
