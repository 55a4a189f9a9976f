package run

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/offheap"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
)

// How a run's range deletes are written and searched. They are entries in chunks of their own:
// format.go says how.

// AddRangeDelete adds a flat range delete: one beside which readers need no older one at its place.
// Flat ones are added after all entries, in the order of keys, and must not overlap. t may be
// reused at once.
func (w *Writer) AddRangeDelete(t rangedel.Delete) error {
	if err := w.addSpan(flatPrefix(w.key[:0]), t); err != nil {
		return err
	}
	w.countRangeDelete(t)
	w.ranges.flat++
	return nil
}

// AddRanges adds what the sources cover, by flat range deletes of version 0: the version of the run
// is not known yet.
func (w *Writer) AddRanges(sources ...rangedel.Source) error {
	cover := rangedel.NewForwardCover(entry.MaxVersion, sources...)
	defer cover.Close()
	return cover.EachRange([]byte{0}, func(lo, hi []byte) error {
		return w.AddRangeDelete(rangedel.Delete{Lo: lo, Hi: hi})
	})
}

// AddHistory adds a forest of range deletes that may overlap, as readers may need several of them
// at one place. Forests are added after the flat range deletes, each newer than the flat ones at
// its place. The list is in the order of rangedel.Compare, and begins behind the end of the forest
// before. It is in memory, so a long history goes to several forests; with more than one, AddNewest
// has to follow.
func (w *Writer) AddHistory(list []rangedel.Delete) error {
	if len(list) == 0 {
		return nil
	}
	forest := int(w.ranges.forests)
	// findVisiblePart finds forests, and range deletes within one, by binary search for a version.
	if !slices.IsSortedFunc(list, rangedel.Compare) || forest > 0 && list[0].Version < w.last {
		return w.failWith(fmt.Errorf("write run: %w: range deletes out of order", errs.ErrInvalid))
	}
	w.ranges.forests++
	w.last = list[len(list)-1].Version
	return rangedel.WalkForest(list, nodeFanout, func(s rangedel.Span) error {
		// Each range delete is one node of level 0, so it is counted once.
		if s.Level == 0 {
			w.countRangeDelete(s.Delete)
			w.ranges.history++
		}
		return w.addSpan(nodePrefix(w.key[:0], forest, s.Level, s.Node), s.Delete)
	})
}

// AddNewest adds a span of what a reader sees that sees all of several forests: at each place the
// newest range delete. Spans are added in the order of keys and must not overlap.
func (w *Writer) AddNewest(t rangedel.Delete) error {
	// One forest has these spans already: they are its node Top.
	if w.ranges.forests < 2 {
		return w.failWith(fmt.Errorf("write run: %w: the newest of %d forests", errs.ErrInvalid, w.ranges.forests))
	}
	w.newest = true
	return w.addSpan(append(w.key[:0], tagNewest), t)
}

// addSpan adds the entry of t, whose key begins with prefix, a part of w.key.
func (w *Writer) addSpan(prefix []byte, t rangedel.Delete) error {
	if w.err != nil {
		return w.err
	}
	if !t.Valid() {
		return w.failWith(fmt.Errorf("write run: %w: range delete of bounds of %d and %d bytes, version %d", errs.ErrInvalid, len(t.Lo), len(t.Hi), t.Version))
	}
	if !w.ranged {
		// The chunks of entries end here, so that readers tell them apart.
		if !w.b.Empty() {
			if err := w.flushChunk(); err != nil {
				return err
			}
		}
		w.ranged = true
	}
	w.key = append(prefix, t.Hi...)
	return w.addEntry(&entry.Entry{Key: w.key, Value: t.Lo, Version: t.Version, Kind: entry.Set})
}

// countRangeDelete extends the run's bounds and versions.
func (w *Writer) countRangeDelete(t rangedel.Delete) {
	m := &w.rangeDeletes
	if m.RangeDeletes == 0 || bytes.Compare(t.Lo, m.First) < 0 {
		m.First = append(m.First[:0], layout.LowerBound(t.Lo)...)
	}
	// In the memory of the last one: nearly every range delete ends behind the ones before.
	if bytes.Compare(t.Hi, m.Last) > 0 {
		m.Last = append(m.Last[:0], t.Hi...)
	}
	if m.RangeDeletes == 0 || t.Version < m.MinVersion {
		m.MinVersion = t.Version
	}
	m.MaxVersion = max(m.MaxVersion, t.Version)
	m.RangeDeletes++
}

// RangeDeletes are those of a run. Any number of goroutines may use them, below a
// pageio.Guard, until the run is closed. The zero RangeDeletes are empty.
type RangeDeletes struct {
	spans  *Reader // reads their chunks; nil: there are none
	copier *search // of a Copier: the one search that it uses; nil: spans.searches has them
}

var _ rangedel.Source = RangeDeletes{}

// RangeDeletes are the run's. Get and the iterators know nothing of them: ask
// RangeDeletes, too.
func (r *Reader) RangeDeletes() RangeDeletes { return RangeDeletes{spans: r.spans} }

// Empty reports whether there are none.
func (t RangeDeletes) Empty() bool { return t.spans == nil }

// Versions are the least and the greatest version of a range delete.
func (t RangeDeletes) Versions() (least, greatest entry.Version) {
	if t.Empty() {
		return rangedel.Pending, 0
	}
	return t.spans.oldest, t.spans.newest
}

// Find is the method of a rangedel.Source.
func (t RangeDeletes) Find(key []byte, at entry.Version, around *rangedel.Stretch) (entry.Version, error) {
	if t.Empty() || t.spans.oldest > at {
		return 0, nil
	}
	s := t.getSearch()
	defer t.putSearch(s)
	// History first: it is newer than the flat range deletes at its place.
	if t.spans.ranges.history > 0 {
		if v, err := s.findInHistory(key, at, around); v > 0 || err != nil {
			return v, err
		}
	}
	v, err := s.findSpan(flatPrefix(s.prefix[:0]), key, around)
	// A flat span that is too new hides nothing, and there is no older one beside it.
	if v > at {
		v = 0
	}
	return v, err
}

// Newest is Find without a stretch.
func (t RangeDeletes) Newest(key []byte, at entry.Version) (entry.Version, error) {
	return t.Find(key, at, nil)
}

// keptKeys is the most memory for keys that an unused search keeps, in bytes.
const keptKeys = 64 << 10

// search finds spans. It is used by one goroutine at a time, and then again by others.
type search struct {
	cursor
	prefix [nodePrefixLen]byte // scratch, as is key
	key    []byte
	long   offheap.Buffer // memory of key if it is long
}

// getSearch returns a search that nobody else uses. Give it back by putSearch.
func (t RangeDeletes) getSearch() *search {
	if t.copier != nil {
		return t.copier
	}
	if s, _ := t.spans.searches.Get().(*search); s != nil {
		return s
	}
	return t.newSearch()
}

func (t RangeDeletes) newSearch() *search {
	s := &search{cursor: cursor{r: t.spans, i: -1}}
	s.Lent = true
	return s
}

// putSearch gives a search back. Long keys are not kept.
func (t RangeDeletes) putSearch(s *search) {
	if cap(s.key) > keptKeys {
		s.long.Free()
		s.key = nil
	}
	if t.copier != nil && s.holdsLongSpan() {
		s.Close()
	}
	// The collector decides how long an idle search lives, and its memory for keys with it.
	if t.copier == nil && s.KeyRoom() <= keptKeys {
		t.spans.searches.Put(s)
	}
}

// longSpan is the size from which a Copier does not keep the chunk of a single span, in bytes.
const longSpan = 256 << 10

// holdsLongSpan reports whether the search has a copy of a chunk that is a single long span. It is
// not kept: with bounds of 1 MiB it takes 2 MiB, which a compaction would have for each of its
// runs, and it is rarely asked for again (rangedel.Cover remembers the answer).
func (s *search) holdsLongSpan() bool {
	return s.i >= 0 && s.r.chunks[s.i].Entries == 1 && s.r.chunks[s.i].Layout.Size() > longSpan
}

// Copier returns the same range deletes for a caller that writes them elsewhere, as Reader.Copier
// does for entries. It is used by one goroutine, and closed by Close. No method may be called while
// another one runs, so not by the functions that Since and Some call.
func (t RangeDeletes) Copier() RangeDeletes {
	s := t.newSearch()
	s.own, s.Mem = new(offheap.Buffer), new(offheap.Buffer)
	return RangeDeletes{t.spans, s}
}

// Close gives a Copier's memory back; all else belongs to the Reader.
func (t RangeDeletes) Close() {
	if t.copier != nil {
		t.copier.Close()
	}
}

// findSpan returns the version of the span over key among those whose keys begin with prefix, 0 if
// there is none. Unless around is nil, it narrows around to the span or to the gap.
func (s *search) findSpan(prefix, key []byte, around *rangedel.Stretch) (entry.Version, error) {
	n := len(prefix) + len(key) + 1
	if s.key = s.key[:0]; n <= keptKeys {
		s.key = slices.Grow(s.key, n)
	} else {
		// A merge searches in every run for the bound of every span. On the Go heap such
		// keys would soon be more garbage than all of the runs' range deletes take.
		s.key = s.long.Grow(nil, n)
	}
	// A span's key ends with its upper bound, which is not in it: the first one behind key+"\0" is
	// the only one that can cover key.
	s.key = append(append(append(s.key, prefix...), key...), 0)
	if s.SeekGE(s.key) {
		if e := s.Entry(); bytes.HasPrefix(e.Key, prefix) {
			// Checksums prove bytes, not sense: such a span would cover all keys before its end.
			if len(e.Value) == 0 {
				return 0, s.r.corruptSpans("a span without a lower bound")
			}
			if bytes.Compare(e.Value, key) <= 0 {
				around.Within(e.Value, e.Key[len(prefix):])
				return e.Version, nil
			}
			around.Within(nil, e.Value)
		}
	}
	// In a gap: the span before tells where it begins.
	if s.Err() == nil && around != nil && s.SeekLT(s.key) {
		if e := s.Entry(); bytes.HasPrefix(e.Key, prefix) {
			around.Within(e.Key[len(prefix):], nil)
		}
	}
	return 0, s.Err()
}

// findInHistory is Find for the forests.
func (s *search) findInHistory(key []byte, at entry.Version, around *rangedel.Stretch) (v entry.Version, err error) {
	forests := int(s.r.ranges.forests)
	forest, n := forests, 0
	if at < s.r.newest {
		if forest, n, err = s.findVisiblePart(at); err != nil {
			return 0, err
		}
	}
	if forest == forests {
		return s.findSpan(s.r.ranges.newestPrefix(s.prefix[:0]), key, around)
	}
	// The first n range deletes of a forest are the nodes that the digits of n stand for. The
	// newest are asked first, and the first that covers the key counts.
	for level := 0; n > 0; level++ {
		for n%nodeFanout != 0 {
			n--
			if v, err = s.findSpan(nodePrefix(s.prefix[:0], forest, level, n), key, around); v > 0 || err != nil {
				return v, err
			}
		}
		n /= nodeFanout
	}
	for v == 0 && err == nil && forest > 0 {
		forest--
		v, err = s.findSpan(nodePrefix(s.prefix[:0], forest, rangedel.Top, 0), key, around)
	}
	return v, err
}

// findVisiblePart returns of which forest a reader of version at sees only a part, and the number
// of range deletes in that part. Of the forests before, it sees all, and of those behind, nothing.
func (s *search) findVisiblePart(at entry.Version) (forest, n int, err error) {
	// newer moves to range delete n of a forest, and reports whether it is newer than at.
	newer := func(forest, n int) bool {
		s.key = nodePrefix(s.key[:0], forest, 0, n)
		if err == nil && (!s.SeekGE(s.key) || !bytes.HasPrefix(s.Entry().Key, s.key)) {
			if err = s.Err(); err == nil {
				err = s.r.corruptSpans("%d of forest %d is missing", n, forest)
			}
		}
		return err != nil || s.Entry().Version > at
	}
	// Forests, and range deletes within one, are in order of versions, so binary search finds both.
	forests := int(s.r.ranges.forests)
	if forest = sort.Search(forests, func(i int) bool { return newer(i, 0) }) - 1; forest < 0 || err != nil {
		return 0, 0, err
	}
	// The last entry of level 0 tells how many there are.
	s.key = append(forestPrefix(s.key[:0], forest), 1)
	if !s.SeekLT(s.key) || len(s.Entry().Key) < nodePrefixLen {
		return 0, 0, cmp.Or[error](s.Err(), s.r.corruptSpans("forest %d has no end", forest))
	}
	_, last := nodeOf(s.Entry().Key)
	n = sort.Search(last+1, func(i int) bool { return newer(forest, i) })
	if n > last {
		// There may be 16^k of them, which have no node of level k: the node of all must be asked.
		return forest + 1, 0, err
	}
	return forest, n, err
}

// Ordered walks the range deletes that are newer than v: those of the forests, or of a run with a
// stamp the flat ones, which have one version. No other method of a Copier may be called before its
// end.
func (t RangeDeletes) Ordered(v entry.Version) rangedel.Sequence {
	return t.walkNewer(v, !t.Empty() && t.haveOneVersion())
}

// haveOneVersion reports whether all range deletes have one version.
func (t RangeDeletes) haveOneVersion() bool { return t.spans.parent.meta.Stamp > 0 }

// walkNewer walks the range deletes that are newer than v: the flat ones, or those of the forests.
func (t RangeDeletes) walkNewer(v entry.Version, flat bool) rangedel.Sequence {
	if t.Empty() || t.spans.newest <= v || flat && t.spans.ranges.flat == 0 || !flat && t.spans.ranges.history == 0 {
		return (*rangedel.Set)(nil).Ordered(0)
	}
	return &ordered{search: t.getSearch(), source: t, after: v, flat: flat}
}

// ordered walks the range deletes of forests, which are their nodes of level 0, or all flat ones.
type ordered struct {
	*search               // nil at the end
	source  RangeDeletes  // whose range deletes
	after   entry.Version // versions up to this one are left out
	flat    bool          // it walks the flat ones
	forest  int           // number of the current forest
	inside  bool          // the search is inside forest, or the flat ones
}

// Next is the method of a rangedel.Sequence.
func (o *ordered) Next() (d rangedel.Delete, ok bool, err error) {
	var room [leavesPrefixLen]byte
	for o.search != nil {
		prefix, last := flatPrefix(room[:0]), 0
		if !o.flat {
			prefix, last = leavesPrefix(room[:0], o.forest), int(o.source.spans.ranges.forests)-1
		}
		if o.inside {
			ok = o.search.Next()
		} else {
			o.inside, ok = true, o.SeekGE(prefix)
		}
		ok = ok && bytes.HasPrefix(o.Entry().Key, prefix)
		switch {
		case o.Err() != nil || !ok && o.forest == last:
			err = o.Err()
			// Who stops earlier leaves the search to the collector, or to Close of a Copier.
			o.source.putSearch(o.search)
			o.search = nil
			return d, false, err
		case !ok:
			o.forest, o.inside = o.forest+1, false
		case o.Entry().Version > o.after:
			if d, ok = spanOf(o.Entry()); !ok {
				return d, false, o.r.corruptSpans("bad bounds")
			}
			return d, true, nil
		}
	}
	return d, false, nil
}

// Since calls fn for the range deletes that are newer than v, in any order, until it returns an
// error. The bounds are valid until fn returns.
func (t RangeDeletes) Since(v entry.Version, fn func(rangedel.Delete) error) error {
	if err := t.Flat(v, fn); err != nil {
		return err
	}
	return rangedel.MergeSequences([]rangedel.Sequence{t.Ordered(v)}, fn)
}

// Flat is Since for those that Ordered leaves out: flat ones, unless the run has a stamp.
func (t RangeDeletes) Flat(v entry.Version, fn func(rangedel.Delete) error) error {
	// With a stamp Ordered walks the flat ones: here they would come a second time.
	if t.Empty() || t.haveOneVersion() {
		return nil
	}
	return rangedel.MergeSequences([]rangedel.Sequence{t.walkNewer(v, true)}, fn)
}

// Some calls fn for a sample of at most n range deletes, spread evenly. Each of them stands for so
// many range deletes (each). What can't be read is left out. The bounds are valid until fn returns.
func (t RangeDeletes) Some(n int, fn func(d rangedel.Delete, each int64)) {
	if t.Empty() {
		return
	}
	total := int(t.spans.ranges.flat + t.spans.ranges.history)
	if total <= n {
		_ = t.Since(0, func(d rangedel.Delete) error {
			fn(d, 1)
			return nil
		})
		return
	}
	// Split cuts behind the first key only, so the first span is asked by its prefix.
	first := flatPrefix(nil)
	if t.spans.ranges.flat == 0 {
		first = leavesPrefix(nil, 0)
	}
	s := t.getSearch()
	defer t.putSearch(s)
	// A span of a node above level 0 is part of a range delete: it is as good for a sample.
	cuts := append([][]byte{first}, t.spans.Split(nil, nil, n)...)
	for _, key := range cuts {
		if s.SeekGE(key) {
			if d, ok := spanOf(s.Entry()); ok {
				fn(d, int64(total/len(cuts)))
			}
		}
	}
}

// spanOf returns the span that the entry e stands for. ok is false if e is none. The span
// shares the memory of e.
func spanOf(e *entry.Entry) (t rangedel.Delete, ok bool) {
	n := prefixLen(e.Key)
	if len(e.Key) <= n {
		return t, false
	}
	t = rangedel.Delete{Lo: e.Value, Hi: e.Key[n:], Version: e.Version}
	return t, t.Valid()
}

// prefixLen returns the length of the prefix of a span's key.
func prefixLen(key []byte) int {
	if len(key) > 0 && key[0] == tagNode {
		return nodePrefixLen
	}
	return 1
}

// corruptSpans returns a Corruption of the range deletes that r reads.
func (r *Reader) corruptSpans(format string, args ...any) *errs.Corruption {
	return errs.NewCorruption(r.parent.files[0].Name(), -1, "range deletes: "+format, args...)
}

// ChangedSince reports whether a range delete newer than since covers a key in [lo, hi); a nil hi
// is no bound. It reads at most two chunks.
func (t RangeDeletes) ChangedSince(lo, hi []byte, since entry.Version) (bool, error) {
	if t.Empty() || t.spans.newest <= since || hi != nil && bytes.Compare(lo, hi) >= 0 {
		return false, nil
	}
	s := t.getSearch()
	defer t.putSearch(s)
	changed, err := s.spansChangedSince(flatPrefix(nil), lo, hi, since)
	// The newest span at a place is enough: if it is not newer than since, no other one there is.
	if !changed && err == nil && t.spans.ranges.history > 0 {
		changed, err = s.spansChangedSince(t.spans.ranges.newestPrefix(nil), lo, hi, since)
	}
	return changed, err
}

// spansChangedSince is ChangedSince for the spans whose keys begin with prefix.
func (s *search) spansChangedSince(prefix, lo, hi []byte, since entry.Version) (bool, error) {
	// Spans that end in (lo, hi] have keys in the range. The one behind them may begin there.
	from := append(append(bytes.Clone(prefix), lo...), 0)
	to := append(append(bytes.Clone(prefix), hi...), 0)
	if hi == nil {
		to = afterPrefix(prefix)
	}
	if changed, err := s.r.ChangedSince(from, to, since); changed || err != nil {
		return changed, err
	}
	if hi == nil || !s.SeekGE(to) {
		return false, s.Err()
	}
	e := s.Entry()
	return bytes.HasPrefix(e.Key, prefix) && e.Version > since && bytes.Compare(e.Value, hi) < 0, nil
}

// afterPrefix is the bound after all keys that begin with prefix, nil if there is none.
func afterPrefix(prefix []byte) []byte {
	p := bytes.Clone(prefix)
	for i := len(p) - 1; i >= 0; i-- {
		if p[i]++; p[i] != 0 {
			return p[:i+1]
		}
	}
	return nil
}

// verifySpans is Verify for the range deletes: that spans are disjoint, and as many as the
// directory says.
func (t RangeDeletes) verifySpans(ctx context.Context, report func(*errs.Corruption)) {
	if t.Empty() {
		return
	}
	v := newVerifier(t.spans, report)
	var have ranges
	var before []byte // key of the span before
	v.each = func(e *entry.Entry) {
		n := prefixLen(e.Key)
		if _, ok := spanOf(e); !ok || len(before) > n && bytes.Equal(before[:n], e.Key[:n]) && bytes.Compare(before[n:], e.Value) > 0 {
			v.reportDamage(t.spans.corruptSpans("bad bounds, or out of order"))
			return // a key this short has no node
		}
		before = append(before[:0], e.Key...)
		switch e.Key[0] {
		case tagFlat:
			have.flat++
		case tagNode:
			// Each range delete is one node of level 0, and each forest has a first one.
			if level, node := nodeOf(e.Key); level == 0 {
				have.history++
				if node == 0 {
					have.forests++
				}
			}
		}
	}
	v.verifyChunks(ctx)
	// Behind other damage they can't be counted.
	if v.found == 0 && ctx.Err() == nil && have != t.spans.ranges {
		v.reportDamage(t.spans.corruptSpans("%v, the directory says %v", have, t.spans.ranges))
	}
}
