package memtable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

const seed = 11

func add(t testing.TB, tab *Table, e entry.Entry) {
	t.Helper()
	if e.Kind == 0 {
		e.Kind = entry.Set
	}
	if err := tab.Add(&e); err != nil {
		t.Fatal(err)
	}
}

func get(tab *Table, key string, at entry.Version) (entry.Entry, bool) {
	var e entry.Entry
	ok := tab.Get([]byte(key), checksum.HashKey(seed, []byte(key)), at, &e)
	return e, ok
}

// model is the naive table: all entries, sorted, later arrivals replacing.
type model struct{ entries []entry.Entry }

func (m *model) add(e entry.Entry) {
	i, found := slices.BinarySearchFunc(m.entries, e, func(a, b entry.Entry) int { return entry.Compare(&a, &b) })
	if found {
		m.entries[i] = e
	} else {
		m.entries = slices.Insert(m.entries, i, e)
	}
}

func (m *model) lower(key []byte) int {
	i, _ := slices.BinarySearchFunc(m.entries, key, func(a entry.Entry, k []byte) int {
		if bytes.Compare(a.Key, k) < 0 {
			return -1
		}
		return 1
	})
	return i
}

func same(a, b *entry.Entry) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil) &&
		a.Handle == b.Handle && a.Version == b.Version && a.Expires == b.Expires && a.Kind == b.Kind &&
		a.Meta == b.Meta && a.Separated == b.Separated && a.Raw == b.Raw && a.Codec == b.Codec
}

// keyMakers make keys of the shapes that the words of a view find hard.
var keyMakers = map[string]func(*rand.Rand) []byte{
	"digits":  func(r *rand.Rand) []byte { return fmt.Appendf(nil, "vsz=00016-k=%010d", r.IntN(3000)) },
	"few":     func(r *rand.Rand) []byte { return fmt.Appendf(nil, "k%d", r.IntN(5)) },
	"binary":  func(r *rand.Rand) []byte { return binaryKey(r, 1+r.IntN(12), 256) },
	"padding": func(r *rand.Rand) []byte { return binaryKey(r, 1+r.IntN(20), 2) },
	"deep": func(r *rand.Rand) []byte {
		return fmt.Appendf(nil, "table%c/a long path that all share/%c/%05d", 'a'+rune(r.IntN(3)), 'a'+rune(r.IntN(2)), r.IntN(2000))
	},
	"nested": func(r *rand.Rand) []byte { return nested(r.IntN(100)) },
	"shrinking": func(r *rand.Rand) []byte { // mostly one prefix, seldom a shorter one
		return append([]byte("0123456789abcdef"[:16-min(r.IntN(100)/6, r.IntN(100)/6)]), binaryKey(r, 1+r.IntN(3), 256)...)
	},
}

func binaryKey(r *rand.Rand, n, span int) []byte {
	k := make([]byte, n)
	for i := range k {
		k[i] = byte(r.IntN(span))
	}
	return k
}

func randomEntry(r *rand.Rand, key []byte, v entry.Version) entry.Entry {
	e := entry.Entry{Key: key, Version: v, Kind: entry.Set, Meta: byte(r.Uint32())}
	if r.IntN(4) == 0 {
		e.Expires = r.Uint64()
	}
	switch r.IntN(6) {
	case 0:
		e.Kind = entry.Delete
	case 1:
		e.Separated = true
		e.Handle = entry.Handle{Segment: entry.FileNum(r.Uint64()), Offset: r.Uint64(), Length: uint64(r.Uint32() >> 1)}
		if r.IntN(2) == 0 {
			e.Raw = r.Uint32()
		}
	case 2:
		e.Kind = entry.SetLatest
		fallthrough
	default:
		e.Value = binaryKey(r, r.IntN(40), 256)
	}
	return e
}

func TestTableMatchesASortedModel(t *testing.T) {
	for name, maker := range keyMakers {
		for _, order := range []string{"ascending", "any"} {
			t.Run(name+"/"+order, func(t *testing.T) {
				t.Parallel()
				s := draw.Seed(t)
				t.Logf("seed %d", s)
				r := rand.New(rand.NewPCG(s, 0))
				tab, m := New(Options{Seed: seed, Limit: 1 << 20}), &model{}
				n := 1 + r.IntN(5000)
				for i := range n {
					v := entry.Version(i/3 + 1) // repeats: some shadow
					if order == "any" {
						v = entry.Version(1 + r.IntN(n/2+1))
					}
					e := randomEntry(r, maker(r), v)
					add(t, tab, e)
					m.add(e)
					switch r.IntN(400) {
					case 0:
						checkMoves(t, r, tab.Iterator(), m, maker, 100)
					case 1:
						tab.Iterator().Close()
					case 2:
						checkChanged(t, r, tab, m, maker)
					}
				}
				checkGets(t, r, tab, m, maker)
				checkChanged(t, r, tab, m, maker)
				checkMoves(t, r, tab.Iterator(), m, maker, 2000)
				checkMoves(t, r, tab.Iterator(), m, maker, 2000)
				tab.Release()
			})
		}
	}
}

// checkMoves makes random moves and a full walk each way.
func checkMoves(t *testing.T, r *rand.Rand, it iterator.Iterator, m *model, maker func(*rand.Rand) []byte, moves int) {
	t.Helper()
	defer it.Close()
	i := -1 // index in the model; -1 = not at an entry
	check := func(move string, ok bool) {
		t.Helper()
		if i == len(m.entries) {
			i = -1
		}
		if ok != (i >= 0) {
			t.Fatalf("%s = %v, the model is at %d of %d", move, ok, i, len(m.entries))
		}
		if ok && !same(it.Entry(), &m.entries[i]) {
			t.Fatalf("%s is at %+v, want %+v", move, it.Entry(), &m.entries[i])
		}
	}
	for range moves {
		switch r.IntN(13) {
		case 12:
			if i < 0 {
				continue
			}
			// Anywhere up to where it must stop will do.
			key, from, v := maker(r), i, max(m.entries[i].Version+1, m.entries[r.IntN(len(m.entries))].Version)
			last, step, ok := i, 1, false
			switch at := m.entries[i]; r.IntN(3) {
			case 0:
				step, ok = -1, it.SkipLT(key, v)
			case 1:
				ok = it.SkipGE(key, v)
			default:
				v = at.Version - 1 - min(at.Version-1, entry.Version(r.IntN(10)))
				ok, i = it.SkipNewer(v), i+1
				for i < len(m.entries) && bytes.Equal(m.entries[i].Key, at.Key) && m.entries[i].Version > v {
					i++
				}
				check("SkipNewer", ok)
				continue
			}
			for last += step; last >= 0 && last < len(m.entries) && m.entries[last].Version < v && bytes.Compare(m.entries[last].Key, key) < 0 == (step > 0); last += step {
			}
			if i = last; ok {
				i = slices.IndexFunc(m.entries, func(e entry.Entry) bool { return entry.Compare(&e, it.Entry()) == 0 })
			}
			if (i-from)*step <= 0 || (last-i)*step < 0 {
				t.Fatalf("a skip from %d to %q below %d is at %d and had to stop at %d", from, key, v, i, last)
			}
			check("a skip", ok)
		case 0:
			i = min(0, len(m.entries)-1)
			check("First", it.First())
		case 1:
			i = len(m.entries) - 1
			check("Last", it.Last())
		case 2:
			key := maker(r)
			i = m.lower(key)
			check("SeekGE", it.SeekGE(key))
		case 3:
			key := maker(r)
			i = m.lower(key) - 1
			check("SeekLT", it.SeekLT(key))
		case 4, 5, 6, 7:
			if i >= 0 {
				i++
			}
			check("Next", it.Next())
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
	if i != len(m.entries) {
		t.Fatalf("the walk gave %d of %d entries", i, len(m.entries))
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		i--
		check("walk back", ok)
	}
	if i != 0 {
		t.Fatalf("the walk back left out %d entries", i)
	}
}

func checkGets(t *testing.T, r *rand.Rand, tab *Table, m *model, maker func(*rand.Rand) []byte) {
	t.Helper()
	for range 2000 {
		key, at := maker(r), entry.Version(r.IntN(tab.Len()+1))
		i := m.lower(key)
		newest, found := tab.Newest(key, checksum.HashKey(seed, key))
		if want := i < len(m.entries) && bytes.Equal(m.entries[i].Key, key); found != want || found && newest != m.entries[i].Version {
			t.Fatalf("Newest(%q) = %d, %v, want %v", key, newest, found, want)
		}
		for i < len(m.entries) && bytes.Equal(m.entries[i].Key, key) && m.entries[i].Version > at {
			i++
		}
		e, ok := get(tab, string(key), at)
		if want := i < len(m.entries) && bytes.Equal(m.entries[i].Key, key); ok != want || ok && !same(&e, &m.entries[i]) {
			t.Fatalf("Get(%q, %d) = %+v, %v, want %v", key, at, e, ok, want)
		}
	}
}

func checkChanged(t *testing.T, r *rand.Rand, tab *Table, m *model, maker func(*rand.Rand) []byte) {
	t.Helper()
	for range 50 {
		lo, hi, since := maker(r), maker(r), entry.Version(r.Uint64N(uint64(tab.MaxVersion())+2))
		if r.IntN(5) == 0 {
			hi = nil
		}
		if r.IntN(5) == 0 {
			lo = nil
		}
		want := slices.ContainsFunc(m.entries, func(e entry.Entry) bool {
			return e.Version > since && bytes.Compare(e.Key, lo) >= 0 && (hi == nil || bytes.Compare(e.Key, hi) < 0)
		})
		if r.IntN(10) == 0 {
			tab.SortSince(since)
		}
		if got := tab.ChangedSince(lo, hi, since); got != want {
			t.Fatalf("ChangedSince(%q, %q, %d) = %v", lo, hi, since, got)
		}
	}
}

func TestLaterAddOfTheSameVersionShadows(t *testing.T) {
	handle := func(n uint64) entry.Handle { return entry.Handle{Segment: 7, Offset: 8 * n, Length: 100} }
	tab := New(Options{Seed: seed})
	key := []byte("k")
	for i, v := range []entry.Version{5, 5, 9, 5, 5, 1} {
		add(t, tab, entry.Entry{Key: key, Version: v, Separated: true, Handle: handle(uint64(i))})
		if i%2 == 0 {
			tab.Iterator().Close() // so that shadowing meets entries already sorted
		}
	}
	var dead, live []uint64
	for h := range tab.Shadowed() {
		dead = append(dead, h.Offset/8)
	}
	it := tab.Iterator()
	for ok := it.First(); ok; ok = it.Next() {
		live = append(live, it.Entry().Handle.Offset/8)
	}
	slices.Sort(dead)
	if want := []uint64{0, 1, 3}; !slices.Equal(dead, want) {
		t.Errorf("shadowed: %v, want %v", dead, want)
	}
	if want := []uint64{2, 4, 5}; !slices.Equal(live, want) {
		t.Errorf("sorted: %v, want %v", live, want)
	}
	if e, ok := get(tab, "k", 8); !ok || e.Handle != handle(4) {
		t.Errorf("Get at 8 = %+v, %v", e, ok)
	}
	if tab.Len() != 6 || tab.MaxVersion() != 9 {
		t.Errorf("%d entries of versions up to %d", tab.Len(), tab.MaxVersion())
	}
}

func TestLargeKeysAndValues(t *testing.T) {
	tab := New(Options{Seed: seed, Limit: 1 << 20})
	sizes := []int{5 << 20, 0, 1, 1 << 10, outsideSize - 1, outsideSize, 1 << 20, 60 << 10, 3<<20 + 5}
	for i, n := range sizes {
		key := bytes.Repeat([]byte{byte('a' + i)}, min(n+1, entry.MaxKey))
		add(t, tab, entry.Entry{Key: key, Version: entry.Version(i + 1), Value: bytes.Repeat([]byte{byte(i)}, n)})
	}
	it, i := tab.Iterator(), 0
	for ok := it.First(); ok; ok = it.Next() {
		e, n := it.Entry(), sizes[i]
		if len(e.Key) != min(n+1, entry.MaxKey) || !bytes.Equal(e.Value, bytes.Repeat([]byte{byte(i)}, n)) || e.Value == nil {
			t.Errorf("entry %d: key of %d and value of %d bytes", i, len(e.Key), len(e.Value))
		}
		i++
	}
	if i != len(sizes) {
		t.Errorf("%d entries, want %d", i, len(sizes))
	}
	if b := tab.Bytes(); b < 13<<20 || b > 20<<20 {
		t.Errorf("%d bytes used", b)
	}
}

func TestAddRefusesWhatItCannotHold(t *testing.T) {
	for name, e := range map[string]entry.Entry{
		"no key":      {Version: 1},
		"long key":    {Key: make([]byte, entry.MaxKey+1), Version: 1},
		"version":     {Key: []byte("k"), Version: entry.MaxVersion + 1},
		"long handle": {Key: []byte("k"), Separated: true, Handle: entry.Handle{Length: 1 << 31}},
	} {
		if err := New(Options{}).Add(&e); !errors.Is(err, errs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	tab := New(Options{Seed: seed})
	tab.arena.granules.Store(&[]granule{refLimit/granuleUnits - 1: {}})
	if err := tab.Add(&entry.Entry{Key: []byte("k"), Value: make([]byte, 2<<20)}); !errors.Is(err, ErrFull) {
		t.Errorf("a full table: %v", err)
	}
}

func TestSmallTableIsSmall(t *testing.T) {
	tab := New(Options{Seed: seed})
	if b := tab.Bytes(); b != 0 {
		t.Errorf("an empty table uses %d bytes", b)
	}
	add(t, tab, entry.Entry{Key: []byte("k"), Version: 1})
	if n := len(tab.arena.blocks[0]); n > 8<<10 || tab.Bytes() > 8<<10 {
		t.Errorf("one entry: a block of %d bytes, %d used", n, tab.Bytes())
	}
	if it := New(Options{}).Iterator(); it.First() || it.Last() || it.SeekGE(nil) || it.SeekLT([]byte("x")) || it.Err() != nil {
		t.Error("an empty table has an entry")
	}
}

func TestGetAndMovesDoNotAllocate(t *testing.T) {
	tab := New(Options{Seed: seed})
	for i := range 5000 {
		add(t, tab, entry.Entry{Key: fmt.Appendf(nil, "key%07d", i*7919%5000), Version: entry.Version(i + 1), Value: []byte("v")})
		if i == 4000 || i == 4900 {
			tab.Iterator().Close()
		}
	}
	it, key := tab.Iterator(), []byte("key0001234")
	h := checksum.HashKey(seed, key)
	var e entry.Entry
	n := testing.AllocsPerRun(100, func() {
		if !tab.Get(key, h, entry.MaxVersion, &e) || !it.SeekGE(key) || !it.Next() || !it.Prev() || !it.SeekLT(key) {
			t.Fatal("an entry is missing")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Views that keys in order are appended to, at either end, or to a level of several,
// leave those that were taken before as they are; Arrivals are what came in between.
func TestViewsOfKeysInOrder(t *testing.T) {
	for _, down := range []bool{false, true} {
		m := New(Options{Seed: 1})
		var views []iterator.Iterator
		const steps, each = 40, 2000
		key := func(i int) []byte {
			if down {
				i = steps*each - i
			}
			return fmt.Appendf(nil, "k%06d", i)
		}
		for i := range steps * each {
			k := key(i)
			e := entry.Entry{Key: k, Version: entry.Version(i + 1), Kind: entry.Delete}
			if err := m.Add(&e); err != nil {
				t.Fatal(err)
			}
			if i%each == each-1 {
				views = append(views, m.Iterator())
			}
		}
		for i, v := range views {
			n, last := 0, []byte(nil)
			for ok := v.First(); ok; ok = v.Next() {
				if k := v.Entry().Key; bytes.Compare(k, last) <= 0 {
					t.Fatalf("down %v, view %d: %s after %s", down, i, k, last)
				} else {
					last = k
				}
				n++
			}
			if n != (i+1)*each {
				t.Errorf("down %v, view %d has %d entries", down, i, n)
			}
		}
		n := 1000
		for k := range m.Arrivals(1000) {
			if !bytes.Equal(k, key(n)) {
				t.Errorf("arrival %d is %s", n, k)
			}
			n++
		}
		if n != steps*each {
			t.Errorf("arrivals up to %d", n)
		}
		m.Release()
	}
}

// A get of an old version of a key with a long history finds it, in whatever level of
// the view it lies.
func TestGetOfALongHistory(t *testing.T) {
	const n = 3 * newerMax
	tab := New(Options{Seed: seed})
	defer tab.Release()
	for i := 1; i <= n; i++ {
		add(t, tab, entry.Entry{Key: []byte("k"), Version: entry.Version(2 * i), Value: fmt.Append(nil, i)})
		if i%(n/8) == 0 {
			add(t, tab, entry.Entry{Key: []byte("k"), Version: entry.Version(2 * i), Value: fmt.Append(nil, "later")})
		}
		if i%newerMax > 0 && i < n {
			continue
		}
		// Each Get passes up to newerMax versions: not all of them are asked for.
		for at := 0; at < 2*i+2; at += 1 + at%97 {
			want := fmt.Append(nil, at/2)
			if at/2%(n/8) == 0 {
				want = []byte("later")
			}
			e, ok := get(tab, "k", entry.Version(at))
			if ok != (at > 1) || ok && (e.Version != entry.Version(at/2*2) || !bytes.Equal(e.Value, want)) {
				t.Fatalf("Get at %d of %d versions: version %d, %s, %v", at, 2*i, e.Version, e.Value, ok)
			}
		}
	}
	if _, ok := get(tab, "j", entry.MaxVersion); ok {
		t.Error("found a key that is not there")
	}
}
