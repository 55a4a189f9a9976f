package memtable

import (
	"bytes"
	"math"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
)

// view is the table's entries in entry.Compare order as of some moment, in three sorted arrays, so
// that few new entries don't move many old ones. Each entry is in one array; if a newer array has
// the same key and version, the older array's entry is shadowed. A view never changes.
type view struct {
	arena  *arena
	levels [3][]pair // main, mid, tail: oldest first
	prefix []byte    // what all keys begin with; words are taken after it
	end    ref       // the view holds the records before it
	count  int       // how many were read, shadowed ones included
}

const (
	tailMax = 1 << 10  // entries of the tail before it goes to mid
	midMax  = 32 << 10 // entries of mid before it goes to main; or 1/16 of main, if that is more
)

// extendTo is a view of the first count records, up to end. Fresh entries go to the smallest level
// that has room for them, and with it, when it is full, to the next one. So an entry is moved a few
// times only, however often views are asked for.
func (old *view) extendTo(end ref, count int) *view {
	v := &view{arena: old.arena, levels: old.levels, end: end, count: count}
	var fresh []pair
	fresh, v.prefix = old.collectFresh(v)
	if cut := len(old.prefix) - len(v.prefix); cut > 0 {
		// The old view's arrays belong to its readers, so the words change in copies.
		for i, level := range v.levels {
			v.levels[i] = append([]pair(nil), level...)
			shortenPrefix(v.levels[i], old.prefix, cut)
		}
	}
	// Words must be comparable between levels, so fresh ones are taken after the same prefix.
	s := sorter{arena: v.arena}
	fresh = s.sortPairs(fresh, len(v.prefix))
	main, mid, tail := &v.levels[0], &v.levels[1], &v.levels[2]
	switch {
	case len(*tail)+len(fresh) <= tailMax:
		*tail = v.arena.mergePairs(*tail, fresh)
	case len(*mid)+len(*tail)+len(fresh) <= max(midMax, len(*main)/16):
		*mid, *tail = v.arena.mergePairs(*mid, v.arena.mergePairs(*tail, fresh)), nil
	default:
		*main, *mid, *tail = v.arena.mergePairs(*main, v.arena.mergePairs(*mid, v.arena.mergePairs(*tail, fresh))), nil, nil
	}
	return v
}

// collectFresh returns the entries that v has and old has not, in order of arrival, and the common
// prefix of all of v.
func (old *view) collectFresh(v *view) (fresh []pair, prefix []byte) {
	// The prefix only gets shorter; words taken before are shifted, not read again.
	fresh = make([]pair, 0, v.count-old.count)
	prefix = old.prefix
	v.arena.eachRecord(old.end, v.end, func(p ref, r *record) bool {
		key := r.keyBytes()
		if old.count == 0 && len(fresh) == 0 {
			prefix = key
		} else if !bytes.HasPrefix(key, prefix) {
			n := entry.CommonPrefix(key, prefix)
			shortenPrefix(fresh, prefix, len(prefix)-n)
			prefix = prefix[:n]
		}
		fresh = append(fresh, pair{entry.Word(key[len(prefix):]), p})
		return true
	})
	return fresh, prefix
}

// shortenPrefix changes words that were taken after prefix: they are taken after cut bytes less of
// it. Every key has the whole prefix, so no key is read.
func shortenPrefix(pairs []pair, prefix []byte, cut int) {
	head := entry.Word(prefix[len(prefix)-cut:])
	for i := range pairs {
		pairs[i].word = head | pairs[i].word>>(8*min(cut, 8))
	}
}

// mergePairs returns the entries of both, and of equal ones the newer. It may append to older in
// place.
func (a *arena) mergePairs(older, newer []pair) []pair {
	if len(older) == 0 {
		return newer
	}
	if len(newer) == 0 {
		return older
	}
	// Keys in order come all behind those before. Views that have the beginning of the array don't
	// look behind their end, and only the latest one is added to.
	if a.comparePairs(older[len(older)-1], newer[0]) < 0 {
		return append(older, newer...)
	}
	out := make([]pair, 0, len(older)+len(newer))
	if len(newer) < len(older)/16 {
		// The places of a few are searched for; what is between them is copied at once.
		for _, p := range newer {
			i, same := slices.BinarySearchFunc(older, p, a.comparePairs)
			out = append(append(out, older[:i]...), p)
			if older = older[i:]; same {
				older = older[1:]
			}
		}
		return append(out, older...)
	}
	for len(older) > 0 && len(newer) > 0 {
		switch c := a.comparePairs(older[0], newer[0]); {
		case c < 0:
			out = append(out, older[0])
			older = older[1:]
		case c > 0:
			out = append(out, newer[0])
			newer = newer[1:]
		default:
			older = older[1:]
		}
	}
	return append(append(out, older...), newer...)
}

// countLess is the number of entries of pairs whose key is less than key.
func (v *view) countLess(pairs []pair, key []byte) int {
	return v.seekVersion(pairs, key, math.MaxUint64)
}

// seekVersion counts the entries of pairs that come before key at version upTo: those of lesser
// keys, and those of key that are newer.
func (v *view) seekVersion(pairs []pair, key []byte, upTo entry.Version) int {
	head := key[:min(len(key), len(v.prefix))]
	if c := bytes.Compare(head, v.prefix); c < 0 {
		return 0
	} else if c > 0 {
		return len(pairs)
	}
	a, word := v.arena, entry.Word(key[len(v.prefix):])
	// Words decide most steps; keys are read only where they are equal.
	lo, hi := 0, len(pairs)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		p := pairs[mid]
		less := p.word < word
		if p.word == word {
			r := a.at(p.place)
			c := bytes.Compare(r.keyBytes(), key)
			less = c < 0 || c == 0 && r.version() > upTo
		}
		if less {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// countWithin is the number of entries in [lo, hi); a nil hi is no bound.
func (v *view) countWithin(lo, hi []byte) int {
	n := 0
	for _, level := range v.levels {
		n += len(v.cutLevel(level, lo, hi))
	}
	return n
}

// changedWithin reports whether an entry in [lo, hi) is newer than since.
func (v *view) changedWithin(lo, hi []byte, since entry.Version) bool {
	for _, level := range v.levels {
		for _, p := range v.cutLevel(level, lo, hi) {
			if v.arena.at(p.place).version() > since {
				return true
			}
		}
	}
	return false
}

// cutLevel returns the part of a level that lies in [lo, hi); a nil hi is no bound.
func (v *view) cutLevel(level []pair, lo, hi []byte) []pair {
	from, to := v.countLess(level, lo), len(level)
	if hi != nil {
		to = v.countLess(level, hi)
	}
	// Bounds in the wrong order make an empty part.
	return level[min(from, to):to]
}
