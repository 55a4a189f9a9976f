package memtable

import (
	"bytes"
	"cmp"

	"github.com/brockdb/brock/internal/iterator"
)

// pair is one entry of a sorted view: where it is, and the key's 8 bytes after
// the view's common prefix, which decide most comparisons.
type pair struct {
	word  uint64
	place ref
}

// view is the table's entries in entry.Compare order as of some moment, in three
// sorted arrays, so that few new entries don't move many old ones. Each entry is
// in one array; if a newer array has the same key and version, the older array's
// entry is shadowed. A view never changes.
type view struct {
	levels [3][]pair // main, mid, tail: oldest first
	prefix []byte    // what all keys begin with
	end    ref       // the view holds the records before it
	count  int       // how many were read, shadowed ones included
}

const (
	tailMax = 1 << 10
	midMax  = 32 << 10
)

// fold returns a view of everything published.
func (t *Table) fold() *view {
	extent := t.extent.Load()
	if v := t.view.Load(); v.end >= ref(extent&refMask) {
		return v
	}
	t.folding.Lock()
	defer t.folding.Unlock()
	return t.foldLocked()
}

func (t *Table) foldLocked() *view {
	extent := t.extent.Load()
	old := t.view.Load()
	if old.end >= ref(extent&refMask) {
		return old
	}
	v := &view{levels: old.levels, end: ref(extent & refMask), count: int(extent >> refBits)}
	var fresh []pair
	fresh, v.prefix = t.collect(old, v)
	if cut := len(old.prefix) - len(v.prefix); cut > 0 {
		for i, level := range v.levels {
			v.levels[i] = append([]pair(nil), level...)
			shorten(v.levels[i], old.prefix, cut)
		}
	}
	s := sorter{arena: &t.arena}
	fresh = s.sorted(fresh, len(v.prefix))
	main, mid, tail := &v.levels[0], &v.levels[1], &v.levels[2]
	switch {
	case len(*tail)+len(fresh) <= tailMax:
		*tail = t.merge(*tail, fresh)
	case len(*mid)+len(*tail)+len(fresh) <= max(midMax, len(*main)/16):
		*mid, *tail = t.merge(*mid, t.merge(*tail, fresh)), nil
	default:
		*main, *mid, *tail = t.merge(*main, t.merge(*mid, t.merge(*tail, fresh))), nil, nil
	}
	t.view.Store(v)
	return v
}

// collect returns the entries that v has and old has not, in order of arrival,
// and the common prefix of all of v.
func (t *Table) collect(old, v *view) (fresh []pair, prefix []byte) {
	fresh = make([]pair, 0, v.count-old.count)
	prefix = old.prefix
	t.walk(old.end, v.end, func(p ref, r *record) bool {
		key := r.keyBytes()
		if old.count == 0 && len(fresh) == 0 {
			prefix = key
		} else if !bytes.HasPrefix(key, prefix) {
			n := commonLen(key, prefix)
			shorten(fresh, prefix, len(prefix)-n)
			prefix = prefix[:n]
		}
		fresh = append(fresh, pair{keyWord(key, len(prefix)), p})
		return true
	})
	return fresh, prefix
}

// shorten rewrites words taken after prefix to be taken after cut bytes less of
// it. Every key has the whole prefix, so no key is read.
func shorten(pairs []pair, prefix []byte, cut int) {
	head := keyWord(prefix, len(prefix)-cut)
	for i := range pairs {
		pairs[i].word = head | pairs[i].word>>(8*min(cut, 8))
	}
}

func commonLen(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// compare orders pairs of the same view; 0 says that one shadows the other.
func (a *arena) compare(x, y pair) int {
	if x.word != y.word {
		return cmp.Compare(x.word, y.word)
	}
	return compareRecords((*record)(a.at(x.place)), (*record)(a.at(y.place)))
}

// merge returns the entries of both, and of equal ones the newer.
func (t *Table) merge(older, newer []pair) []pair {
	if len(older) == 0 {
		return newer
	}
	if len(newer) == 0 {
		return older
	}
	// Keys in order come all behind those before. Views that have the beginning of
	// the array don't look behind their end, and only the latest one is added to.
	if t.arena.compare(older[len(older)-1], newer[0]) < 0 {
		return append(older, newer...)
	}
	if t.arena.compare(newer[len(newer)-1], older[0]) < 0 {
		return append(append(make([]pair, 0, len(older)+len(newer)), newer...), older...)
	}
	out := make([]pair, 0, len(older)+len(newer))
	for len(older) > 0 && len(newer) > 0 {
		switch c := t.arena.compare(older[0], newer[0]); {
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

// seek is the number of entries of pairs whose key is less than key.
func (t *Table) seek(v *view, pairs []pair, key []byte) int {
	head := key[:min(len(key), len(v.prefix))]
	if c := bytes.Compare(head, v.prefix); c < 0 {
		return 0
	} else if c > 0 {
		return len(pairs)
	}
	word := keyWord(key, len(v.prefix))
	lo, hi := 0, len(pairs)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		p := pairs[mid]
		less := p.word < word
		if p.word == word {
			less = bytes.Compare((*record)(t.arena.at(p.place)).keyBytes(), key) < 0
		}
		if less {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Iterator walks the entries of the table, all versions. It sees what was added
// before this call, and perhaps a little more. Creating it may sort what was
// added since the last one was created; neither this nor the walk makes the
// writer wait.
func (t *Table) Iterator() iterator.Iterator { return newCursor(t, t.fold()) }

// Sorted is Iterator for a table that gets no more entries: it sorts all into
// one array first.
func (t *Table) Sorted() iterator.Iterator {
	t.folding.Lock()
	defer t.folding.Unlock()
	v := *t.foldLocked()
	l := &v.levels
	if len(l[1])+len(l[2]) > 0 {
		l[0], l[1], l[2] = t.merge(l[0], t.merge(l[1], l[2])), nil, nil
		t.view.Store(&v)
	}
	return newCursor(t, &v)
}
