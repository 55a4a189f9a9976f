package entry

import (
	"cmp"
	"math/bits"
	"slices"
)

// Expiring counts entries that expire by one time, and after that of the
// Expiring before it.
type Expiring struct {
	At      uint64 // Unix milliseconds: all of them have expired by then
	Entries uint64
	Bytes   uint64 // of their keys and values, as stored
}

// Expiries gathers when entries expire, in steps of at most a 32nd of the time
// until then, or half a minute: there are some hundreds of them at most.
type Expiries struct {
	now   uint64
	steps map[uint64]*Expiring
	last  *Expiring // the one counted in last
	from  uint64    // it counts what expires after that, up to its At
}

const (
	// A step is the greatest power of two of milliseconds up to both of these.
	leastStep = 30_000
	stepShare = 32
	// RetryExpired is how long after it was found, in milliseconds, what has
	// expired but must stay for a reader is thought to expire again.
	RetryExpired = 600_000
)

// NewExpiries returns an empty one; now is the time in Unix milliseconds.
func NewExpiries(now uint64) *Expiries {
	return &Expiries{now: now, steps: make(map[uint64]*Expiring)}
}

// Add counts e, if it expires.
func (x *Expiries) Add(e *Entry) {
	if e.Expires == 0 {
		return
	}
	if x.last == nil || e.Expires > x.last.At || e.Expires <= x.from {
		from, at := x.step(e.Expires)
		if x.last, x.from = x.steps[at], from; x.last == nil {
			x.last = &Expiring{At: at}
			x.steps[at] = x.last
		}
		if e.Expires <= x.now {
			x.from = at // the step is not where the entry is
		}
	}
	x.last.Entries++
	x.last.Bytes += uint64(len(e.Key)) + uint64(len(e.Value))
	if e.Separated {
		x.last.Bytes += e.Handle.Length
	}
}

// step is the step that a time is in: after from, up to at.
func (x *Expiries) step(expires uint64) (from, at uint64) {
	if expires <= x.now {
		expires = x.now + RetryExpired
	}
	width := uint64(1) << (bits.Len64(max((expires-x.now)/stepShare, leastStep)) - 1)
	from = (expires - 1) / width * width
	if at = from + width; at < from {
		at = ^uint64(0)
	}
	return from, at
}

// List is what was counted, in the order of time; nil if nothing expires.
func (x *Expiries) List() []Expiring {
	var list []Expiring
	for _, s := range x.steps {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Expiring) int { return cmp.Compare(a.At, b.At) })
	return list
}
