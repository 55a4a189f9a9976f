package emptied

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/hash"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/memtable"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

const testSeed = 7

// store has Views of memtables and of runs, which are memtables as well, and does all
// work at once.
type store struct {
	t       testing.TB
	tracker *Tracker
	view    *view
	version entry.Version // published
	clock   uint64
	readers []*reader
	hasty   bool   // flushes don't search before
	applied func() // called when part of a commit is in the memtable; may be nil
}

// view is a Source.
type view struct {
	tables, runs []*memtable.Table // newest first
	known        Known
}

func newTable() *memtable.Table {
	return memtable.New(memtable.Options{Seed: testSeed, Limit: 1 << 20})
}

func newStore(t testing.TB) *store {
	return &store{t: t, tracker: NewTracker(Options{Seed: testSeed}), view: &view{tables: []*memtable.Table{newTable()}}}
}

func (v *view) Memtables() []*memtable.Table { return v.tables }

func (v *view) RunsUpTo() (upTo entry.Version) {
	for _, r := range v.runs {
		upTo = max(upTo, r.MaxVersion())
	}
	return upTo
}

func (v *view) Below(i int, upTo entry.Version) (iterator.Iterator, *rangedel.Cover) {
	var sources []iterator.Iterator
	sets := v.known.AppendTo(nil)
	for _, m := range slices.Concat(v.tables[i+1:], v.runs) {
		sources = append(sources, m.Iterator())
		sets = append(sets, m.Tombstones())
	}
	return iterator.Merge(sources), rangedel.NewCover(upTo, sets...)
}

func (v *view) Entries(lo, hi []byte) (n int) {
	for _, m := range slices.Concat(v.tables, v.runs) {
		n += m.Between(lo, hi)
	}
	return n
}

// install makes the View of these tables and runs the current one.
func (s *store) install(tables, runs []*memtable.Table) {
	next := &view{tables: tables, runs: runs}
	next.known.Inherit(&s.view.known)
	s.view = next
}

func add(to *memtable.Table, v entry.Version, ops []entry.Entry) {
	for _, e := range ops {
		e.Version = v
		var err error
		if e.Kind == entry.RangeDelete {
			err = to.DeleteRange(e.Key, e.Value, v)
		} else {
			err = to.Add(hash.Sum(testSeed, e.Key), &e)
		}
		if err != nil {
			panic(err)
		}
	}
}

// commit commits ops as one transaction.
func (s *store) commit(ops ...entry.Entry) {
	for i := range ops {
		add(s.view.tables[0], s.version+1, ops[i:i+1])
		if s.applied != nil {
			s.applied()
		}
	}
	s.version++
	n := Count{Entries: int64(len(ops))}
	for _, e := range ops {
		if e.Kind == entry.Delete {
			n.Deletes++
		}
	}
	s.tracker.Added(n)
	s.tracker.Published(&s.view.known)
	if s.tracker.Late() {
		s.search()
	}
}

func (s *store) search() {
	s.view.known.Apply(s.tracker.Search(s.view, &s.view.known, s.version, s.tracker.Count()))
}

func (s *store) seal() {
	s.install(append([]*memtable.Table{newTable()}, s.view.tables...), s.view.runs)
}

// flush makes runs of all memtables.
func (s *store) flush() {
	s.seal()
	if !s.hasty && s.tracker.Behind(&s.view.known) {
		s.search()
	}
	for n := len(s.view.tables); n > 1; n-- {
		s.install(s.view.tables[:n-1], append([]*memtable.Table{s.view.tables[n-1]}, s.view.runs...))
	}
}

// commitSpilled commits ops as a transaction larger than its memory.
func (s *store) commitSpilled(meanwhile func(), ops ...entry.Entry) {
	s.flush()
	writes := newTable()
	add(writes, 1, ops)
	checked, found := s.version, s.tracker.SearchWrites(writes.Iterator(), s.view)
	meanwhile()
	s.flush()
	var touched [][]byte
	for _, r := range s.view.runs {
		for key := range r.Arrivals(checked, s.version) {
			touched = append(touched, key)
		}
	}
	s.version++
	run := newTable()
	add(run, s.version, ops)
	s.install(s.view.tables, append([]*memtable.Table{run}, s.view.runs...))
	s.view.known.Apply(Committed(found, touched, s.version))
}

// compact merges all runs into one, and drops what no reader sees.
func (s *store) compact() {
	out, sources := newTable(), []iterator.Iterator{}
	for _, r := range slices.Backward(s.view.runs) {
		sources = append(sources, r.Iterator())
		for _, d := range r.Tombstones().All() {
			add(out, d.Version, []entry.Entry{{Kind: entry.RangeDelete, Key: d.Lo, Value: d.Hi}})
		}
	}
	it := iterator.Merge(sources)
	defer it.Close()
	var versions []entry.Entry // of one key, newest first
	var kept []entry.Entry
	end := func() {
		seenBy := []entry.Version{s.version}
		for _, r := range s.readers {
			seenBy = append(seenBy, r.version)
		}
		var stay []entry.Entry
		for _, e := range versions {
			sees := func(v entry.Version) bool { return v >= e.Version }
			if slices.ContainsFunc(seenBy, sees) {
				stay = append(stay, e)
			}
			seenBy = slices.DeleteFunc(seenBy, sees)
		}
		for len(stay) > 0 && !stay[len(stay)-1].Live(s.clock) {
			stay = stay[:len(stay)-1]
		}
		kept, versions = append(kept, stay...), nil
	}
	for ok := it.First(); ok; ok = it.Next() {
		e := *it.Entry()
		if e.Key = bytes.Clone(e.Key); len(versions) > 0 && !bytes.Equal(versions[0].Key, e.Key) {
			end()
		}
		versions = append(versions, e)
	}
	end()
	slices.SortStableFunc(kept, func(a, b entry.Entry) int { return int(a.Version) - int(b.Version) })
	for _, e := range kept { // in the order of versions, as a memtable wants them
		add(out, e.Version, []entry.Entry{e})
	}
	out.Iterator().Close() // Between counts what an iterator has met
	s.install(s.view.tables, []*memtable.Table{out})
	s.view.known.Apply(s.tracker.Prune(s.view, &s.view.known))
}

// reader holds a View and a version.
type reader struct {
	store   *store
	view    *view
	version entry.Version
	clock   uint64
	quiet   bool // notes nothing
}

func (s *store) reader() *reader {
	return &reader{store: s, view: s.view, version: s.version, clock: s.clock}
}

func (s *store) pin() *reader {
	r := s.reader()
	s.readers = append(s.readers, r)
	return r
}

func (s *store) unpin(i int) { s.readers = slices.Delete(s.readers, i, i+1) }

// truth are the keys that r sees, told without what is known to be emptied.
func (r *reader) truth() (keys []string) {
	it, _ := r.view.Below(-1, 0)
	defer it.Close()
	last := ""
	for ok := it.First(); ok; ok = it.Next() {
		e := it.Entry()
		if e.Version > r.version || string(e.Key) == last {
			continue
		}
		last = string(e.Key)
		hidden := false
		for _, m := range slices.Concat(r.view.tables, r.view.runs) {
			hidden = hidden || m.Tombstones().Newest(e.Key, r.version) > e.Version
		}
		if !hidden && e.Live(r.clock) {
			keys = append(keys, last)
		}
	}
	return keys
}

// scan is what a seek and the moves after it do: it skips what is known to be emptied,
// and notes what it has walked past, if that is much.
type scan struct {
	keys  []string
	steps int // entries met
}

const (
	testBegins = 4  // deleted keys in a row after which a range begins
	testNotes  = 20 // and is noted
)

// forward walks from a key to the most-th that is visible.
func (r *reader) forward(from []byte, most int) (s scan) {
	it, cover := r.view.Below(-1, r.version)
	defer it.Close()
	var last, begin []byte
	passed := 0
	end := func(hi []byte) {
		if passed >= testNotes {
			r.note(begin, hi)
		}
		passed = 0
	}
	for ok := it.SeekGE(from); ok && len(s.keys) < most; {
		e := it.Entry()
		s.steps++
		hidden := cover != nil && e.Version < cover.Newest(e.Key)
		switch {
		case e.Version > r.version || bytes.Equal(e.Key, last):
		case hidden || e.Kind == entry.Delete:
			if passed++; passed == testBegins {
				begin = bytes.Clone(e.Key)
			}
			last = bytes.Clone(e.Key)
		default:
			end(bytes.Clone(e.Key))
			last = bytes.Clone(e.Key)
			if e.Live(r.clock) {
				s.keys = append(s.keys, string(last))
			}
		}
		if hidden {
			newest := cover.Newest(e.Key)
			_, hi := cover.Stretch()
			ok = it.SkipGE(hi, newest)
			continue
		}
		ok = it.Next()
	}
	if len(s.keys) < most {
		end([]byte{0xff})
	}
	return s
}

// back walks from the end and mirrors forward, for all keys.
func (r *reader) back() (s scan) {
	it, cover := r.view.Below(-1, r.version)
	defer it.Close()
	var key, end []byte
	var newest entry.Entry // of key, that r may see
	passed := 0
	leave := func() {
		switch {
		case newest.Key == nil:
		case newest.Kind == entry.Delete || cover != nil && newest.Version < cover.Newest(key):
			if passed++; passed == testBegins {
				end = key
			}
		default:
			if passed >= testNotes {
				r.note(append(bytes.Clone(key), 0), end)
			}
			passed = 0
			if newest.Live(r.clock) {
				s.keys = append(s.keys, string(key))
			}
		}
		newest = entry.Entry{}
	}
	for ok := it.Last(); ok; {
		e := it.Entry()
		s.steps++
		if !bytes.Equal(e.Key, key) {
			leave()
			key = bytes.Clone(e.Key)
		}
		if e.Version <= r.version {
			newest = *e
		}
		if cover != nil && e.Version < cover.Newest(e.Key) {
			v := cover.Newest(e.Key)
			lo, _ := cover.Stretch()
			ok = it.SkipLT(lo, v)
			continue
		}
		ok = it.Prev()
	}
	leave()
	if passed >= testNotes {
		r.note([]byte{0}, end)
	}
	slices.Reverse(s.keys)
	return s
}

// note is what a Pin does with what a walk has passed.
func (r *reader) note(lo, hi []byte) {
	if r.quiet {
		return
	}
	e := rangedel.Emptied(lo, hi, r.version)
	r.view.known.Note(e)
	if r.view != r.store.view {
		r.store.view.known.Note(e)
	}
}

// check fails if r does not see what is true, in either direction.
func (r *reader) check() (skips bool) {
	r.store.t.Helper()
	want := r.truth()
	forward, back := r.forward([]byte{0}, 1<<30), r.back()
	for _, got := range []scan{forward, back} {
		if !slices.Equal(got.keys, want) {
			r.store.t.Fatalf("at version %d of %d:\n got %s\nwant %s", r.version, r.store.version, strings.Join(got.keys, " "), strings.Join(want, " "))
		}
	}
	return forward.steps < r.view.Entries([]byte{0}, []byte{0xff})
}
