package rangedel

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
)

// span is a range of keys and the newest of some range deletes that cover it. It names range
// deletes and bounds by their numbers in a list. So it has no pointers and keeps no keys.
type span struct {
	lo, hi bound  // numbers of bounds
	newest uint32 // index in the list
}

// bound names a bound of a range delete: twice the range delete's number, plus 1 for the upper
// bound.
type bound uint32

// boundKey is the key of a bound.
func (l *list) boundKey(b bound) []byte {
	if b&1 != 0 {
		return (*l)[b>>1].Hi
	}
	return (*l)[b>>1].Lo
}

// list is range deletes in the order of their arrival.
type list []Delete

// version is the version of a span.
func (l *list) version(s span) entry.Version { return (*l)[s.newest].Version }

// rangeDelete returns a span as a range delete. Its bounds may be those of others.
func (l *list) rangeDelete(s span) Delete {
	return Delete{Lo: l.boundKey(s.lo), Hi: l.boundKey(s.hi), Version: l.version(s)}
}

// findSpan returns the index of the span that covers key, and true; or that of the first span after
// key, and false. Spans are sorted and disjoint.
func (l *list) findSpan(spans []span, key []byte) (i int, covered bool) {
	lo, hi := 0, len(spans)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if bytes.Compare(l.boundKey(spans[mid].hi), key) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(spans) && bytes.Compare(l.boundKey(spans[lo].lo), key) <= 0
}

// overlaps reports whether a span has a key in [lo, hi); a nil hi is no bound.
func (l *list) overlaps(spans []span, lo, hi []byte) bool {
	i, covered := l.findSpan(spans, lo)
	return covered || i < len(spans) && (hi == nil || bytes.Compare(l.boundKey(spans[i].lo), hi) < 0)
}

// appendSpan appends a span behind the others, joining it to the last one if it continues
// that at the same version.
func (l *list) appendSpan(spans []span, s span) []span {
	if n := len(spans); n > 0 && l.version(spans[n-1]) == l.version(s) && bytes.Equal(l.boundKey(spans[n-1].hi), l.boundKey(s.lo)) &&
		sameKeyspace(l.boundKey(spans[n-1].lo), l.boundKey(s.lo)) {
		spans[n-1].hi = s.hi
		return spans
	}
	return append(spans, s)
}

// over lays a and b over each other: at each place the span with the newer version counts.
func (l *list) over(a, b []span) []span {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := make([]span, 0, len(a)+len(b))
	// Most often deletes come in the order of keys, or in reverse.
	if bytes.Compare(l.boundKey(a[len(a)-1].hi), l.boundKey(b[0].lo)) < 0 {
		return append(append(out, a...), b...)
	}
	if bytes.Compare(l.boundKey(b[len(b)-1].hi), l.boundKey(a[0].lo)) < 0 {
		return append(append(out, b...), a...)
	}
	// Both lists are walked as in a merge; what is left of a span after it was cut
	// stays in x or y.
	x, y := a[0], b[0]
	a, b = a[1:], b[1:]
	for {
		first, second, of := &x, &y, &a
		if bytes.Compare(l.boundKey(y.lo), l.boundKey(x.lo)) < 0 {
			first, second, of = &y, &x, &b
		}
		end, begin := l.boundKey(first.hi), l.boundKey(second.lo)
		switch {
		case bytes.Compare(end, begin) <= 0: // apart
			out = l.appendSpan(out, *first)
			if !nextSpan(first, of) {
				return l.appendRest(out, *second, a, b)
			}
		case bytes.Compare(l.boundKey(first.lo), begin) < 0: // the part before the other
			out = l.appendSpan(out, span{first.lo, second.lo, first.newest})
			first.lo = second.lo
		default: // both begin here: up to the nearer end, the newer one
			newest, to := x.newest, x.hi
			if l.version(y) > l.version(x) {
				newest = y.newest
			}
			c := bytes.Compare(l.boundKey(x.hi), l.boundKey(y.hi))
			if c > 0 {
				to = y.hi
			}
			out = l.appendSpan(out, span{x.lo, to, newest})
			x.lo, y.lo = to, to
			moreX, moreY := c > 0 || nextSpan(&x, &a), c < 0 || nextSpan(&y, &b)
			switch {
			case !moreX && !moreY:
				return out
			case !moreX:
				return l.appendRest(out, y, a, b)
			case !moreY:
				return l.appendRest(out, x, a, b)
			}
		}
	}
}

// nextSpan makes s the first of the spans that are left, if there is one.
func nextSpan(s *span, left *[]span) bool {
	if len(*left) == 0 {
		return false
	}
	*s, *left = (*left)[0], (*left)[1:]
	return true
}

// appendRest appends s and what is left of a and b; one of them is empty.
func (l *list) appendRest(out []span, s span, a, b []span) []span {
	out = l.appendSpan(out, s)
	for _, left := range [2][]span{a, b} {
		for _, s := range left {
			out = l.appendSpan(out, s)
		}
	}
	return out
}
