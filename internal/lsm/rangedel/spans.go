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

// overlapsRange reports whether a span has a key in [lo, hi); a nil hi is no bound.
func (l *list) overlapsRange(spans []span, lo, hi []byte) bool {
	i, covered := l.findSpan(spans, lo)
	return covered || i < len(spans) && (hi == nil || bytes.Compare(l.boundKey(spans[i].lo), hi) < 0)
}

// appendSpan appends a span behind the others, joining it to the last one if it continues
// that at the same version. Nothing happens if it has no key.
func (l *list) appendSpan(spans []span, s span) []span {
	if bytes.Equal(l.boundKey(s.lo), l.boundKey(s.hi)) {
		return spans
	}
	if n := len(spans); n > 0 && l.version(spans[n-1]) == l.version(s) && bytes.Equal(l.boundKey(spans[n-1].hi), l.boundKey(s.lo)) &&
		sameKeyspace(l.boundKey(spans[n-1].lo), l.boundKey(s.lo)) {
		spans[n-1].hi = s.hi
		return spans
	}
	return append(spans, s)
}

// layOver lays a and b over each other: at each place the span with the newer version counts.
func (l *list) layOver(a, b []span) []span {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := make([]span, 0, len(a)+len(b))
	// Most often deletes come in the order of keys.
	if l.boundBefore(a[len(a)-1].hi, b[0].lo) {
		return append(append(out, a...), b...)
	}
	// Both lists are walked as in a merge: x and y are what is left of the first span of each.
	x, y := a[0], b[0]
	for a, b = a[1:], b[1:]; ; x, a = a[0], a[1:] {
		if l.boundBefore(y.lo, x.lo) {
			x, y, a, b = y, x, b, a
		}
		if l.boundBefore(y.lo, x.hi) { // they overlap
			out = l.appendSpan(out, span{x.lo, y.lo, x.newest})
			x.lo = y.lo
			// Both begin here now: up to the nearer end, the newer one counts.
			if l.boundBefore(y.hi, x.hi) {
				x, y, a, b = y, x, b, a
			}
			if y.lo = x.hi; l.version(y) > l.version(x) {
				x.newest = y.newest
			}
		}
		// Parts that were cut off may have no key: appendSpan leaves them out.
		if out = l.appendSpan(out, x); len(a) == 0 {
			break
		}
	}
	out = l.appendSpan(out, y)
	for _, s := range b {
		out = l.appendSpan(out, s)
	}
	return out
}

// boundBefore reports whether one bound is less than another.
func (l *list) boundBefore(x, y bound) bool { return bytes.Compare(l.boundKey(x), l.boundKey(y)) < 0 }
