package salvage

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
)

// runSource walks what is left of a run, or of one file whose run is not known. Of
// iterator.Iterator it has what a merge forward needs.
type runSource struct {
	iterator.Iterator // nil
	v                 *survey
	named             bool           // an edit or a list has meta; else it has one file only
	meta              layout.RunMeta // of the run, as far as is known
	// of the run, in key order; nil: it can't be read, and all its entries are lost
	files    []*run.Remains
	complete bool // all entries are in chunks that were found

	i      int           // index in files
	e      *entry.Entry  // the present entry; nil: before the first and behind the last one
	before []byte        // key of the entry before; first, if there is none
	gap    bool          // entries between before and e are lost
	newest entry.Version // no lost entry is newer; 0: not known
}

// sources are what is left of all runs.
type sources struct {
	list    []*runSource  // newest first, as far as is known
	unknown bool          // there may have been others
	newest  entry.Version // all entries up to this version are in runs
}

// openRuns makes a source of each run, and adds their range deletes to strong.
func openRuns(v *survey, strong *sorter) (*sources, error) {
	s := new(sources)
	if !v.exact {
		// Any key may have been in a run that is gone, so every record of a segment may count.
		s.unknown = !v.told
		reason := "runs that were replaced may be read, too: keys that were deleted may be back"
		if s.unknown {
			reason = "nothing says which runs there were: keys that were deleted may be back"
		}
		v.reportLostKeys(newLoss(filename.New(filename.Manifest, max(v.manifest, 1)), -1, true, "%s", reason), nil, nil)
	}
	named := map[entry.FileNum]bool{}
	for _, r := range slices.SortedFunc(maps.Values(v.live), func(a, b *layout.Run) int { return cmp.Compare(b.ID, a.ID) }) {
		for _, f := range r.Files {
			named[f.Num] = true
		}
		s.list = append(s.list, &runSource{v: v, named: true, meta: r.RunMeta})
	}
	// A file that an exact layout doesn't name is garbage, perhaps with keys that were deleted
	// since.
	for _, num := range slices.Backward(v.files[filename.Run]) {
		if !v.exact && !named[num] && !v.gone[num] {
			s.list = append(s.list, &runSource{v: v, meta: layout.RunMeta{Files: []layout.RunFile{{Num: num}}}})
		}
	}
	for _, of := range s.list {
		if err := of.openFiles(strong); err != nil {
			return s, err
		}
		s.newest = max(s.newest, of.meta.MaxVersion)
	}
	v.version = max(v.version, s.newest)
	return s, nil
}

// closeSources closes all files.
func (s *sources) closeSources() {
	for _, of := range s.list {
		of.Close()
	}
}

// lost reports whether an entry of this key and version may be one that a run has lost.
func (s *sources) lost(key []byte, v entry.Version) bool {
	return s.unknown || slices.ContainsFunc(s.list, func(of *runSource) bool { return of.lost(key, v) })
}

// openFiles opens the files of the run, and reads what must be known before the entries are: range
// deletes and versions.
func (s *runSource) openFiles(strong *sorter) error {
	whole, missing := true, false
	var entries, spans uint64
	for _, f := range s.meta.Files {
		name := filename.New(filename.Run, f.Num)
		r, err := s.v.openRun(f.Num)
		if err != nil {
			c := newLoss(name, -1, true, "it can't be read")
			c.Err = err
			s.v.reportLostKeys(c, s.meta.First, s.meta.Last)
			missing = true
			s.files = append(s.files, nil)
			continue
		}
		s.files = append(s.files, r)
		if !s.named && r.MaxVersion() == 0 {
			s.v.reportLoss(newLoss(name, -1, false, "it is of a large transaction, and nothing says whether that was committed: left out"))
			s.Close()
			break
		}
		if !s.named {
			s.meta.First = r.First()
		}
		n, m := r.Entries()
		whole, entries, spans = whole && r.Whole(), entries+n, spans+m
		s.meta.MaxVersion = max(s.meta.MaxVersion, r.MaxVersion())
		if err := s.addRangeDeletes(r, strong); err != nil {
			return err
		}
	}
	s.before = bytes.Clone(s.meta.First)
	if s.named && !missing {
		// All entries are there, so what is damaged besides (filter, directory, padding) has none.
		s.complete = entries == s.meta.Entries
		if !whole && s.meta.RangeDeletes > 0 && spans == 0 {
			s.v.reportLostKeys(newLoss(filename.New(filename.Run, s.meta.Files[0].Num), -1, true, "range deletes are lost: keys that they deleted may be back"), s.meta.First, s.meta.Last)
		}
	}
	return nil
}

// addRangeDeletes adds the range deletes of a file to strong.
func (s *runSource) addRangeDeletes(r *run.Remains, strong *sorter) error {
	r.Rewind(true)
	defer r.Rewind(false)
	for e, h := r.Next(); e != nil || h != nil; e, h = r.Next() {
		if h != nil && h.RangeDeletes {
			s.v.reportLostKeys(&errs.Corruption{File: h.File, Offset: h.Offset, Stale: true, Reason: "range deletes are damaged: keys that they deleted may be back"}, s.meta.First, s.meta.Last)
		}
		if h != nil {
			continue
		}
		if t, ok := run.Span(e); ok && !s.v.isForgotten(t.Lo) {
			if err := strong.addRangeDelete(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ends returns bounds of the run, so that the merge reads nothing of it before it comes to its
// keys.
func (s *runSource) Ends() (first, last *entry.Entry) {
	if len(s.meta.First) == 0 {
		return nil, nil
	}
	return &entry.Entry{Key: s.meta.First, Version: math.MaxUint64}, &entry.Entry{Key: s.meta.Last}
}

func (s *runSource) First() bool         { return s.Next() }
func (s *runSource) Entry() *entry.Entry { return s.e }
func (s *runSource) Err() error          { return nil }

// Next moves to the next entry, and notes and reports what is missing before it.
func (s *runSource) Next() bool {
	if s.e != nil {
		// Copied: the reader reuses its memory.
		s.before = append(s.before[:0], s.e.Key...)
	}
	var holes []*run.Hole
	s.e, s.gap, s.newest = nil, false, 0
	for s.e == nil && s.i < len(s.files) {
		r := s.files[s.i]
		if r == nil { // openFiles has reported it
			s.gap, s.newest = true, s.meta.MaxVersion
			s.i++
			continue
		}
		e, h := r.Next()
		switch {
		// Checksums were right, and the entry has its place in the order.
		case e != nil && s.acceptsEntry(e):
			s.e = e
		case e != nil: // it is passed over
		case h == nil:
			s.i++
		case s.noteHole(h):
			holes = append(holes, h)
		}
	}
	// Only now is it known which keys may be lost.
	lower, upper := s.gapBounds()
	for _, h := range holes {
		s.v.reportLostKeys(&errs.Corruption{File: h.File, Offset: h.Offset, Stale: true, Reason: fmt.Sprintf("some entries of these %d bytes are damaged", h.Length)}, lower, upper)
	}
	return s.e != nil
}

// acceptsEntry reports whether an entry counts. Those that are out of order or have an impossible
// version don't: no writer writes them, and the merge relies on the order.
func (s *runSource) acceptsEntry(e *entry.Entry) bool {
	return e.Version <= entry.MaxVersion && bytes.Compare(e.Key, s.before) >= 0
}

// noteHole notes a hole before the next entry. It returns false if no entry is lost there.
func (s *runSource) noteHole(h *run.Hole) bool {
	v := h.MaxVersion
	if v == 0 && s.complete { // the hole is in a filter or the directory
		return false
	}
	if v == 0 {
		// The hole doesn't say what it had: then at most the newest version of the run.
		v = s.meta.MaxVersion
	}
	s.gap, s.newest = true, max(s.newest, v)
	return true
}

// gapBounds returns the keys between which entries are lost, if gap is set.
func (s *runSource) gapBounds() (lower, upper []byte) {
	// At the last entry, as at the first, the run's bounds limit what can be lost.
	lower, upper = s.before, s.meta.Last
	if s.e != nil {
		upper = s.e.Key
	}
	return lower, upper
}

// lost reports whether an entry of this key and version may be among those that are lost
// before e.
func (s *runSource) lost(key []byte, v entry.Version) bool {
	if !s.gap || s.newest != 0 && v > s.newest {
		return false
	}
	lower, upper := s.gapBounds()
	return (lower == nil || bytes.Compare(lower, key) <= 0) && (upper == nil || bytes.Compare(key, upper) <= 0)
}

// Close closes the files.
func (s *runSource) Close() {
	for _, r := range s.files {
		if r != nil {
			_ = r.Close()
		}
	}
	s.files = nil
}
