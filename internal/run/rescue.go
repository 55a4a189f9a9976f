package run

import (
	"bytes"
	"errors"
	"sort"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/run/chunk"
	"github.com/brockdb/brock/internal/run/meta"
)

// Rescuer returns an iterator that goes on behind damage: it returns all entries on pages with a
// right checksum. Before it passes a place where entries are lost, it calls tell with the damage
// and the range of keys that may be lost, once for each place. If tell returns false, the
// iterator ends with that damage as its error. Without damage it returns the same entries as
// Iterator, a little slower.
//
// It sets a pageio.Guard itself. Values are valid until the Reader is closed.
func (r *Reader) Rescuer(tell func(*errs.Corruption) bool) iterator.Iterator {
	return &rescuer{r: r, tell: tell, told: make(map[gapAt]bool), i: -1}
}

// rescuer is the Iterator of Rescuer.
type rescuer struct {
	r     *Reader
	tell  func(*errs.Corruption) bool
	told  map[gapAt]bool
	i     int          // number of the current chunk
	sound chunk.Cursor // walks the current chunk as long as rest is nil
	rest  *chunk.Rest  // what is left of the current chunk, once damage was met there
	e     entry.Entry  // the current entry, or the last one
	valid bool
	err   error
}

// gapAt names a gap in a chunk by the number of entries before it.
type gapAt struct{ chunk, before int }

// step is a move within a chunk.
type step uint8

const (
	first step = iota
	last
	next
	prev
	seekGE
	seekLT
)

func (s step) forward() bool { return s == first || s == next || s == seekGE }

func (it *rescuer) First() bool { return it.walk(0, first, first, nil) }

func (it *rescuer) Last() bool { return it.walk(len(it.r.chunks)-1, last, last, nil) }

func (it *rescuer) Next() bool { return it.valid && it.walk(it.i, next, first, nil) }

func (it *rescuer) Prev() bool { return it.valid && it.walk(it.i, prev, last, nil) }

func (it *rescuer) SeekGE(key []byte) bool {
	lo, _ := it.r.keys.search(key)
	return it.walk(lo, seekGE, seekGE, key)
}

func (it *rescuer) SeekLT(key []byte) bool {
	_, hi := it.r.keys.search(key)
	return it.walk(min(hi, len(it.r.chunks)-1), seekLT, seekLT, key)
}

func (it *rescuer) SkipGE([]byte, entry.Version) bool { return it.Next() }

func (it *rescuer) SkipLT([]byte, entry.Version) bool { return it.Prev() }

func (it *rescuer) SkipNewer(entry.Version) bool { return it.Next() }

func (it *rescuer) Entry() *entry.Entry { return &it.e }

func (it *rescuer) Err() error { return it.err }

func (it *rescuer) Close() { it.valid, it.rest = false, nil }

// walk makes the step s in chunk i. If that leads to no entry, it makes the step after in the
// next chunks (the chunks before, if s goes backward) until it comes to an entry.
func (it *rescuer) walk(i int, s, after step, key []byte) bool {
	it.valid, it.err = false, nil
	for ; i >= 0 && i < len(it.r.chunks); s = after {
		it.valid = it.step(i, s, key)
		if it.valid || it.err != nil {
			return it.valid
		}
		if s.forward() {
			i++
		} else {
			i--
		}
	}
	return false
}

// step makes the step s in chunk i. If it meets damage, it makes s in what is left of the chunk.
func (it *rescuer) step(i int, s step, key []byte) bool {
	if i != it.i {
		it.i, it.rest = i, nil
		it.err = it.open(i)
	}
	if it.rest == nil && it.err == nil {
		ok := it.trust(s, key)
		if it.err == nil {
			return ok
		}
	}
	if it.rest == nil {
		if !errors.Is(it.err, errs.ErrCorrupt) {
			it.i = -1
			return false
		}
		it.rest, it.err = it.r.rescue(i), nil
	}
	return it.pick(s, key)
}

// open puts the cursor on chunk i, which counts as sound until damage is met.
func (it *rescuer) open(i int) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, it.r.chunks[i].Place.File)
	c := &it.r.chunks[i]
	p, err := it.r.prefix(i, c)
	if err == nil {
		it.sound.Open(c, p)
	}
	return err
}

// trust makes a step with the cursor of a sound chunk. It sets it.err if it meets damage.
func (it *rescuer) trust(s step, key []byte) (ok bool) {
	defer pageio.Guard(pageio.Arm(), &it.err, it.r.chunks[it.i].Place.File)
	c := &it.sound
	switch s {
	case first:
		ok = c.First()
	case last:
		ok = c.Last()
	case next:
		ok = c.Next()
	case prev:
		ok = c.Prev()
	default:
		ok = it.seek(s, key)
	}
	if it.err == nil {
		it.err = c.Err()
	}
	if !ok || it.err != nil {
		return false
	}
	e := c.Entry()
	// Touch the value now, below the guard: a fault when the caller reads it would be too late.
	pageio.Touch(e.Value)
	held := it.e.Key
	it.e = *e
	it.e.Key = append(held[:0], e.Key...)
	return true
}

// seek is trust for a seek in the chunk.
func (it *rescuer) seek(s step, key []byte) (ok bool) {
	c := &it.sound
	order, err := it.r.within(it.i, c.Chunk(), key)
	switch {
	case err != nil:
		it.err = err
		return false
	case order < 0:
		return s == seekGE && c.First()
	case order > 0:
		return s == seekLT && c.Last()
	}
	ok = c.SeekGE(key[c.Chunk().Prefix:])
	if s == seekGE || !ok && c.Err() != nil {
		return ok
	}
	return c.Prev()
}

// pick makes a step among the entries that are left of the chunk, and tells of the gap that it
// passes.
func (it *rescuer) pick(s step, key []byte) bool {
	n, to := it.rest.Len(), 0
	var e entry.Entry
	from := func(is func() bool) int {
		return sort.Search(n, func(i int) bool {
			it.rest.Entry(i, &e)
			return is()
		})
	}
	switch s {
	case last:
		to = n
	case next:
		to = from(func() bool { return entry.Compare(&e, &it.e) > 0 })
	case prev:
		to = from(func() bool { return entry.Compare(&e, &it.e) >= 0 })
	case seekGE, seekLT:
		to = from(func() bool { return bytes.Compare(e.Key, key) >= 0 })
	}
	// The gap, if there is one, lies before entry to: forward it comes before what the step
	// leads to, backward behind it.
	if !it.pass(to) {
		return false
	}
	if !s.forward() {
		to--
	}
	if to < 0 || to >= n {
		return false
	}
	it.rest.Entry(to, &it.e)
	return true
}

// pass tells of the gap behind the first before entries of the rest, if there is one.
func (it *rescuer) pass(before int) bool {
	for _, g := range it.rest.Gaps {
		at := gapAt{it.i, before}
		if g.Before != before || it.told[at] {
			continue
		}
		lo, hi := it.r.keysOf(it.i)
		var e entry.Entry
		// A gap may hold older versions of the key before it, and newer ones of the key behind.
		// The key of a range tombstone doesn't tell where those beside it begin.
		ranges := it.r.of != nil
		if before > 0 && !ranges {
			it.rest.Entry(before-1, &e)
			lo = bytes.Clone(e.Key)
		}
		if before < it.rest.Len() && !ranges {
			it.rest.Entry(before, &e)
			hi = append(bytes.Clone(e.Key), 0)
		}
		var c *errs.Corruption
		reportError(it.r.chunks[it.i].Place.File, uint64(it.r.chunks[it.i].Place.Offset), g.Err, func(found *errs.Corruption) { c = found })
		errs.Concern(c, lo, hi)
		if !it.tell(c) {
			it.err = c
			return false
		}
		it.told[at] = true
	}
	return true
}

// rescue returns what is left of chunk i.
func (r *Reader) rescue(i int) *chunk.Rest {
	c := &r.chunks[i]
	var prefix []byte
	if c.Prefix <= boundSize {
		prefix = r.keys.from(i)[:c.Prefix]
	}
	return chunk.Rescue(c, prefix, r.fileOf(i).ReadFull)
}

// keysOf returns the range of stored keys in which all entries of chunk i lie; a nil hi is no
// bound. For a chunk of range tombstones that is the range that all of the run's may cover.
func (r *Reader) keysOf(i int) (lo, hi []byte) {
	if r.of != nil {
		return Bounds(&r.of.meta)
	}
	_, hi = Bounds(&r.meta)
	if i+1 < len(r.chunks) {
		b := r.keys.apart(i + 1)
		switch s := &r.keys.spans[i+1]; {
		case s.long:
			hi = after(b)
		case s.again:
			hi = append(bytes.Clone(b), 0)
		default:
			hi = b
		}
	}
	return r.keys.from(i), hi
}

// KeysAt returns the range of stored keys that damage at offset off of a file of the run
// concerns: every entry that lies there is in it. off is -1 for damage to all of the file. A nil
// hi is no bound.
func (r *Reader) KeysAt(file string, off int64) (lo, hi []byte) {
	found := false
	for _, part := range []*Reader{r, r.spans} {
		if part == nil {
			continue
		}
		for i := range part.chunks {
			c := &part.chunks[i]
			if c.Place.File != file || off >= 0 && (off < c.Place.Offset || off >= c.Place.Offset+int64(c.Layout.Size())) {
				continue
			}
			from, to := part.keysOf(i)
			if !found || bytes.Compare(from, lo) < 0 {
				lo = from
			}
			if !found || to == nil || hi != nil && bytes.Compare(to, hi) > 0 {
				hi = to
			}
			found = true
		}
	}
	if !found { // directory, filter or footer
		return Bounds(&r.meta)
	}
	return lo, hi
}

// Bounds returns the range of stored keys in which a run lies. A nil hi is no bound.
func Bounds(m *meta.Run) (lo, hi []byte) {
	if len(m.Last) > 0 {
		hi = append(bytes.Clone(m.Last), 0)
	}
	return m.First, hi
}
