package commit

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
)

// ReadSet is the keys and ranges that a transaction has read, whether they held
// anything or not. It copies what it is given. The zero value is empty. It is
// used by one goroutine at a time.
type ReadSet struct {
	// Limit bounds the memory of keys and ranges, about, in bytes; 0 = no limit. A
	// set that outgrows it becomes coarser: fewer ranges, which cover more.
	Limit int
	// Seed is that of the hashes of keys.
	Seed uint64

	bytes  []byte // keys and bounds, one after the other
	keys   []key  // single keys that were read; the first hashed ones in the order of their hashes
	ranges []span // ranges that were read
	sorted bool   // ranges are sorted and disjoint
	hashed int    // how many keys, from the first, are in the order of their hashes
}

// piece is a part of ReadSet.bytes: offsets, as the array may move when it grows.
type piece struct{ from, to int }

// key is one key that was read.
type key struct {
	hash uint64
	at   piece
}

// span is the range [lo, hi).
type span struct {
	lo, hi  piece
	endless bool // no hi
}

// Reset empties the set and keeps its memory for the next transaction.
func (s *ReadSet) Reset() {
	s.bytes, s.keys, s.ranges = s.bytes[:0], s.keys[:0], s.ranges[:0]
	s.sorted, s.hashed = false, 0
}

// Empty reports whether nothing was read.
func (s *ReadSet) Empty() bool { return len(s.keys) == 0 && len(s.ranges) == 0 }

// textOf returns the bytes of p. They are valid until the set changes.
func (s *ReadSet) textOf(p piece) []byte { return s.bytes[p.from:p.to:p.to] }

// storeText copies text to the end of s.bytes.
func (s *ReadSet) storeText(text []byte) piece {
	from := len(s.bytes)
	s.bytes = append(s.bytes, text...)
	return piece{from, len(s.bytes)}
}

// Len is the number of keys and ranges, by which the cost of a Check grows.
func (s *ReadSet) Len() int { return len(s.keys) + len(s.ranges) }

// AddKey notes that k was read. hash is its hash under Seed.
func (s *ReadSet) AddKey(k []byte, hash uint64) {
	// A key that is read again at once, as by get and set, is common.
	if n := len(s.keys); n > 0 && s.keys[n-1].hash == hash && bytes.Equal(s.textOf(s.keys[n-1].at), k) {
		return
	}
	s.keys = append(s.keys, key{hash, s.storeText(k)})
	s.coarsenToLimit()
}

// AddRange notes that all of [lo, hi) was read; a nil hi is no bound. A range
// that overlaps or continues the one added before only extends it.
func (s *ReadSet) AddRange(lo, hi []byte) {
	// An empty range holds no key that could change.
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return
	}
	if n := len(s.ranges); n > 0 && s.meetsRange(&s.ranges[n-1], lo, hi) {
		s.extendRange(&s.ranges[n-1], lo, hi) // a walk adds its range piece by piece
	} else {
		s.ranges = append(s.ranges, span{lo: s.storeText(lo), hi: s.storeText(hi), endless: hi == nil})
	}
	// Also after an extension: the range may now reach into another one.
	s.sorted = false
	s.coarsenToLimit()
}

// meetsRange reports whether r and [lo, hi) overlap or touch, so that they are one range together.
func (s *ReadSet) meetsRange(r *span, lo, hi []byte) bool {
	return (r.endless || bytes.Compare(lo, s.textOf(r.hi)) <= 0) && (hi == nil || bytes.Compare(s.textOf(r.lo), hi) <= 0)
}

// extendRange makes r cover lo and hi, too.
func (s *ReadSet) extendRange(r *span, lo, hi []byte) {
	if bytes.Compare(lo, s.textOf(r.lo)) < 0 {
		r.lo = s.storeText(lo)
	}
	switch {
	case r.endless:
	case hi == nil:
		r.endless = true
	case bytes.Compare(hi, s.textOf(r.hi)) > 0:
		// A walk extends the same bound again and again. If its bytes are the last, they are
		// overwritten; else each step of a scan would leave a key behind.
		if r.hi.to == len(s.bytes) {
			s.bytes = s.bytes[:r.hi.from]
		}
		r.hi = s.storeText(hi)
	}
}

// Check returns a Refusal if anything that was read has changed since that version. It returns
// another error if it could not find out.
func (s *ReadSet) Check(c Changes, since entry.Version) error {
	for i := range s.keys {
		k := s.textOf(s.keys[i].at)
		v, found, err := c.Newest(k, s.keys[i].hash, since)
		if err != nil {
			return err
		}
		// Sources may return an older version than since: that was visible to the transaction.
		if found && v > since {
			return RefuseKey(k)
		}
	}
	// Keys come first: each costs a lookup or two, a range may cost a walk.
	s.mergeRanges()
	for i := range s.ranges {
		lo, hi := s.textOf(s.ranges[i].lo), s.endOf(&s.ranges[i])
		changed, err := c.ChangedSince(lo, hi, since)
		if err != nil {
			return err
		}
		if changed {
			return RefuseRange(lo, hi)
		}
	}
	return nil
}

// endOf returns the end of r; nil if it has none.
func (s *ReadSet) endOf(r *span) []byte {
	if r.endless {
		return nil
	}
	return s.textOf(r.hi)
}

// Prepare sorts keys and ranges for Touches. Without it, the first call of Touches sorts them.
func (s *ReadSet) Prepare() {
	s.mergeRanges()
	s.orderKeys()
}

// Refuse returns a Refusal if k was read, by itself or in a range.
func (s *ReadSet) Refuse(k []byte) error {
	if s.Touches(k) {
		return RefuseKey(k)
	}
	return nil
}

// Touches reports whether k was read, by itself or in a range. There is no such call for a range:
// it would have to walk all that was read.
func (s *ReadSet) Touches(k []byte) bool { return s.touchesKey(k) || s.touchesRange(k) }

func (s *ReadSet) touchesKey(k []byte) bool {
	if len(s.keys) == 0 {
		return false
	}
	s.orderKeys()
	h := checksum.HashKey(s.Seed, k)
	i, _ := slices.BinarySearchFunc(s.keys, h, func(o key, h uint64) int { return cmp.Compare(o.hash, h) })
	// Different keys may have one hash.
	for ; i < len(s.keys) && s.keys[i].hash == h; i++ {
		if bytes.Equal(s.textOf(s.keys[i].at), k) {
			return true
		}
	}
	return false
}

// orderKeys sorts the keys by their hashes. Binary search then finds them without an index.
func (s *ReadSet) orderKeys() {
	if s.hashed < len(s.keys) {
		slices.SortFunc(s.keys, func(a, b key) int { return cmp.Compare(a.hash, b.hash) })
		s.hashed = len(s.keys)
	}
}

func (s *ReadSet) touchesRange(k []byte) bool {
	if len(s.ranges) == 0 {
		return false
	}
	// Merged ranges are disjoint, so only the one that begins last before k can contain it.
	s.mergeRanges()
	i, found := slices.BinarySearchFunc(s.ranges, k, func(r span, k []byte) int {
		return bytes.Compare(s.textOf(r.lo), k)
	})
	if found {
		return true
	}
	return i > 0 && (s.ranges[i-1].endless || bytes.Compare(k, s.textOf(s.ranges[i-1].hi)) < 0)
}

// mergeRanges sorts the ranges and joins those that meet.
func (s *ReadSet) mergeRanges() {
	if s.sorted || len(s.ranges) < 2 {
		return
	}
	slices.SortFunc(s.ranges, func(a, b span) int { return bytes.Compare(s.textOf(a.lo), s.textOf(b.lo)) })
	// In place: the kept ranges are never ahead of those that are read.
	n := 0 // the last range that is kept
	for _, r := range s.ranges[1:] {
		last := &s.ranges[n]
		switch {
		case !last.endless && bytes.Compare(s.textOf(r.lo), s.textOf(last.hi)) > 0:
			n++
			s.ranges[n] = r
		case last.endless: // it covers r, whatever its end
		case r.endless:
			last.endless = true
		case bytes.Compare(s.textOf(r.hi), s.textOf(last.hi)) > 0:
			last.hi = r.hi
		}
	}
	s.ranges = s.ranges[:n+1]
	s.sorted = true
}
