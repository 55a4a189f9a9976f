// Package tombstone holds range tombstones: each deletes all older entries of a
// range of keys. A Set of them says which one, of those that a reader sees,
// counts at a key.
package tombstone

import (
	"bytes"
	"cmp"

	"github.com/brockdb/brock/internal/entry"
)

// Tombstone deletes every entry with a key in [Lo, Hi) and a version less than
// Version. Bounds are stored keys: neither is empty, and Lo is before Hi.
type Tombstone struct {
	Lo, Hi  []byte
	Version entry.Version
}

// Valid reports whether bounds and version are within their limits. A tombstone that
// is not committed yet has version 0, which is valid.
func (t *Tombstone) Valid() bool {
	return len(t.Lo) > 0 && len(t.Lo) <= entry.MaxKey && len(t.Hi) <= entry.MaxKey &&
		bytes.Compare(t.Lo, t.Hi) < 0 && t.Version <= entry.MaxVersion
}

// Compare orders tombstones by version, then by bounds: the order in which runs
// keep them.
func Compare(a, b Tombstone) int {
	return cmp.Or(cmp.Compare(a.Version, b.Version), bytes.Compare(a.Lo, b.Lo), bytes.Compare(a.Hi, b.Hi))
}

// spans are ranges apart from each other, in order, each with the newest version
// at its place; neighbours that touch have different versions.
type spans []Tombstone

// find is the index of the span that covers key and true; or of the first span
// after key and false.
func (s spans) find(key []byte) (i int, covered bool) {
	lo, hi := 0, len(s)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if bytes.Compare(s[mid].Hi, key) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(s) && bytes.Compare(s[lo].Lo, key) <= 0
}

// overlaps reports whether a span has a key in [lo, hi); a nil hi is no bound.
func (s spans) overlaps(lo, hi []byte) bool {
	i, covered := s.find(lo)
	return covered || i < len(s) && (hi == nil || bytes.Compare(s[i].Lo, hi) < 0)
}

// add appends a range behind the others, joining it to the last one if it
// continues that at the same version.
func (s spans) add(t Tombstone) spans {
	if n := len(s); n > 0 && s[n-1].Version == t.Version && bytes.Equal(s[n-1].Hi, t.Lo) {
		s[n-1].Hi = t.Hi
		return s
	}
	return append(s, t)
}

// over lays a over b: at each place the newer of both.
func over(a, b spans) spans {
	out := make(spans, 0, len(a)+len(b))
	var x, y Tombstone // what is left of the current span of each; no Hi: none
	next := func(t *Tombstone, of *spans) {
		if t.Hi == nil && len(*of) > 0 {
			*t, *of = (*of)[0], (*of)[1:]
		}
	}
	// Both lists are walked as in a merge; what is left of a span after it was cut
	// stays in x or y.
	for {
		next(&x, &a)
		next(&y, &b)
		switch {
		case x.Hi == nil && y.Hi == nil:
			return out
		case x.Hi == nil:
			out, y = out.add(y), Tombstone{}
			continue
		case y.Hi == nil:
			out, x = out.add(x), Tombstone{}
			continue
		}
		first, second := &x, &y
		if bytes.Compare(y.Lo, x.Lo) < 0 {
			first, second = &y, &x
		}
		switch {
		case bytes.Compare(first.Hi, second.Lo) <= 0: // apart
			out, *first = out.add(*first), Tombstone{}
		case bytes.Compare(first.Lo, second.Lo) < 0: // the part before the other
			out = out.add(Tombstone{first.Lo, second.Lo, first.Version})
			first.Lo = second.Lo
		default: // both begin here: up to the nearer end, the newer one
			end := first.Hi
			if bytes.Compare(second.Hi, end) < 0 {
				end = second.Hi
			}
			out = out.add(Tombstone{first.Lo, end, max(first.Version, second.Version)})
			for _, t := range []*Tombstone{first, second} {
				if t.Lo = end; bytes.Equal(t.Hi, end) {
					*t = Tombstone{}
				}
			}
		}
	}
}
