package salvage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
)

// runSource walks what is left of a run, or of one file whose run is not known.
type runSource struct {
	v *survey
	// of the run, in key order; those that can't count are left out
	files      []entry.FileNum
	first      []byte // least and greatest key of the run; nil: not known
	last       []byte
	complete   bool          // all entries are in chunks that were found
	maxVersion entry.Version // of its entries, as far as is known

	i       int          // index in files
	r       *run.Remains // of files[i]; nil: it is not open
	e       *entry.Entry // the present entry; nil: before the first and behind the last one
	key     []byte       // its key while it is parked
	parked  bool
	before  []byte        // key of the entry before
	holes   []run.Hole    // damaged parts between before and e
	told    bool          // the holes before e were reported
	gap     bool          // entries between before and e are lost
	newest  entry.Version // no lost entry is newer; 0: not known
	missing bool          // a file of the run can't be opened
	meta    *layout.Run   // nil: not known
}

// hole is a range of keys of which entries may be lost; nil is no bound.
type hole struct{ lower, upper []byte }

// sources are what is left of all runs.
type sources struct {
	list  []*runSource
	holes []hole // of runs that are missing
}

// openRuns makes a source of each run, and adds their range deletes to strong.
func openRuns(v *survey, strong *sorter) (*sources, error) {
	s := new(sources)
	known := map[entry.FileNum]bool{}
	add := func(r *layout.Run) {
		of := &runSource{v: v, first: r.First, last: r.Last, maxVersion: r.MaxVersion, meta: r}
		for _, f := range r.Files {
			of.files = append(of.files, f.Num)
			known[f.Num] = true
		}
		s.list = append(s.list, of)
	}
	// A file that an exact layout doesn't name is garbage, perhaps with keys that were deleted
	// since.
	if v.exact {
		for _, r := range v.layout.Runs() {
			add(r)
		}
	} else {
		for _, id := range slices.Sorted(maps.Keys(v.live)) {
			r := v.live[id]
			add(&r)
		}
		for _, num := range v.files[filename.Run] {
			if !known[num] && !v.gone[num] {
				s.list = append(s.list, &runSource{v: v, files: []entry.FileNum{num}})
			}
		}
		reason := "runs that were replaced may be read, too: keys that were deleted may be back"
		if !v.told {
			// Any key may have been in a run that is gone, so every record of a segment may count.
			s.holes = append(s.holes, hole{})
			reason = "nothing says which runs there were: keys that were deleted may be back"
		}
		v.loseKeys(damaged(filename.New(filename.Manifest, max(v.manifest, 1)), -1, true, "%s", reason), nil, nil)
	}
	for _, of := range s.list {
		if err := of.inspect(s, strong); err != nil {
			return s, err
		}
	}
	return s, nil
}

// closeSources closes all files.
func (s *sources) closeSources() {
	for _, of := range s.list {
		of.closeFiles()
	}
}

// newestInRuns returns the version up to which all entries are in runs.
func (s *sources) newestInRuns() (v entry.Version) {
	for _, of := range s.list {
		v = max(v, of.maxVersion)
	}
	return v
}

// lost reports whether an entry of this key and version may be one that a run has lost.
func (s *sources) lost(key []byte, v entry.Version) bool {
	return slices.ContainsFunc(s.list, func(of *runSource) bool { return of.lost(key, v) }) ||
		slices.ContainsFunc(s.holes, func(h hole) bool {
			return (h.lower == nil || bytes.Compare(h.lower, key) <= 0) && (h.upper == nil || bytes.Compare(key, h.upper) <= 0)
		})
}

// inspect reads what must be known before the entries are: range deletes and versions.
func (s *runSource) inspect(all *sources, strong *sorter) error {
	var whole = true
	var entries, spans uint64
	for _, num := range slices.Clone(s.files) {
		r := s.openFirst(all, num)
		if r == nil {
			continue
		}
		n, m := r.Entries()
		whole, entries, spans = whole && r.Whole(), entries+n, spans+m
		s.maxVersion = max(s.maxVersion, r.MaxVersion())
		s.v.version = max(s.v.version, s.maxVersion)
		if err := errors.Join(s.addRangeDeletes(r, strong), r.Close()); err != nil {
			return err
		}
	}
	if s.meta != nil && !s.missing {
		// All entries are there, so what is damaged besides (filter, directory, padding) has none.
		s.complete = entries == s.meta.Entries
		if !whole && s.meta.RangeDeletes > 0 && spans == 0 {
			s.v.loseKeys(damaged(filename.New(filename.Run, s.files[0]), -1, true, "range deletes are lost: keys that they deleted may be back"), s.first, s.last)
		}
	}
	return nil
}

// openFirst opens a file of the run for the first time. If the file has nothing that counts, it
// reports that and returns nil.
func (s *runSource) openFirst(all *sources, num entry.FileNum) *run.Remains {
	name := filename.New(filename.Run, num)
	r, err := s.v.openRun(num)
	switch {
	case err != nil && s.meta != nil:
		s.missing = true
	case err != nil:
		s.files = nil
		all.holes = append(all.holes, hole{})
	case s.meta == nil && r.MaxVersion() == 0:
		s.files = nil
		s.v.lose(damaged(name, -1, false, "it is of a large transaction, and nothing says whether that was committed: left out"))
		_ = r.Close()
		return nil
	default:
		return r
	}
	c := damaged(name, -1, true, "it can't be read")
	c.Err = err
	s.v.loseKeys(c, s.first, s.last)
	return nil
}

// addRangeDeletes adds the range deletes of a file to strong.
func (s *runSource) addRangeDeletes(r *run.Remains, strong *sorter) error {
	return r.RangeDeletes(func(e *entry.Entry) error {
		t, ok := run.Span(e)
		if !ok || s.v.forgotten(t.Lo) {
			return nil
		}
		return strong.addRangeDelete(t)
	}, func(h *run.Hole) {
		if h.RangeDeletes {
			s.v.loseKeys(&errs.Corruption{File: h.File, Offset: h.Offset, Stale: true, Reason: "range deletes are damaged: keys that they deleted may be back"}, s.first, s.last)
		}
	})
}

// nextEntry moves to the next entry, and notes what is missing before it.
func (s *runSource) nextEntry() bool {
	if s.parked {
		s.unpark()
	}
	if s.e != nil {
		// Copied: the reader reuses its memory.
		s.before = append(s.before[:0], s.e.Key...)
	}
	s.holes, s.told, s.gap, s.newest = s.holes[:0], false, false, 0
	for s.i < len(s.files) {
		if s.r == nil && !s.openFiles() {
			s.i++
			continue
		}
		e, h := s.r.Next()
		switch {
		// Checksums were right, and the entry has its place in the order.
		case e != nil && s.accepts(e):
			s.e = e
			return true
		case e != nil: // it is passed over
		case h != nil && !h.RangeDeletes:
			s.noteHole(h)
		case h == nil:
			s.closeFiles()
			s.i++
		}
	}
	s.e = nil
	return false
}

// spans is the least first byte of the keys under which runs have range deletes.
const spans = 0xfc

// accepts reports whether an entry counts. Range deletes don't: survey has added them. Nor do
// entries that are out of order or have an impossible version: no writer writes them, and the
// merge relies on the order.
func (s *runSource) accepts(e *entry.Entry) bool {
	return e.Key[0] < spans && e.Version <= entry.MaxVersion && bytes.Compare(e.Key, s.before) >= 0
}

// openFiles opens the present file. If that fails, all its entries count as lost.
func (s *runSource) openFiles() bool {
	num := s.files[s.i]
	r, err := s.v.openRun(num)
	if err != nil { // openFirst has reported it
		s.gap, s.newest = true, s.maxVersion
		return false
	}
	s.r = r
	return true
}

// noteHole remembers a hole before the next entry.
func (s *runSource) noteHole(h *run.Hole) {
	v := h.MaxVersion
	if v == 0 && s.complete { // the hole is in a filter or the directory
		return
	}
	if v == 0 {
		// The hole doesn't say what it had: then at most the newest version of the run.
		v = s.maxVersion
	}
	s.gap, s.newest = true, max(s.newest, v)
	s.holes = append(s.holes, *h)
}

// gapBounds returns the keys between which entries are lost, if gap is set.
func (s *runSource) gapBounds() (lower, upper []byte) {
	// At the first and the last entry, the run's bounds limit what can be lost.
	lower, upper = s.first, s.last
	if len(s.before) > 0 {
		lower = s.before
	}
	if s.e != nil {
		upper = s.e.Key
	}
	return lower, upper
}

// reportHoles reports the holes before e.
func (s *runSource) reportHoles() {
	if s.told {
		return
	}
	s.told = true
	lower, upper := s.gapBounds()
	for _, h := range s.holes {
		s.v.loseKeys(&errs.Corruption{File: h.File, Offset: h.Offset, Stale: true, Reason: fmt.Sprintf("some entries of these %d bytes are damaged", h.Length)}, lower, upper)
	}
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

// park frees the memory of the first chunk, until the merge needs the source.
func (s *runSource) park() {
	s.key = bytes.Clone(s.e.Key)
	s.e = &entry.Entry{Key: s.key, Version: s.e.Version}
	// There may be thousands of runs, and the merge may need this one only near its end.
	s.closeFiles()
	s.parked = true
}

// unpark goes to the first entry again.
func (s *runSource) unpark() {
	s.parked = false
	if !s.openFiles() {
		return
	}
	for {
		e, h := s.r.Next()
		if e != nil && s.accepts(e) {
			s.e = e
			return
		}
		if e == nil && h == nil {
			return
		}
	}
}

// closeFiles closes the present file, if it is open.
func (s *runSource) closeFiles() {
	if s.r != nil {
		_ = s.r.Close()
		s.r = nil
	}
}
