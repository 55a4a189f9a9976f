package view

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
)

// joined is how far from each other two records may lie, in bytes, so that one request to the disk
// reads both.
const joined = 8 << 10

// Reads is readahead of separated values. Add each value that will be read soon, then
// call StartReads. The processor prefetches values that are in memory, the system reads the
// others from disk. Neither call waits for that. One goroutine uses it.
type Reads struct {
	view     *View    // whose segments are read
	in       *Segment // segment of the pending range; nil: no range is pending
	from, to int64    // the pending range of the file: the next request
	asked    int64    // bytes that the disk was asked for so far
}

// NewReads returns a Reads of values in the View's segments.
func (v *View) NewReads() Reads { return Reads{view: v} }

// AddValue asks for the separated value of e. A value on disk may only be asked for when StartReads
// is called: neighbours become one request.
func (r *Reads) AddValue(e *entry.Entry) {
	f, h, err := r.view.locateValue(e)
	// Readahead is only a hint: the later read of the value returns the error. In memory, the
	// processor's prefetch, which does not wait and can't fault, is all that a value needs.
	if err != nil || f.Touch(h) {
		return
	}
	from, n := f.RecordRange(h, e.Key)
	to := from + n
	// Neighbours are one request, in whichever order they come.
	if low, high := min(from, r.from), max(to, r.to); f == r.in && high-low <= r.to-r.from+n+joined {
		r.from, r.to = low, high
		return
	}
	// e lies elsewhere: send the request so far, and begin another.
	r.StartReads()
	r.in, r.from, r.to = f, from, to
}

// StartReads asks the disk for the values that were added and not asked for yet. It returns how
// many bytes the disk was asked for since the Reads was made.
func (r *Reads) StartReads() (asked int64) {
	if r.in != nil {
		r.asked += r.in.Ahead(r.from, r.to-r.from)
		r.in = nil
	}
	return r.asked
}

// jumpBytes is how much of a value's length counts as jumped bytes, at most. A read from
// another place costs about as much as 4 KiB more from the same place. So jumps to
// large values matter little, and are no reason to rewrite them.
const jumpBytes = 4 << 10

// JumpedBytes returns the jumped bytes of an iterator whose next value, that of e, does not lie
// near the last one. It is 0 unless the journal left it: all other segments are in the order of
// keys.
func (p *Pin) JumpedBytes(e *entry.Entry) uint64 {
	if f := p.view.Segments.Find(e.Handle.Segment); f == nil || f.Moved != nil || f.Header().Kind != filename.Journal {
		return 0
	}
	return min(e.Handle.Length, jumpBytes)
}

// ReadAhead asks the disk for n bytes of the segment that has e's separated value. They begin
// skip bytes after the beginning of its record. It returns how many of them are not
// in memory, so that the disk was asked for them.
func (p *Pin) ReadAhead(e *entry.Entry, skip, n int64) (asked int64) {
	f, h, err := p.view.locateValue(e)
	if err != nil {
		return 0 // the later read of the value returns the error
	}
	return f.Ahead(int64(h.Offset)+skip, n)
}
