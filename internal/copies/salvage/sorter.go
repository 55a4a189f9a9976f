package salvage

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
)

// sorter sorts entries and range deletes in bounded memory. What exceeds it goes to runs. Ten of
// them become one, ten such runs become one again, and so on: so each entry is rewritten once a
// level, and few runs are read at once. Of entries with the same key and version, the one that was
// added last counts. Runs have the newest range delete at each place only: older ones delete
// nothing more, as the new store has one version of each key.
type sorter struct {
	to      *maker
	limit   int64         // bytes of memory from which on all goes to a run
	list    []entry.Entry // entries in memory, in the order in which they were added
	bytes   int64         // about the memory that they take
	deletes *rangedel.Set // range deletes in memory; nil: none
	runs    []*view.Run   // newest first
	flushes int           // how often memory was written to a run
}

// fanIn is how many runs become one: so many of a level are open at once, each with a buffer.
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
	err := s.joinRuns(0, s.sortList(), s.deletes)
	clear(s.list)
	s.list, s.bytes, s.deletes = s.list[:0], 0, nil
	s.flushes++
	// As a carry in a sum: where the number of flushes ends with zeros, the newest runs are full
	// sets of each of these levels.
	for n := s.flushes; err == nil && n%fanIn == 0; n /= fanIn {
		entries, deletes := s.walkRuns(fanIn)
		err = s.joinRuns(fanIn, iterator.Merge(entries), deletes...)
	}
	return err
}

// joinRuns writes a run of all entries, and of the newest range deletes, in the place of the newest
// n runs.
func (s *sorter) joinRuns(n int, entries iterator.Iterator, deletes ...rangedel.Source) error {
	m, err := s.writeRun(entries, deletes...)
	if err == nil {
		err = s.removeRuns(n)
	}
	if err != nil {
		return err
	}
	r, err := s.to.open.OpenRun(&layout.Run{RunMeta: m})
	if err != nil {
		return err
	}
	s.runs = slices.Insert(s.runs, 0, r)
	return nil
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

// sortList sorts the list, drops entries that a later one with the same key and version replaces,
// and returns a walk. A memtable would take a time by the square of the versions of a key that come
// in descending order, as a collection writes them.
func (s *sorter) sortList() iterator.Iterator {
	// The last added one comes first, a stable sort keeps it there, and Compact keeps the first.
	slices.Reverse(s.list)
	slices.SortStableFunc(s.list, func(a, b entry.Entry) int { return entry.Compare(&a, &b) })
	s.list = slices.CompactFunc(s.list, func(a, b entry.Entry) bool { return entry.Compare(&a, &b) == 0 })
	return &inMemory{list: s.list}
}

// writeRun writes a run, which needs no sync: it is removed before the store is finished.
func (s *sorter) writeRun(entries iterator.Iterator, deletes ...rangedel.Source) (m layout.RunMeta, err error) {
	defer entries.Close()
	cover := rangedel.NewForwardCover(entry.MaxVersion, deletes...)
	defer cover.Close()
	// As at the bottom of a store, no filter: no get looks for a key.
	w := s.to.open.NewRunWriter(true, nil, nil).WithoutSync()
	for ok := entries.First(); ok && err == nil; ok = entries.Next() {
		err = w.Add(entries.Entry())
	}
	if err = cmp.Or(err, entries.Err()); err == nil {
		err = cover.Flatten([]byte{0}, nil, w.AddRangeDelete)
	}
	if err != nil {
		w.Abort()
		return m, err
	}
	return w.Finish()
}

// walkRuns returns what is in the newest n runs.
func (s *sorter) walkRuns(n int) (entries []iterator.Iterator, deletes []rangedel.Source) {
	// The newest run first: of equal entries Merge takes that of the first source.
	for _, r := range s.runs[:n] {
		entries, deletes = append(entries, r.Copier()), append(deletes, r.RangeDeletes())
	}
	return entries, deletes
}

// sources returns all that was added. It is valid until removeRuns.
func (s *sorter) sources() (iterator.Iterator, []rangedel.Source) {
	entries, deletes := s.walkRuns(len(s.runs))
	// What is in memory is the newest.
	return iterator.Merge(slices.Insert(entries, 0, s.sortList())), append(deletes, s.deletes)
}

// removeRuns removes the newest n runs.
func (s *sorter) removeRuns(n int) (err error) {
	for _, r := range s.runs[:n] {
		// Before it is removed: some systems remove no open file.
		err = cmp.Or(err, r.Close())
		for _, f := range r.Meta().Files {
			err = cmp.Or(err, s.to.FS.Remove(s.to.Path(filename.New(filename.Run, f.Num))))
		}
	}
	s.runs = s.runs[n:]
	return err
}

// removeAll removes all runs. Nothing that sources has returned may be used any more.
func (s *sorter) removeAll() error { return s.removeRuns(len(s.runs)) }
