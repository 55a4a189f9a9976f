package iterator

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

var errFault = errors.New("injected")

// source is an Iterator over a sorted slice that keeps to the letter of the
// contract: its Entry and Key are overwritten by each move. The fault-th move
// from the last First, Last or Seek on fails, if fault is not 0.
type source struct {
	entries []entry.Entry
	pos     int
	at      bool
	fault   int
	left    int
	err     error
	current entry.Entry
	key     []byte
	closed  int

	first, last *entry.Entry // Ends
}

func (s *source) Ends() (first, last *entry.Entry) { return s.first, s.last }

func (s *source) First() bool { return s.begin(0) }
func (s *source) Last() bool  { return s.begin(len(s.entries) - 1) }

func (s *source) SeekGE(key []byte) bool { return s.begin(lower(s.entries, key)) }
func (s *source) SeekLT(key []byte) bool { return s.begin(lower(s.entries, key) - 1) }

func (s *source) begin(pos int) bool {
	s.left, s.err = s.fault, nil
	return s.move(pos)
}

func (s *source) Next() bool { return s.at && s.move(s.pos+1) }
func (s *source) Prev() bool { return s.at && s.move(s.pos-1) }

// SkipGE and SkipLT leave out all that they may, or half the time nothing.
func (s *source) SkipGE(key []byte, v entry.Version) bool {
	if !s.at || s.pos%2 == 0 {
		return s.Next()
	}
	return s.move(skipGE(s.entries, s.pos, key, v))
}

func (s *source) SkipLT(key []byte, v entry.Version) bool {
	if !s.at || s.pos%2 == 0 {
		return s.Prev()
	}
	return s.move(skipLT(s.entries, s.pos, key, v))
}

// SkipNewer leaves out all that it may, or half the time nothing.
func (s *source) SkipNewer(v entry.Version) bool {
	if !s.at || s.pos%2 == 0 {
		return s.Next()
	}
	return s.move(skipNewer(s.entries, s.pos, v))
}

// skipNewer is the entry after i at which a SkipNewer must stop.
func skipNewer(entries []entry.Entry, i int, v entry.Version) int {
	key := entries[i].Key
	for i++; i < len(entries) && bytes.Equal(entries[i].Key, key) && entries[i].Version > v; i++ {
	}
	return i
}

// skipGE is the entry after i at which a SkipGE must stop.
func skipGE(entries []entry.Entry, i int, key []byte, v entry.Version) int {
	for i++; i < len(entries) && bytes.Compare(entries[i].Key, key) < 0 && entries[i].Version < v; i++ {
	}
	return i
}

// skipLT is the entry before i at which a SkipLT must stop.
func skipLT(entries []entry.Entry, i int, key []byte, v entry.Version) int {
	for i--; i >= 0 && bytes.Compare(entries[i].Key, key) >= 0 && entries[i].Version < v; i-- {
	}
	return i
}

func (s *source) move(pos int) bool {
	for i := range s.key {
		s.key[i] = 0xee
	}
	s.current = entry.Entry{}
	s.pos, s.at = pos, pos >= 0 && pos < len(s.entries)
	if s.left > 0 {
		if s.left--; s.left == 0 {
			s.at, s.err = false, errFault
		}
	}
	if s.at {
		s.current = s.entries[pos]
		s.key = append(s.key[:0], s.current.Key...)
		s.current.Key = s.key
	}
	return s.at
}

func (s *source) Entry() *entry.Entry {
	if !s.at {
		panic("Entry of a source that is not at one")
	}
	return &s.current
}

func (s *source) Err() error { return s.err }
func (s *source) Close()     { s.closed++ }

// LookAhead knows up to four entries ahead.
func (s *source) LookAhead(until []byte, least, most entry.Version) (n int) {
	for i := s.pos + 1; n < s.pos%5 && i < len(s.entries) && s.fault == 0; i++ {
		e := &s.entries[i]
		if bytes.Equal(e.Key, s.entries[i-1].Key) || i+1 < len(s.entries) && bytes.Equal(e.Key, s.entries[i+1].Key) ||
			e.Kind != entry.Set || e.Expires != 0 || e.Version < least || e.Version > most || bytes.Compare(e.Key, until) >= 0 {
			break
		}
		n++
	}
	return n
}

func lower(entries []entry.Entry, key []byte) int {
	i, _ := slices.BinarySearchFunc(entries, key, func(e entry.Entry, k []byte) int {
		if bytes.Compare(e.Key, k) < 0 {
			return -1
		}
		return 1
	})
	return i
}

func compareEntries(a, b entry.Entry) int { return entry.Compare(&a, &b) }

// randomSources are k sorted slices and their merge; the value says which source
// an entry is from.
func randomSources(r *rand.Rand, k, n int, key func(*rand.Rand) []byte) (sources [][]entry.Entry, all []entry.Entry) {
	sources = make([][]entry.Entry, k)
	for i := range sources {
		for range r.IntN(n + 1) {
			e := entry.Entry{Key: key(r), Version: entry.Version(1 + r.IntN(12)), Kind: entry.Set, Value: fmt.Appendf(nil, "from %d", i)}
			switch r.IntN(5) {
			case 0:
				e.Kind, e.Value = entry.Delete, nil
			case 1:
				e.Expires = uint64(1 + r.IntN(10))
			}
			sources[i] = append(sources[i], e)
		}
		slices.SortFunc(sources[i], compareEntries)
		sources[i] = slices.CompactFunc(sources[i], func(a, b entry.Entry) bool { return compareEntries(a, b) == 0 })
		all = append(all, sources[i]...)
	}
	slices.SortStableFunc(all, compareEntries)
	return sources, slices.CompactFunc(all, func(a, b entry.Entry) bool { return compareEntries(a, b) == 0 })
}

// withEnds gives a source bounds that are close or far: near is 0 for none.
func withEnds(s *source, near int) *source {
	if near == 0 || len(s.entries) == 0 {
		return s
	}
	first, last := s.entries[0].Key, s.entries[len(s.entries)-1].Key
	if near == 2 {
		first, last = first[:len(first)/2], append(bytes.Clone(last), 0xff)
	}
	s.first, s.last = &entry.Entry{Key: first, Version: math.MaxUint64}, &entry.Entry{Key: last}
	return s
}

// A walk that ends early has not moved the sources that lie behind.
func TestSourcesWaitUntilTheyAreNeeded(t *testing.T) {
	entries := func(keys ...string) (list []entry.Entry) {
		for _, k := range keys {
			list = append(list, entry.Entry{Key: []byte(k), Version: 1, Kind: entry.Set})
		}
		return list
	}
	a, z := withEnds(&source{entries: entries("a", "b"), fault: 1}, 1), withEnds(&source{entries: entries("y", "z"), fault: 1}, 1)
	middle := &source{entries: entries("c", "d")}
	it := Merge([]Iterator{a, z, middle})
	defer it.Close()
	if !it.SeekLT([]byte("e")) || string(it.Entry().Key) != "d" || !it.Prev() || it.Prev() || it.Err() == nil {
		t.Errorf("back: %v", it.Err())
	}
	if !it.SeekGE([]byte("bb")) || string(it.Entry().Key) != "c" || !it.Next() || it.Next() || it.Err() == nil {
		t.Errorf("forward: %v", it.Err())
	}
}

func open(sources [][]entry.Entry) []Iterator {
	its := make([]Iterator, len(sources))
	for i, s := range sources {
		its[i] = withEnds(&source{entries: s}, i%3)
	}
	return its
}

// checkMoves compares random moves of it with a cursor in the wanted entries.
func checkMoves(t *testing.T, r *rand.Rand, it Iterator, want []entry.Entry, key func(*rand.Rand) []byte, moves int) {
	t.Helper()
	i := -1 // index in want; -1 = not at an entry
	check := func(move string, ok bool) {
		t.Helper()
		if i == len(want) {
			i = -1
		}
		if ok != (i >= 0) {
			t.Fatalf("%s = %v (%v), want to be at %d of %d", move, ok, it.Err(), i, len(want))
		}
		if it.Err() != nil {
			t.Fatalf("%s: %v", move, it.Err())
		}
		if !ok {
			return
		}
		if e, w := it.Entry(), &want[i]; entry.Compare(e, w) != 0 || !bytes.Equal(e.Value, w.Value) || e.Kind != w.Kind {
			t.Fatalf("%s is at %q@%d %q, want %q@%d %q", move, e.Key, e.Version, e.Value, w.Key, w.Version, w.Value)
		}
	}
	check("Next of a new iterator", it.Next())
	check("Prev of a new iterator", it.Prev())
	for range moves {
		switch r.IntN(14) {
		case 0:
			i = min(0, len(want)-1)
			check("First", it.First())
		case 1:
			i = len(want) - 1
			check("Last", it.Last())
		case 2, 3:
			k := key(r)
			i = lower(want, k)
			check(fmt.Sprintf("SeekGE(%q)", k), it.SeekGE(k))
		case 4, 5:
			k := key(r)
			i = lower(want, k) - 1
			check(fmt.Sprintf("SeekLT(%q)", k), it.SeekLT(k))
		case 6, 7, 8, 9:
			if i >= 0 {
				i++
			}
			check("Next", it.Next())
			if f, ok := it.(Lookahead); ok && i >= 0 && r.IntN(2) == 0 {
				until, least, most := key(r), entry.Version(r.IntN(6)), entry.Version(6+r.IntN(6))
				e, n := it.Entry(), f.LookAhead(until, least, most)
				for range n - r.IntN(n+1) {
					i++
					check("a move that was known", it.Next())
					if it.Entry() != e || e.Kind != entry.Set || e.Expires != 0 || e.Version < least || e.Version > most || bytes.Compare(e.Key, until) >= 0 {
						t.Fatalf("%q@%d was known before %q in [%d, %d]", e.Key, e.Version, until, least, most)
					}
					if bytes.Equal(e.Key, want[i-1].Key) || i+1 < len(want) && bytes.Equal(e.Key, want[i+1].Key) {
						t.Fatalf("%q was known and has more versions", e.Key)
					}
				}
			}
		default:
			if i >= 0 {
				i--
			}
			check("Prev", it.Prev())
		}
	}
	i = 0
	for ok := it.First(); ok; ok = it.Next() {
		check("walk", ok)
		i++
	}
	if i != len(want) || it.Err() != nil {
		t.Fatalf("the walk gave %d of %d entries (%v)", i, len(want), it.Err())
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		i--
		check("walk back", ok)
	}
	if i != 0 || it.Err() != nil {
		t.Fatalf("the walk back left out %d entries (%v)", i, it.Err())
	}
}

var keyMakers = map[string]func(*rand.Rand) []byte{
	"few":    func(r *rand.Rand) []byte { return fmt.Appendf(nil, "k%d", r.IntN(6)) },
	"digits": func(r *rand.Rand) []byte { return fmt.Appendf(nil, "vsz=00016-k=%010d", r.IntN(300)) },
	"padding": func(r *rand.Rand) []byte {
		k := make([]byte, 1+r.IntN(12))
		for i := range k {
			k[i] = byte(r.IntN(2))
		}
		return k
	},
	"far": func(r *rand.Rand) []byte {
		return fmt.Appendf(nil, "%s%d", []string{"", "a", "abc", "abcdefghijkl"}[r.IntN(4)], r.IntN(100))
	},
}

func forEachShape(t *testing.T, check func(t *testing.T, r *rand.Rand, key func(*rand.Rand) []byte)) {
	for name, key := range keyMakers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 20 {
				seed := draw.Seed(t)
				r := rand.New(rand.NewPCG(seed, 0))
				if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { check(t, r, key) }) {
					return
				}
			}
		})
	}
}

func TestMergeMatchesASortedModel(t *testing.T) {
	forEachShape(t, func(t *testing.T, r *rand.Rand, key func(*rand.Rand) []byte) {
		sources, all := randomSources(r, r.IntN(10), 100, key)
		checkMoves(t, r, Merge(open(sources)), all, key, 500)
	})
}

// A walk with skips yields, in order, all that no skip allows it to leave out;
// once it turns, it yields everything again.
func TestSkipsLeaveOutWhatTheyMay(t *testing.T) {
	forEachShape(t, func(t *testing.T, r *rand.Rand, key func(*rand.Rand) []byte) {
		sources, all := randomSources(r, 1+r.IntN(6), 100, key)
		it := Merge(open(sources))
		for range 50 {
			back := r.IntN(2) == 0
			k := key(r)
			ok, at, step := false, lower(all, k), 1
			if back {
				ok, at, step = it.SeekLT(k), at-1, -1
			} else {
				ok = it.SeekGE(k)
			}
			var hidden []func(e *entry.Entry) bool
			may := func(e *entry.Entry) bool {
				return slices.ContainsFunc(hidden, func(h func(*entry.Entry) bool) bool { return h(e) })
			}
			for range r.IntN(30) {
				for at >= 0 && at < len(all) && (!ok || entry.Compare(&all[at], it.Entry()) != 0) && may(&all[at]) {
					at += step
				}
				if want := at >= 0 && at < len(all); ok != want || ok && entry.Compare(&all[at], it.Entry()) != 0 {
					t.Fatalf("at an entry %v, want number %d of %d", ok, at, len(all))
				}
				if !ok {
					break
				}
				if r.IntN(3) > 0 {
					at += step
					if ok = !back && it.Next(); back {
						ok = it.Prev()
					}
					continue
				}
				if v := all[at].Version - 1 - entry.Version(r.IntN(int(all[at].Version))); !back && r.IntN(2) == 0 {
					of := all[at].Key
					hidden = append(hidden, func(e *entry.Entry) bool { return e.Version > v && bytes.Equal(e.Key, of) })
					at++
					ok = it.SkipNewer(v)
					continue
				}
				k, v := key(r), all[at].Version+1+entry.Version(r.IntN(10))
				hidden = append(hidden, func(e *entry.Entry) bool {
					return e.Version < v && (bytes.Compare(e.Key, k) < 0) == !back
				})
				at += step
				if ok = !back && it.SkipGE(k, v); back {
					ok = it.SkipLT(k, v)
				}
			}
			if ok {
				at = slices.IndexFunc(all, func(e entry.Entry) bool { return entry.Compare(&e, it.Entry()) == 0 })
			}
			for range r.IntN(10) {
				if !ok {
					break
				}
				at -= step
				if ok = back && it.Next(); !back {
					ok = it.Prev()
				}
				if want := at >= 0 && at < len(all); ok != want || ok && entry.Compare(&all[at], it.Entry()) != 0 {
					t.Fatalf("turned: at an entry %v, want number %d of %d", ok, at, len(all))
				}
			}
		}
	})
}

// A walk over sources of which one fails after some moves yields what it should
// up to there, then false and the error, which stays until the next First.
func TestFaultsAreNeverLost(t *testing.T) {
	forEachShape(t, func(t *testing.T, r *rand.Rand, key func(*rand.Rand) []byte) {
		sources, all := randomSources(r, 1+r.IntN(5), 50, key)
		its := open(sources)
		bad := its[r.IntN(len(its))].(*source)
		bad.fault = 1 + r.IntN(len(bad.entries)+1) // at the latest the move to the end fails
		it, want := Merge(its), all
		forwardWalk := r.IntN(2) == 0
		begin, next := it.First, it.Next
		if !forwardWalk {
			begin, next = it.Last, it.Prev
			slices.Reverse(want)
		}
		n := 0
		for ok := begin(); ok; ok = next() {
			if n >= len(want) || entry.Compare(it.Entry(), &want[n]) != 0 {
				t.Fatalf("entry %d is %q@%d", n, it.Entry().Key, it.Entry().Version)
			}
			n++
		}
		if !errors.Is(it.Err(), errFault) {
			t.Fatalf("after %d of %d entries: %v", n, len(want), it.Err())
		}
		if it.Next() || it.Prev() || !errors.Is(it.Err(), errFault) {
			t.Fatalf("the failure doesn't stick: %v", it.Err())
		}
		bad.fault = 0
		if ok := begin(); ok != (len(want) > 0) || it.Err() != nil {
			t.Fatalf("a new start: %v, %v", ok, it.Err())
		}
		it.Close()
		for _, s := range its {
			if s.(*source).closed != 1 {
				t.Error("a source was not closed once")
			}
		}
	})
}

func TestMovesDoNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	sources, _ := randomSources(r, 4, 300, keyMakers["digits"])
	it := Merge(open(sources))
	walk := func() {
		for ok := it.First(); ok; ok = it.Next() {
		}
		for ok := it.Last(); ok; ok = it.Prev() {
		}
	}
	walk()                                         // scratch buffers grow
	if n := testing.AllocsPerRun(5, walk); n > 8 { // a few a restart, none a move
		t.Errorf("%v allocations a walk", n)
	}
}
