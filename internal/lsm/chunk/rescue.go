package chunk

import (
	"github.com/brockdb/brock/internal/base/entry"
)

// Rest is what can be proven of a damaged chunk: its entries that lie on pages with a right
// checksum. It is in memory of its own, as long as the Rest is.
type Rest struct {
	Gaps []int // where entries are lost: how many of its entries come before, ascending

	chunk  *Chunk   // the copy of the damaged chunk
	prefix []byte   // what the keys share
	at     []uint32 // where the entries begin, / 8
}

// Rescue reads c again, by read, and finds the entries that can be proven: read gives zeros for
// what can't be read. bound begins with what its keys share; it is shorter if only the trailer
// tells that. If nothing can be proven, as when the layout is wrong, the Rest is one gap.
func Rescue(c *Chunk, bound []byte, read func(p []byte, off int64)) *Rest {
	r := new(Rest)
	data := make([]byte, c.Layout.Size(), c.Layout.Size()+Room)
	read(data, c.Offset)
	r.chunk = c.Copy(data, func([]byte, int64) error { return nil })
	t, err := r.chunk.Trailer()
	if err != nil {
		t = r.salvageChecksums()
	}
	if t == nil || len(bound) < c.Prefix && t.prefix == nil {
		r.Gaps = []int{0}
		return r
	}
	if r.prefix = t.prefix; r.prefix == nil {
		r.prefix = bound[:c.Prefix]
	}
	r.chunk.keepTrailer(t)
	r.findEntries(t)
	return r
}

// salvageChecksums makes a trailer of the checksums of pages that a damaged one has: each proves
// its page, or is wrong. It returns nil if they are not found. Without fences, the entries behind a
// bad page can't be found. Without its tags, an encrypted chunk is lost.
func (r *Rest) salvageChecksums() (t *Trailer) {
	c := r.chunk
	_ = Sections(c.Data[c.TrailerStart()+16:], func(tag uint16, _ int, b []byte) (bool, error) {
		if tag == secChecksums && len(b) == 4*c.pages() && c.File.Key == nil {
			t = &Trailer{sums: b, shift: maxFenceShift}
		}
		return true, nil
	}) // a length that is wrong ends the search
	return t
}

// findEntries finds the entries. Behind one that can't be read it goes on at the next fence that
// leads to a sound one.
func (r *Rest) findEntries(t *Trailer) {
	c := r.chunk
	var e entry.Entry
	fence := 0
	for off := HeaderSize; off < c.End; {
		_, _, _, next, err := c.decodeEntry(off, &e, nil)
		if err == nil {
			r.at = append(r.at, uint32(off>>3))
			off = next
			continue
		}
		r.Gaps = append(r.Gaps, len(r.at))
		// Between the damage and the next fence no entry can be found: lengths lead from one to the
		// next.
		for bad := off; err != nil && off < c.End; fence++ {
			if off = c.End; fence < t.fences() {
				off = t.fenceStart(fence)
			}
			if off > bad && off < c.End {
				_, _, _, _, err = c.decodeEntry(off, &e, nil)
			}
		}
	}
}

// GapAt returns the gap that has bytes of the page, or the entry, that begins at off of the chunk:
// how many entries come before.
func (r *Rest) GapAt(off int) (before int, ok bool) {
	for _, before := range r.Gaps {
		from, to := HeaderSize, r.chunk.End
		if before > 0 {
			_, from = r.Span(before - 1)
		}
		if before < r.Len() {
			to, _ = r.Span(before)
		}
		if from < off+PageSize && off < to {
			return before, true
		}
	}
	return 0, false
}

// Len is the number of entries.
func (r *Rest) Len() int { return len(r.at) }

// Entry makes e entry i. Its key is in the memory of e.Key, or in new memory; its value
// stays as long as the Rest does.
func (r *Rest) Entry(i int, e *entry.Entry) {
	key := e.Key[:0]
	p, start, end, _, _ := r.chunk.decodeEntry(int(r.at[i])<<3, e, nil) // as before, from the same memory
	e.Key = append(append(key, r.prefix...), p[start:end]...)
}

// Span is where entry i begins and ends in the chunk.
func (r *Rest) Span(i int) (from, to int) {
	var e entry.Entry
	_, _, _, next, _ := r.chunk.decodeEntry(int(r.at[i])<<3, &e, nil)
	return int(r.at[i]) << 3, next
}
