package scan

import (
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// readahead holds the entries ahead of a scan's user, and asks for their separated values: it
// asks the disk, or the processor, for many at once. Nothing waits for a value before the
// user reads it.
type readahead struct {
	scan      *Scan
	ring      []ahead // the entries; a later scan uses their memory again
	head      int     // the user's entry
	count     int     // entries held, the user's included
	bytes     uint64  // of their separated values
	passed    int     // entries since begin
	backward  bool    // the direction of the entries ahead
	more      bool    // the walk is at an entry that is not in the ring yet
	predicted bool    // the ring has as many entries as a scan is expected to need: it is filled again once it is empty
	cold      bool    // most values of the last refill were not in memory
	unasked   int     // entries in a row whose separated value nobody asked for
	ordered   int     // values in a row that were asked for and lay one after the other
}

// ahead is an entry ahead.
type ahead struct {
	entry entry.Entry
	key   []byte
	asked bool // for its separated value
}

// MaxPrefetch is how many values a scan reads ahead at most.
const MaxPrefetch = 1024

const (
	aheadKey = 40 // bytes of key that an entry has room for at first

	// How far Config.Prefetch = 0 reads ahead.
	nearLength    = 16           // entries while values are in memory, and at first;
	farLength     = mostExpected // entries at most once the disk is asked
	leastExpected = 3            // entries from which it pays to hold those that a scan is expected to need
	jumpsToAdapt  = 4            // begin after this many values that lie elsewhere than those before;
	orderPerJump  = 4            // one of them is forgotten after this many that follow each other
	largeValue    = 16 << 10     // bytes from which a value counts as one that lies elsewhere
	orderedToEnd  = 64           // end after this many values that follow each other,
	unaskedToEnd  = 32           // or after this many values that nobody asked for;
	jumpsToReturn = 1000         // then begin again after this many values elsewhere

	// How many bytes of values a scan reads ahead, beside the next value.
	aheadPerEntry = 32 << 10 // of the ring
	aheadMost     = 8 << 20
)

// unused has the readaheads that no scan uses. The memory of keys is never used again, as
// users may still hold keys.
var unused = sync.Pool{New: func() any { return new(readahead) }}

func newReadahead(s *Scan, n int) *readahead {
	r := unused.Get().(*readahead)
	*r = readahead{scan: s, ring: r.ring[:0]}
	r.growRing(max(n, 2))
	return r
}

// freeRing makes r free for other scans.
func (r *readahead) freeRing() {
	clear(r.ring)
	if r.scan = nil; len(r.ring) <= farLength {
		unused.Put(r)
	}
}

// growRing adds entries until there are n.
func (r *readahead) growRing(n int) {
	had := len(r.ring)
	if had >= n {
		return
	}
	// Turned so that the head comes first, and new entries behind the last one.
	slices.Reverse(r.ring[:r.head])
	slices.Reverse(r.ring[r.head:])
	slices.Reverse(r.ring)
	r.ring, r.head = slices.Grow(r.ring, n-had)[:n], 0
	// New memory for keys, in one piece: the user of an earlier scan may still hold its
	// keys.
	keys := make([]byte, (n-had)*aheadKey)
	for i := range n - had {
		r.ring[had+i].key = keys[i*aheadKey : i*aheadKey : (i+1)*aheadKey]
	}
}

// resizeRing makes it a ring of n entries, and forgets those that it has.
func (r *readahead) resizeRing(n int) {
	r.head, r.ring = 0, r.ring[:min(n, len(r.ring))]
	r.growRing(n)
}

// beginAt starts to read ahead where the walk is. ok says that the walk is at an entry.
func (r *readahead) beginAt(ok, backward bool) bool {
	r.head, r.count, r.bytes, r.passed, r.backward, r.more = 0, 0, 0, 0, backward, ok
	r.fillRing()
	return r.count > 0
}

// moveOn goes on to the next entry in the direction backward.
func (r *readahead) moveOn(backward bool) bool {
	// The walk is at the other end of the ring: bring it back before it can turn.
	if backward != r.backward {
		return r.beginAt(r.turnBack() && r.scan.moveWalk(backward), backward)
	}
	r.passEntry()
	if r.isLow() {
		r.fillRing()
	}
	return r.count > 0
}

// isLow reports whether it is time to fill the ring: half a ring at a time, so that a refill
// asks for many values at once.
func (r *readahead) isLow() bool {
	return r.count <= len(r.ring)/2 && (!r.predicted || r.count == 0)
}

// holdsNext reports whether passEntry alone moves on, in the direction backward.
func (r *readahead) holdsNext(backward bool) bool {
	return r.count-1 > len(r.ring)/2 && backward == r.backward && !r.isIdle()
}

// passEntry goes on to the next entry that is held.
func (r *readahead) passEntry() {
	// Inline values came with their entries, so they tell nothing of how values are used.
	if a := &r.ring[r.head]; a.entry.Separated {
		r.bytes -= a.entry.Handle.Length
		r.unasked++
		if a.asked {
			r.unasked = 0
			if r.ordered++; r.scan.hadToWait(&a.entry) {
				r.ordered = 0
			}
		}
	}
	if r.head++; r.head == len(r.ring) {
		r.head = 0
	}
	r.count, r.passed = r.count-1, r.passed+1
}

// turnBack brings the walk back to the user's entry.
func (r *readahead) turnBack() bool {
	at := &r.ring[r.head]
	// A seek comes to the newest version of the key; with all versions, the user may be at another.
	ok := r.scan.seekWalk(at.key, false)
	for ok && r.scan.cfg.All && r.scan.walk.entry.Version != at.entry.Version {
		ok = r.scan.moveWalk(false)
	}
	return ok
}

// currentEntry is the user's entry.
func (r *readahead) currentEntry() *entry.Entry { return &r.ring[r.head].entry }

// fillRing walks on until the ring is full, and asks for the separated values.
func (r *readahead) fillRing() {
	// A scan that goes on, and waits for the disk, has more values on their way.
	if r.cold && r.scan.adapts() && r.passed >= len(r.ring) && len(r.ring) < farLength {
		r.growRing(min(2*len(r.ring), farLength))
	}
	r.predicted = r.predicted && r.passed == 0
	most, room := min(uint64(len(r.ring))*aheadPerEntry, aheadMost), r.roomLeft()
	// At least two entries, whatever their size: the user's, and the one that the next move shows.
	first, before := r.count, r.bytes
	for r.more && r.count < room && (r.count < 2 || r.bytes < most) {
		a := &r.ring[(r.head+r.count)%len(r.ring)]
		a.copyEntry(r.scan.walk.entry)
		r.count++
		if e := &a.entry; e.Separated {
			r.bytes += e.Handle.Length
		}
		r.more = r.scan.moveWalk(r.backward)
	}
	r.cold = 2*uint64(r.askValues(first)) > r.bytes-before
	r.scan.waited = r.scan.waited || r.cold
}

// roomLeft is how many entries r may hold: none beyond the limit, unless the user has passed
// it because it went back.
func (r *readahead) roomLeft() int {
	if left := r.scan.cfg.Limit - r.passed; left > 0 {
		return min(left, len(r.ring))
	}
	return len(r.ring)
}

// askValues asks for the values of the entries from place first on, and returns how many bytes the
// disk was asked for. A loop after the walk takes 10 % less time than asking at each entry
// of the walk.
func (r *readahead) askValues(first int) int64 {
	reads := r.scan.cfg.Pin.View().NewReads()
	for i := first; i < r.count; i++ {
		e := &r.ring[(r.head+i)%len(r.ring)].entry
		if e.Separated && e.Version != rangedel.Pending { // own ones were just written
			reads.AddValue(e)
		}
	}
	return reads.StartReads()
}

// copyEntry makes e the entry.
func (a *ahead) copyEntry(e *entry.Entry) {
	a.key = append(a.key[:0], e.Key...)
	a.entry, a.asked = *e, false
	a.entry.Key = a.key
}

// NoteAsked notes that the user has read the separated value of the scan's entry. Call it before
// the next move. If values lie far from each other, reading ahead begins, and Entry then
// returns another pointer, to an entry of the same content. Values that lie one after the
// other need no reading ahead.
func (s *Scan) NoteAsked() {
	s.asked++
	if r := s.readahead; r != nil {
		// The entries ahead count their use one by one: reading ahead ends when the user skips
		// values.
		r.ring[r.head].asked = true
		return
	}
	jumped := s.hadToWait(s.walk.entry)
	if s.adapts() && s.stream.readOn(s.cfg.Pin, s.walk.entry, jumped) {
		s.waited = true
	}
	switch {
	// One value elsewhere costs little. Several in a short time are a scan in whose order the
	// values do not lie: each would wait for the disk, or for memory, alone.
	case jumped:
		if s.jumps += orderPerJump; s.jumps >= jumpsToAdapt*orderPerJump {
			s.beginReadahead()
		}
	case s.jumps > 0:
		s.jumps--
	}
}

// hadToWait reports whether the value of e, which was asked for, had to be waited
// for: it lies elsewhere than the one before, or is large.
func (s *Scan) hadToWait(e *entry.Entry) bool {
	return s.locality.passValue(s.cfg.Pin, e) || e.Handle.Length >= largeValue
}

// beginReadahead begins to read ahead.
func (s *Scan) beginReadahead() {
	// The call comes from outside a move (NoteAsked), so no guard is on yet.
	defer pageio.Guard(pageio.Arm(), &s.err, pageio.SomeFile)
	s.jumps = 0
	r := newReadahead(s, nearLength)
	if r.beginAt(true, s.backward) {
		s.readahead = r
		s.setDirect()
	}
}

// isIdle reports whether adaptive reading ahead has been of no use for some time.
func (r *readahead) isIdle() bool {
	return (r.unasked >= unaskedToEnd || r.ordered >= orderedToEnd) && r.scan.adapts()
}

// endReadahead moves on and ends reading ahead. It first brings the walk back to the user's entry,
// which stays in the readahead until the move.
func (s *Scan) endReadahead(backward bool) bool {
	r := s.readahead
	// The user skips values: don't begin again soon, or entries would be copied for nothing.
	if r.unasked >= unaskedToEnd {
		s.jumps = -(jumpsToReturn - jumpsToAdapt) * orderPerJump
	}
	s.readahead = nil
	s.setDirect()
	ok := r.turnBack() && s.moveWalk(backward)
	r.freeRing()
	return ok
}

// recordReads tells the habit how many values were read since the last seek.
func (s *Scan) recordReads() {
	if s.cfg.Habit == nil || !s.sought {
		return
	}
	n := s.asked
	if !s.waited {
		n = min(n, 1) // reading ahead would have been of no use
	}
	s.cfg.Habit.recordScan(n)
	s.asked, s.waited = 0, false
}

// predictReadahead makes the scan, which is about to seek, read ahead as many entries as it will
// need: then all values that it needs are on their way before it waits for the first.
func (s *Scan) predictReadahead() {
	s.recordReads()
	s.sought = true
	n := s.cfg.Habit.predictReads()
	predicted := n >= leastExpected
	if !predicted {
		n = nearLength
	}
	if s.readahead == nil && predicted {
		s.readahead = newReadahead(s, n)
		s.setDirect()
	}
	if r := s.readahead; r != nil {
		r.resizeRing(n)
		r.predicted = predicted
	}
}
