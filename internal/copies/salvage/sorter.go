package salvage

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
)

// sorter sorts entries and range deletes in bounded memory. What exceeds it goes to runs. Enough runs
// of a level become one of the next: so each entry is rewritten once a level, and few runs are read at
// once. Of entries with the same key and version, the one that was added last counts. Runs have the
// newest range delete at each place only: older ones delete nothing more, as the new store has one
// version of each key.
type sorter struct {
	to      *maker
	limit   int64              // bytes of memory from which on all goes to a run
	list    []entry.Entry      // entries in memory, in the order in which they were added
	bytes   int64              // about the memory that they take
	deletes *rangedel.Set      // range deletes in memory; nil: none
	runs    [][]layout.RunMeta // level 0 is the newest; in each level the newest run is last
	open    []*run.Reader      // until closeRuns
}

// fanIn is how many runs of a level become one: so many are open at once, each with a buffer.
const fanIn = 10

// newSorter returns an empty one that takes about limit bytes, at least 1 MiB.
func newSorter(to *maker, limit int64) *sorter {
	return &sorter{to: to, limit: max(limit, 1<<20)}
}

// addEntry adds a copy of e.
func (s *sorter) addEntry(e *entry.Entry) error {
	const beside = 160 // bytes of an entry in memory, beside key and value
	c := *e
	// One allocation for key and value: the source reuses its memory.
	data := append(append(make([]byte, 0, len(e.Key)+len(e.Value)), e.Key...), e.Value...)
	c.Key = data[:len(e.Key):len(e.Key)]
	if c.Value = data[len(e.Key):]; e.Separated || e.Kind == entry.Delete {
		c.Value = nil
	}
	s.list = append(s.list, c)
	s.bytes += int64(len(data)) + beside
	return s.flushFull()
}

// addRangeDelete adds a copy of t.
func (s *sorter) addRangeDelete(t rangedel.Delete) error {
	s.deletes = s.deletes.With(rangedel.Delete{Lo: bytes.Clone(t.Lo), Hi: bytes.Clone(t.Hi), Version: t.Version})
	return s.flushFull()
}

// flushFull writes what is in memory to a run, if that is full.
func (s *sorter) flushFull() error {
	used := s.bytes
	if d := s.deletes; d != nil {
		used += int64(d.Bytes() + d.Memory())
	}
	if used < s.limit {
		return nil
	}
	m, err := s.writeRun(s.sorted(), s.deletes)
	if err != nil {
		return err
	}
	clear(s.list)
	s.list, s.bytes, s.deletes = s.list[:0], 0, nil
	return s.addRun(0, m)
}

// inMemory walks a list forward, which is all that a merge forward needs.
type inMemory struct {
	iterator.Iterator // nil
	list              []entry.Entry
	at                int
}

func (m *inMemory) First() bool         { m.at = -1; return m.Next() }
func (m *inMemory) Next() bool          { m.at++; return m.at < len(m.list) }
func (m *inMemory) Entry() *entry.Entry { return &m.list[m.at] }
func (m *inMemory) Err() error          { return nil }
func (m *inMemory) Close()              {}

// sorted sorts the list, drops entries that a later one with the same key and version replaces, and
// returns a walk. A memtable would take a time by the square of the versions of a key that come in
// descending order, as a collection writes them.
func (s *sorter) sorted() iterator.Iterator {
	// The last added one comes first, a stable sort keeps it there, and Compact keeps the first.
	slices.Reverse(s.list)
	slices.SortStableFunc(s.list, func(a, b entry.Entry) int { return entry.Compare(&a, &b) })
	s.list = slices.CompactFunc(s.list, func(a, b entry.Entry) bool { return entry.Compare(&a, &b) == 0 })
	return &inMemory{list: s.list}
}

// writeRun writes a run of all entries, and of the newest range deletes.
func (s *sorter) writeRun(entries iterator.Iterator, deletes ...rangedel.Source) (layout.RunMeta, error) {
	defer entries.Close()
	cover := rangedel.NewForwardCover(entry.MaxVersion, deletes...)
	defer cover.Close()
	return s.to.writeRun(func(w *run.Writer) error {
		for ok := entries.First(); ok; ok = entries.Next() {
			if err := w.Add(entries.Entry()); err != nil {
				return err
			}
		}
		if err := entries.Err(); err != nil {
			return err
		}
		return cover.Flatten([]byte{0}, nil, w.AddRangeDelete)
	})
}

// addRun adds a run to a level. A full level becomes one run of the next.
func (s *sorter) addRun(level int, m layout.RunMeta) error {
	if level == len(s.runs) {
		s.runs = append(s.runs, nil)
	}
	s.runs[level] = append(s.runs[level], m)
	full := s.runs[level]
	if len(full) < fanIn {
		return nil
	}
	entries, deletes, err := s.openRuns(full)
	if err == nil {
		m, err = s.writeRun(iterator.Merge(entries), deletes...)
	}
	// Before they are removed: some systems remove no open file.
	s.closeRuns()
	if err != nil {
		return err
	}
	// The joined run has all of them.
	s.runs[level] = nil
	if err := s.to.removeRuns(full); err != nil {
		return err
	}
	return s.addRun(level+1, m)
}

// openRuns opens runs, of which the newest is last. They are valid until closeRuns.
func (s *sorter) openRuns(list []layout.RunMeta) (entries []iterator.Iterator, deletes []rangedel.Source, err error) {
	// The newest run first: of equal entries Merge takes that of the first source.
	for _, m := range slices.Backward(list) {
		r, err := s.to.openRun(m)
		if err != nil {
			return nil, nil, err
		}
		s.open = append(s.open, r)
		entries, deletes = append(entries, r.Copier()), append(deletes, r.RangeDeletes())
	}
	return entries, deletes, nil
}

// sources returns all that was added. It is valid until closeRuns.
func (s *sorter) sources() (iterator.Iterator, []rangedel.Source, error) {
	entries, deletes, err := s.openRuns(s.listRuns())
	if err != nil {
		return nil, nil, err
	}
	// What is in memory is the newest.
	entries = slices.Insert(entries, 0, s.sorted())
	return iterator.Merge(entries), append(deletes, s.deletes), nil
}

// listRuns returns all runs, oldest first.
func (s *sorter) listRuns() (list []layout.RunMeta) {
	for _, runs := range slices.Backward(s.runs) {
		list = append(list, runs...)
	}
	return list
}

// closeRuns closes what openRuns has opened.
func (s *sorter) closeRuns() {
	for _, r := range s.open {
		_ = r.Close()
	}
	s.open = nil
}

// removeRuns removes the runs. Nothing that sources has returned may be used any more.
func (s *sorter) removeRuns() error {
	s.closeRuns()
	list := s.listRuns()
	s.runs = nil
	return s.to.removeRuns(list)
}
