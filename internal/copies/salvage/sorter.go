package salvage

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/hash"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/memtable"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/meta"
)

// sorter sorts entries and range deletes in bounded memory, as the store itself does: in a memtable,
// which is flushed to a run when it is full. Enough runs of a level become one of the next: so each
// entry is rewritten once a level, and few runs are read at once. Of entries with the same key and
// version, the one that was added last counts. Runs have the newest range delete at each place only:
// older ones delete nothing more, as the new store has one version of each key.
type sorter struct {
	to    *maker
	limit int64           // bytes of memory at which the memtable is flushed
	table *memtable.Table // what no run has yet
	runs  [][]meta.Run    // level 0 is the newest; in each level the newest run is last
	open  []*run.Reader   // until closeRuns
}

// fanIn is how many runs of a level become one: so many are open at once, each with a buffer.
const fanIn = 10

// newSorter returns an empty one that takes about limit bytes, at least 1 MiB.
func newSorter(to *maker, limit int64) *sorter {
	// A memtable that is half full has room for any entry.
	s := &sorter{to: to, limit: min(max(limit, 1<<20), memtable.MaxBytes/2)}
	s.beginTable()
	return s
}

// beginTable makes an empty memtable.
func (s *sorter) beginTable() {
	s.table = memtable.New(memtable.Options{Seed: s.to.Seed, Limit: int(s.limit)})
}

// addEntry adds a copy of e.
func (s *sorter) addEntry(e *entry.Entry) error {
	if err := s.table.Add(hash.Sum(s.to.Seed, e.Key), e); err != nil {
		return err
	}
	return s.flushFull()
}

// addRangeDelete adds a copy of t.
func (s *sorter) addRangeDelete(t rangedel.Tombstone) error {
	if err := s.table.DeleteRange(t.Lo, t.Hi, t.Version); err != nil {
		return err
	}
	return s.flushFull()
}

// flushFull writes the memtable to a run if it is full.
func (s *sorter) flushFull() error {
	if s.table.Bytes() < s.limit {
		return nil
	}
	m, err := s.writeRun(s.table.Sorted(), s.table.Tombstones())
	if err != nil {
		return err
	}
	s.table.Release()
	s.beginTable()
	return s.addRun(0, m)
}

// writeRun writes a run of all entries, and of the newest range deletes.
func (s *sorter) writeRun(entries iterator.Iterator, deletes ...rangedel.Source) (meta.Run, error) {
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
		return cover.Flatten([]byte{0}, nil, w.AddTombstone)
	})
}

// addRun adds a run to a level. A full level becomes one run of the next.
func (s *sorter) addRun(level int, m meta.Run) error {
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
func (s *sorter) openRuns(list []meta.Run) (entries []iterator.Iterator, deletes []rangedel.Source, err error) {
	// The newest run first: of equal entries Merge takes that of the first source.
	for _, m := range slices.Backward(list) {
		r, err := s.to.openRun(m)
		if err != nil {
			return nil, nil, err
		}
		s.open = append(s.open, r)
		entries, deletes = append(entries, r.Copier()), append(deletes, r.Tombstones())
	}
	return entries, deletes, nil
}

// sources returns all that was added. It is valid until close.
func (s *sorter) sources() (iterator.Iterator, []rangedel.Source, error) {
	entries, deletes, err := s.openRuns(s.listRuns())
	if err != nil {
		return nil, nil, err
	}
	// What is in memory is the newest.
	entries = slices.Insert(entries, 0, s.table.Sorted())
	return iterator.Merge(entries), append(deletes, s.table.Tombstones()), nil
}

// listRuns returns all runs, oldest first.
func (s *sorter) listRuns() (list []meta.Run) {
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

// close closes the runs, and frees the memory.
func (s *sorter) close() {
	s.closeRuns()
	s.table.Release()
}

// removeRuns removes the runs. Nothing that sources has returned may be used any more.
func (s *sorter) removeRuns() error {
	s.closeRuns()
	list := s.listRuns()
	s.runs = nil
	return s.to.removeRuns(list)
}
