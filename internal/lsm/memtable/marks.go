package memtable

import (
	"sort"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
)

// marks is an index of versions over the entries in the order of their arrival. It shortens a
// search for entries newer than a version: last returns the place behind which all of them
// lie. One writer adds; any goroutine may ask.
type marks struct {
	newest atomic.Uint64 // greatest version of an entry
	list   atomic.Pointer[[]mark]
}

// mark stands before every markEvery-th entry.
type mark struct {
	place  ref
	count  int           // entries before it
	newest entry.Version // of these
}

const markEvery = 64

// addMark makes a mark before the entry number count, from 0, at place.
func (m *marks) addMark(place ref, count uint64) {
	var list []mark
	if p := m.list.Load(); p != nil {
		list = *p
	}
	// Readers know only what is before len(list), so appending in place is safe.
	list = append(list, mark{place, int(count), entry.Version(m.newest.Load())})
	m.list.Store(&list)
}

// widen notes the version of a new entry.
func (m *marks) widen(v uint64) {
	if v > m.newest.Load() {
		m.newest.Store(v)
	}
}

// last is the last mark before which nothing is newer than since; without
// entries there is none.
func (m *marks) last(since entry.Version) (mark, bool) {
	list := m.list.Load()
	if list == nil {
		return mark{}, false
	}
	i := sort.Search(len(*list), func(i int) bool { return (*list)[i].newest > since })
	return (*list)[i-1], true // the first one has no entries before it
}
