package chunk

import (
	"encoding/binary"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// Rest is what can be proven of a damaged chunk: its entries that lie on pages with a right
// checksum. It is in memory of its own, as long as the Rest is.
type Rest struct {
	Gaps []int // where entries are lost: how many of its entries come before, ascending

	chunk  *Chunk   // the copy of the damaged chunk
	prefix []byte   // what the keys share
	at     []uint32 // where the entries begin, / 8
}

// Rescue reads c again, by read, and finds the entries that can be proven: read gives zeros for what
// can't be read. prefix is what its keys share; nil if only the trailer tells that. If nothing can be
// proven, as when the layout is wrong, the Rest is one gap.
func Rescue(c *Chunk, prefix []byte, read func(p []byte, off int64)) *Rest {
	r := &Rest{prefix: prefix}
	r.chunk = &Chunk{Layout: c.Layout, Place: c.Place, Data: make([]byte, c.Layout.Size(), c.Layout.Size()+Room)}
	read(r.chunk.Data, c.Place.Offset)
	r.chunk.Pages = NewPages(pageio.NewPageBits(PagesOf(int64(len(r.chunk.Data)))), func(int64, int) error { return nil })
	t, err := r.chunk.Trailer()
	if err != nil {
		t = r.proven()
	}
	if t == nil || len(prefix) != c.Prefix && t.prefix == nil {
		r.Gaps = []int{0}
		return r
	}
	if t.prefix != nil {
		r.prefix = t.prefix
	}
	r.chunk.trailer.Store(t)
	r.findEntries(t)
	return r
}

// proven makes a substitute for a damaged trailer: the checksums of pages, if enough of them
// are right for pages of the chunk. Without fences, the entries behind a bad page can't be
// found. Without its tags, an encrypted chunk is lost.
func (r *Rest) proven() *Trailer {
	c := r.chunk
	if c.Place.Key != nil {
		return nil
	}
	n := c.pages()
	sums := make([]uint32, n)
	for p := range sums {
		off := p << pageShift
		sums[p] = c.Place.ID.Sum(c.Place.Offset+int64(off), c.Data[off:][:PageSize])
	}
	// Where the section lies is not known, so each place is tried: right is where the sums of most
	// pages match.
	b := c.Data[c.TrailerStart():]
	best, most := 0, 0
	for at := 0; at+4*n <= len(b); at += 4 {
		right := 0
		for p, sum := range sums {
			if binary.LittleEndian.Uint32(b[at+4*p:]) == sum {
				right++
			}
		}
		if right > most {
			best, most = at, right
		}
	}
	// One sum may be right by chance, as many places were tried.
	if most < min(n, 4) {
		return nil
	}
	return &Trailer{sums: b[best:][: 4*n : 4*n], shift: maxFenceShift}
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
				off = t.start(fence)
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
