package entry

import (
	"cmp"
	"math/bits"
	"slices"
)

// Expiring counts entries of a run that expire at about the same time.
type Expiring struct {
	At      uint64 // Unix milliseconds: all of them have expired by then
	Late    uint64 // milliseconds: for how long after At they may stay in a store at rest
	Entries uint64
	Bytes   uint64 // of their keys and values, as stored
}

// Expiries gathers when the entries of a run expire, in steps whose ends are
// multiples of their widths, which are powers of two. Late is a fixed share of
// the time to live, which no entry tells: it is taken from the time that was
// left when the entry was first counted, and handed on from run to run. A step
// is at most half of Late wide, so there are some hundreds of them.
type Expiries struct {
	now    uint64
	before [][]Expiring // of the runs that the entries come from
	steps  map[uint64]*Expiring
	last   *Expiring // the one counted in last
	lo, hi uint64    // what expires after lo, up to hi, is counted there too
}

const (
	lateShare = 40     // Late is 1/lateShare of the time to live
	leastStep = 16_384 // milliseconds; a power of two
)

// NewExpiries returns an empty one; now is the time in Unix milliseconds, before
// lists what was gathered of the runs that the entries come from.
func NewExpiries(now uint64, before ...[]Expiring) *Expiries {
	return &Expiries{now: now, before: before, steps: make(map[uint64]*Expiring)}
}

// Add counts e, if it expires.
func (x *Expiries) Add(e *Entry) {
	if e.Expires == 0 {
		return
	}
	if x.last == nil || e.Expires <= x.lo || e.Expires > x.hi {
		x.find(e.Expires)
	}
	x.last.Entries++
	x.last.Bytes += uint64(len(e.Key)) + uint64(len(e.Value))
	if e.Separated {
		x.last.Bytes += e.Handle.Length
	}
}

// find makes last the step of what expires then.
func (x *Expiries) find(expires uint64) {
	late := uint64(0)
	x.lo, x.hi = 0, ^uint64(0)
	for _, list := range x.before {
		if inherited := x.inherit(list, expires); inherited > 0 && (late == 0 || inherited < late) {
			late = inherited
		}
	}
	late = max(late, (expires-min(x.now, expires))/lateShare)
	width := stepWidth(late)
	from := (expires - 1) / width * width
	at := from + width
	if at < from {
		at = ^uint64(0)
	}
	x.lo, x.hi = max(x.lo, from), min(x.hi, at)
	if x.last = x.steps[at]; x.last == nil {
		x.last = &Expiring{At: at, Late: late}
		x.steps[at] = x.last
	}
	x.last.Late = min(x.last.Late, late)
}

// inherit is Late of the step of a list that such an entry was counted in, 0 if
// there is none; lo and hi close in on the times for which that is so.
func (x *Expiries) inherit(list []Expiring, expires uint64) (late uint64) {
	i, _ := slices.BinarySearchFunc(list, expires, func(s Expiring, t uint64) int { return cmp.Compare(s.At, t) })
	if i > 0 {
		x.lo = max(x.lo, list[i-1].At)
	}
	if i == len(list) {
		return 0
	}
	// Steps nest, as powers of two do, and narrower ones have less Late: so this
	// one, the first to end after it, never allows more than the entry's own.
	s := &list[i]
	if from := s.At - min(stepWidth(s.Late), s.At); expires <= from {
		x.hi = min(x.hi, from)
		return 0
	} else {
		x.lo, x.hi = max(x.lo, from), min(x.hi, s.At)
	}
	return s.Late
}

// stepWidth is the greatest power of two up to half of late, but not too small.
func stepWidth(late uint64) uint64 {
	return max(leastStep, uint64(1)<<bits.Len64(late/2)>>1)
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
