package salvage

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/meta"
)

// sorter sorts entries in bounded memory. Entries that exceed it go to runs. Of entries with the
// same key and version, the one that was added last counts.
type sorter struct {
	levels
	limit int64         // bytes of memory from which on the list goes to a run
	list  []entry.Entry // entries in memory, in the order in which they were added
	bytes int64         // about the memory that they take
}

// ordered is the part of iterator.Iterator that a merge needs.
type ordered interface {
	First() bool
	Next() bool
	Entry() *entry.Entry
	Err() error
	Close()
}

// inMemory walks a list.
type inMemory struct {
	list []entry.Entry
	at   int
}

func (m *inMemory) First() bool         { m.at = -1; return m.Next() }
func (m *inMemory) Next() bool          { m.at++; return m.at < len(m.list) }
func (m *inMemory) Entry() *entry.Entry { return &m.list[m.at] }
func (m *inMemory) Err() error          { return nil }
func (m *inMemory) Close()              {}

// newSorter returns an empty one that takes about limit bytes, at least 1 MiB.
func newSorter(to *maker, limit int64) *sorter {
	return &sorter{levels: levels{to: to}, limit: max(limit, 1<<20)}
}

// addCopy adds a copy of e.
func (s *sorter) addCopy(e *entry.Entry) error {
	const beside = 160 // bytes of an entry in memory, beside key and value
	c := *e
	// One allocation for key and value: the source reuses its memory.
	data := append(append(make([]byte, 0, len(e.Key)+len(e.Value)), e.Key...), e.Value...)
	c.Key = data[:len(e.Key):len(e.Key)]
	if c.Value = data[len(e.Key):]; e.Separated || e.Kind == entry.Delete {
		c.Value = nil
	}
	s.list = append(s.list, c)
	if s.bytes += int64(len(data)) + beside; s.bytes < s.limit {
		return nil
	}
	return s.flushList()
}

// sort sorts the list, and drops entries that another one with the same key and version replaces.
func (s *sorter) sort() {
	// The last added one comes first, a stable sort keeps it there, and Compact keeps the first.
	slices.Reverse(s.list)
	slices.SortStableFunc(s.list, func(a, b entry.Entry) int { return entry.Compare(&a, &b) })
	s.list = slices.CompactFunc(s.list, func(a, b entry.Entry) bool { return entry.Compare(&a, &b) == 0 })
}

// flushList writes the list to a run.
func (s *sorter) flushList() error {
	if len(s.list) == 0 {
		return nil
	}
	s.sort()
	m, err := s.writeRun(func(add func(*entry.Entry) error) error {
		for i := range s.list {
			if err := add(&s.list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	clear(s.list)
	s.list, s.bytes = s.list[:0], 0
	return s.push(0, m, s.joinRuns)
}

// writeRun writes a run of the entries that fill adds, in order.
func (s *sorter) writeRun(fill func(add func(*entry.Entry) error) error) (meta.Run, error) {
	return s.to.writeRun(func(w *run.Writer) error { return fill(w.Add) })
}

// joinRuns makes one run of several.
func (s *sorter) joinRuns(list []meta.Run) (m meta.Run, err error) {
	it, err := s.merged(list)
	if err != nil {
		return m, err
	}
	defer it.Close()
	return s.writeRun(func(add func(*entry.Entry) error) error {
		for ok := it.First(); ok; ok = it.Next() {
			if err := add(it.Entry()); err != nil {
				return err
			}
		}
		return it.Err()
	})
}

// merged returns an iterator over runs. Of entries with the same key and version, that of the
// later run counts.
func (s *sorter) merged(list []meta.Run) (iterator.Iterator, error) {
	var sources []iterator.Iterator
	// The newest run first: of equal entries Merge takes that of the first source.
	for _, m := range slices.Backward(list) {
		r, err := s.reader(m)
		if err != nil {
			return nil, err
		}
		sources = append(sources, r.Copier())
	}
	return iterator.Merge(sources), nil
}

// iterator returns an iterator over all entries that were added. It is valid until removeRuns.
func (s *sorter) iterator() (ordered, error) {
	if len(s.runs) == 0 {
		s.sort()
		return &inMemory{list: s.list, at: -1}, nil
	}
	if err := s.flushList(); err != nil {
		return nil, err
	}
	return s.merged(s.listRuns())
}
