package view

import (
	"github.com/brockdb/brock/internal/entry"
)

// joined is how far from each other two records may lie for one request to the disk to
// read both.
const joined = 8 << 10

// Reads has separated values brought near that will be read soon: the processor is asked
// for those in memory, the disk for others. It waits for neither. One goroutine uses it.
type Reads struct {
	view     *View
	in       *Segment // of the range [from, to), which Start asks for; nil: none
	from, to int64
	asked    int64
}

// Reads returns a Reads of values that the Pin finds.
func (p *Pin) Reads() Reads { return p.view.Reads() }

// Reads returns a Reads of values in the View's segments.
func (v *View) Reads() Reads { return Reads{view: v} }

// Add has the separated value of e brought near, at the latest by Start.
func (r *Reads) Add(e *entry.Entry) {
	if r.view.touch(e) {
		return
	}
	f, h, err := r.view.locate(e)
	if err != nil {
		return // Value tells
	}
	from, n := f.Range(h, e.Key)
	to := from + n
	// Neighbours are one request, in whichever order they come.
	if low, high := min(from, r.from), max(to, r.to); f == r.in && high-low <= r.to-r.from+n+joined {
		r.from, r.to = low, high
		return
	}
	r.Start()
	r.in, r.from, r.to = f, from, to
}

// Start asks the disk for what was added and not asked for yet. It returns how many bytes
// the disk was asked for in all.
func (r *Reads) Start() (asked int64) {
	if r.in != nil {
		r.asked += r.in.Ahead(r.from, r.to-r.from)
		r.in = nil
	}
	return r.asked
}

// ReadOn asks the disk for n bytes of the segment that has e's separated value: for those
// that are not in memory, from skip bytes after the begin of its record on. It returns how
// many bytes that are.
func (p *Pin) ReadOn(e *entry.Entry, skip, n int64) (asked int64) {
	f, h, err := p.view.locate(e)
	if err != nil {
		return 0 // Value tells
	}
	return f.Ahead(int64(h.Offset)+skip, n)
}
