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
// multiples of their widths, which are powers of two. Late is 1/40 of the time to
// live. No entry has that: it is taken from the time that was left when the entry
// was first counted, and inherited from run to run. A step is at most half of Late
// wide, so there are some hundreds of them.
type Expiries struct {
	now   uint64               // Unix milliseconds
	ends  []uint64             // ascending: where spans end; each begins after the one before
	spans []span               // together they are all times
	last  *span                // the span of what was added last
	steps map[uint64]*Expiring // by their ends
}

// span is a range of time in which all entries that expire inherit the same Late.
type span struct {
	late     uint64    // what is inherited; 0 = nothing
	step     *Expiring // the one counted in last; nil = none was
	from, to uint64    // step counts what expires after from, up to to
}

const (
	lateShare = 40     // Late is 1/lateShare of the time to live
	leastStep = 16_384 // milliseconds; a power of two
)

// NewExpiries returns an empty one; now is the time in Unix milliseconds, before has
// the lists of the runs that the entries come from.
func NewExpiries(now uint64, before ...[]Expiring) *Expiries {
	x := &Expiries{now: now, steps: make(map[uint64]*Expiring)}
	for _, list := range before {
		for i := range list {
			x.ends = append(x.ends, list[i].startTime(), list[i].At)
		}
	}
	// Between two ends of steps of any list, all entries inherit the same.
	x.ends = append(x.ends, ^uint64(0))
	slices.Sort(x.ends)
	x.ends = slices.Compact(x.ends)
	x.spans = make([]span, len(x.ends))
	for i, end := range x.ends {
		x.spans[i].late = inherited(before, end)
	}
	x.last = &x.spans[0]
	return x
}

// inherited is the least Late of the steps that may have counted an entry with this
// expiry; 0 if there is none. In each list that is the first step that ends after
// it: steps nest, as powers of two do, and a narrower step has less Late, so this
// one never allows more than the entry's own.
func inherited(lists [][]Expiring, expires uint64) (late uint64) {
	for _, list := range lists {
		i, _ := slices.BinarySearchFunc(list, expires, func(s Expiring, t uint64) int { return cmp.Compare(s.At, t) })
		if i < len(list) && expires > list[i].startTime() && (late == 0 || list[i].Late < late) {
			late = list[i].Late
		}
	}
	return late
}

// startTime is when a step begins: it counts what expires after that.
func (s *Expiring) startTime() uint64 { return s.At - min(stepWidth(s.Late), s.At) }

// Add counts e, if it expires.
func (x *Expiries) Add(e *Entry) {
	if e.Expires == 0 {
		return
	}
	// Entries that follow each other often expire in the same step.
	if s := x.last; s.step == nil || e.Expires <= s.from || e.Expires > s.to {
		x.findStep(e.Expires)
	}
	step := x.last.step
	step.Entries++
	step.Bytes += uint64(len(e.Key)) + uint64(len(e.Value))
	if e.Separated {
		// Dropping the entry also makes its value garbage.
		step.Bytes += e.Handle.Length
	}
}

// findStep makes last the span that expires lies in, and sets its step.
func (x *Expiries) findStep(expires uint64) {
	i, _ := slices.BinarySearch(x.ends, expires)
	s := &x.spans[i]
	x.last = s
	if s.step != nil && expires > s.from && expires <= s.to {
		return
	}
	// The time that is left shrinks from run to run; an inherited Late doesn't.
	late := max(s.late, (expires-min(x.now, expires))/lateShare)
	width := stepWidth(late)
	from := (expires - 1) / width * width
	at := from + width
	if at < from {
		// The last step of all time would end behind the greatest number.
		at = ^uint64(0)
	}
	if s.from, s.to = from, min(at, x.ends[i]); i > 0 {
		s.from = max(from, x.ends[i-1])
	}
	if s.step = x.steps[at]; s.step == nil {
		s.step = &Expiring{At: at, Late: late}
		x.steps[at] = s.step
	}
	// The least of all that the step counts: no entry stays longer than its own Late allows.
	s.step.Late = min(s.step.Late, late)
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
