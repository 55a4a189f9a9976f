package rangedel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
)

// plain is what a Set must answer, from all its range deletes one by one.
type plain []Delete

func covers(t Delete, key []byte) bool {
	return bytes.Compare(t.Lo, key) <= 0 && bytes.Compare(key, t.Hi) < 0
}

func (l plain) newest(key []byte, at entry.Version) (v entry.Version) {
	for _, t := range l {
		if t.Version <= at && covers(t, key) {
			v = max(v, t.Version)
		}
	}
	return v
}

func (l plain) changedSince(lo, hi []byte, since entry.Version) bool {
	return slices.ContainsFunc(l, func(t Delete) bool {
		return t.Version > since && bytes.Compare(lo, t.Hi) < 0 && (hi == nil || bytes.Compare(t.Lo, hi) < 0)
	})
}

// sources are those of the sets that are not empty.
func sources(sets []*Set) (list []Source) {
	for _, s := range sets {
		if s != nil {
			list = append(list, s)
		}
	}
	return list
}

// flat is what a Cover makes of a set.
func flat(t *testing.T, at entry.Version, s *Set) (flat []Delete) {
	err := NewCover(at, sources([]*Set{s})...).Flatten([]byte{0}, nil, func(t Delete) error {
		flat = append(flat, Delete{Lo: bytes.Clone(t.Lo), Hi: bytes.Clone(t.Hi), Version: t.Version})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return flat
}

func key(i int) []byte { return fmt.Appendf(nil, "k%02d", i) }

func random(rng *rand.Rand, keys int, v entry.Version) Delete {
	lo := rng.IntN(keys)
	return Delete{Lo: key(lo), Hi: key(lo + 1 + rng.IntN(1+rng.IntN(keys))), Version: v}
}

// Sets of random range deletes, some of one version, and not always in the order of
// versions, answer as a list of them does: at every key, at every version.
func TestSetAnswersAsAList(t *testing.T) {
	const keys = 40
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var l plain
		var s *Set
		v := entry.Version(1)
		for range rng.IntN(120) {
			if v += entry.Version(rng.IntN(3)); seed%4 == 0 {
				v = 1 + entry.Version(rng.IntN(50))
			}
			ts := random(rng, keys, v)
			l, s = append(l, ts), s.With(ts)
		}
		if s.Len() != len(l) {
			t.Fatalf("seed %d: %d of %d", seed, s.Len(), len(l))
		}
		for at := entry.Version(0); at < s.MaxVersion()+2; at++ {
			flattened := plain(flat(t, at, s))
			for i := 1; i < len(flattened); i++ {
				a, b := flattened[i-1], flattened[i]
				if c := bytes.Compare(a.Hi, b.Lo); c > 0 || c == 0 && a.Version == b.Version {
					t.Fatalf("seed %d at %d: flat ranges %v, %v", seed, at, a, b)
				}
			}
			var newer []Delete
			_ = s.Since(at, func(t Delete) error { newer = append(newer, t); return nil })
			want := slices.DeleteFunc(slices.Clone(l), func(t Delete) bool { return t.Version <= at })
			if !slices.EqualFunc(newer, want, func(a, b Delete) bool { return Compare(a, b) == 0 }) {
				t.Fatalf("seed %d: since %d: %v, want %v", seed, at, newer, want)
			}
			for i := range keys + 2 {
				k := key(i)
				want := l.newest(k, at)
				if got, also := s.Newest(k, at), flattened.newest(k, at); got != want || also != want {
					t.Fatalf("seed %d: newest of %s at %d: %d, flattened %d, want %d", seed, k, at, got, also, want)
				}
				lo, hi := k, key(rng.IntN(keys+2))
				if rng.IntN(5) == 0 {
					hi = nil
				}
				if got, want := s.ChangedSince(lo, hi, at), (hi == nil || bytes.Compare(lo, hi) < 0) && l.changedSince(lo, hi, at); got != want {
					t.Fatalf("seed %d: [%s, %s) changed since %d: %v", seed, lo, hi, at, got)
				}
			}
		}
		all := s.All()
		for _, ts := range l {
			if _, found := slices.BinarySearchFunc(all, ts, Compare); !found {
				t.Fatalf("seed %d: %v is lost", seed, ts)
			}
		}
	}
}

// A Cover over several sets, asked for keys in any order, answers as one list of
// all, and its stretch is one in which the answer is the same.
func TestCoverAnswersAsAList(t *testing.T) {
	const keys = 40
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var l plain
		var own plain
		sets := make([]*Set, 1+rng.IntN(4))
		var pending *Set
		v := entry.Version(1)
		for i := range sets {
			for range rng.IntN(30) {
				v += entry.Version(rng.IntN(3))
				ts := random(rng, keys, v)
				l, sets[i] = append(l, ts), sets[i].With(ts)
			}
		}
		if rng.IntN(2) == 0 {
			for i := range 1 + rng.IntN(6) {
				ts := random(rng, keys, entry.Version(i+1))
				own, pending = append(own, ts), pending.With(ts)
			}
		}
		at := entry.Version(rng.IntN(int(v) + 2))
		c := NewCover(at, sources(sets)...)
		if pending != nil {
			c = c.WithPending(pending)
		}
		if c == nil {
			if l.changedSince(key(0), nil, 0) && slices.ContainsFunc(l, func(t Delete) bool { return t.Version <= at }) {
				t.Fatalf("seed %d: no cover of %v at %d", seed, l, at)
			}
			continue
		}
		want := func(k []byte) entry.Version {
			if own.newest(k, entry.MaxVersion) > 0 {
				return Pending
			}
			return l.newest(k, at)
		}
		for range 200 {
			k := key(rng.IntN(keys + 2))
			if got := c.Newest(k); got != want(k) {
				t.Fatalf("seed %d: %s at %d: %d, want %d", seed, k, at, got, want(k))
			}
			lo, hi := c.Stretch()
			for i := range keys + 2 {
				if x := key(i); (lo == nil || bytes.Compare(lo, x) <= 0) && (hi == nil || bytes.Compare(x, hi) < 0) && want(x) != want(k) {
					t.Fatalf("seed %d: %d at %s, %d at %s, both in [%s, %s)", seed, want(k), k, want(x), x, lo, hi)
				}
			}
			before := entry.Version(rng.IntN(int(v) + 2))
			if got, want := c.Before(k, before), l.newest(k, min(at, max(before, 1)-1)); got != want {
				t.Fatalf("seed %d: %s before %d at %d: %d, want %d", seed, k, before, at, got, want)
			}
		}
	}
}

// With bounds of any length Covers answer as a list does, and however many parts one has,
// it keeps few long bounds.
func TestCoverOfLongBounds(t *testing.T) {
	const keys = 30
	long := func(k []byte) []byte {
		i, _ := strconv.Atoi(string(k[1:]))
		if i%3 == 0 {
			return k
		}
		return append(k, bytes.Repeat([]byte{'x'}, i%3*keptBounds)...)
	}
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var l plain
		var sets []*Set
		for v := range entry.Version(40) {
			if v%4 == 0 {
				sets = append(sets, nil)
			}
			ts := random(rng, keys, v+1)
			ts.Lo, ts.Hi = long(ts.Lo), long(ts.Hi)
			l, sets[len(sets)-1] = append(l, ts), sets[len(sets)-1].With(ts)
		}
		c := NewCover(entry.MaxVersion, sources(sets)...)
		for i := range 200 {
			k := key(rng.IntN(keys + 2))
			if rng.IntN(2) == 0 {
				k = long(k)
			}
			if got, want := c.Newest(k), l.newest(k, entry.MaxVersion); got != want {
				t.Fatalf("seed %d, look %d: %.3s of %d bytes: %d, want %d", seed, i, k, len(k), got, want)
			}
			lo, hi := c.Stretch()
			for i := range keys + 2 {
				if x := long(key(i)); (lo == nil || bytes.Compare(lo, x) <= 0) && (hi == nil || bytes.Compare(x, hi) < 0) && c.version != l.newest(x, entry.MaxVersion) {
					t.Fatalf("seed %d: the stretch around %.3s has %.3s", seed, k, x)
				}
			}
			for _, p := range c.parts {
				if n := cap(p.stretch.lo) + cap(p.stretch.hi); n > 4*keptBounds {
					t.Fatalf("seed %d: a part keeps bounds of %d bytes", seed, n)
				}
			}
		}
		var last []byte
		err := c.Flatten([]byte{0}, nil, func(ts Delete) error {
			if v := l.newest(ts.Lo, entry.MaxVersion); v != ts.Version || bytes.Compare(last, ts.Lo) > 0 {
				t.Errorf("seed %d: a range of version %d, want %d", seed, ts.Version, v)
			}
			last = bytes.Clone(ts.Hi)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A forward Cover answers for keys in their order as another one does; Close gives back
// what it holds, and may be called again.
func TestForwardCover(t *testing.T) {
	long := bytes.Repeat([]byte{'x'}, 100<<10)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 4))
		var sets []*Set
		for v := range entry.Version(12) {
			ts := random(rng, 30, v+1)
			if v%2 == 0 {
				ts.Lo, ts.Hi = append(ts.Lo, long...), append(ts.Hi, long...)
			}
			if v%3 == 0 {
				sets = append(sets, nil)
			}
			sets[len(sets)-1] = sets[len(sets)-1].With(ts)
		}
		at := entry.Version(rng.IntN(13))
		c, forward := NewCover(at, sources(sets)...), NewForwardCover(at, sources(sets)...)
		for i := 0; i < 32 && c != nil; i++ {
			for _, k := range [][]byte{key(i), append(key(i), long...)} {
				if got, want := forward.Newest(k), c.Newest(k); got != want {
					t.Fatalf("seed %d: %.3s of %d bytes: %d, want %d", seed, k, len(k), got, want)
				}
				lo, got := forward.Stretch()
				if _, want := c.Stretch(); lo != nil || bytes.Compare(got, k) <= 0 && got != nil || (got == nil) != (want == nil) {
					t.Fatalf("seed %d: the stretch around %.3s is [%.3s, %.3s), ends with %.3s", seed, k, lo, got, want)
				}
			}
		}
		flat := func(c *Cover) (list []Delete) {
			err := c.Flatten([]byte{0}, nil, func(ts Delete) error {
				list = append(list, Delete{bytes.Clone(ts.Lo), bytes.Clone(ts.Hi), ts.Version})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		again := NewForwardCover(at, sources(sets)...)
		if got, want := flat(again), flat(c); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %d ranges, want %d", seed, len(got), len(want))
		}
		again.Close()
		forward.Close()
		forward.Close()
	}
}

// asked is a Source that counts how often it is asked.
type asked struct {
	*Set
	times *int
}

func (a asked) Find(key []byte, at entry.Version, s *Stretch) (entry.Version, error) {
	*a.times++
	return a.Set.Find(key, at, s)
}

// A walk forward asks for a long span a few times, however many sources there are: each
// knows up to where it has none.
func TestForwardCoverAsksSeldom(t *testing.T) {
	long := bytes.Repeat([]byte{'x'}, 10*keptBounds)
	for _, n := range []int{2, 4, 8, 16} {
		const spans = 64
		times := 0
		sets := make([]*Set, n)
		for i := range spans {
			k := append(key(i), long...)
			sets[i%n] = sets[i%n].With(Delete{k, append(k[:len(k):len(k)], 'y'), entry.Version(1 + i%5)})
		}
		var list []Source
		for _, s := range sets {
			list = append(list, asked{s, &times})
		}
		c := NewForwardCover(entry.MaxVersion, list...)
		found := 0
		err := c.Flatten([]byte{0}, nil, func(Delete) error { found++; return nil })
		c.Close()
		if err != nil || found != spans || times > 6*spans {
			t.Errorf("%d sources: asked %d times for %d spans, %v", n, times, found, err)
		}
	}
}

// What a range delete covers is skipped at once, whatever lies below it.
func TestStretchIsNotCutByOlderRangeDeletes(t *testing.T) {
	var s *Set
	for i := range 90 {
		s = s.With(Delete{Lo: key(i), Hi: key(i + 1), Version: entry.Version(i + 1)})
	}
	s = s.With(Delete{Lo: key(10), Hi: key(80), Version: 1000})
	c := NewCover(entry.MaxVersion, s)
	if v := c.Newest(key(42)); v != 1000 {
		t.Fatal(v)
	}
	if lo, hi := c.Stretch(); string(lo) != "k10" || string(hi) != "k80" {
		t.Errorf("stretch [%s, %s)", lo, hi)
	}
}

// Many range deletes that overlap in any way take about n·log n spans. Making them
// is what takes the time, and each is made once.
func TestManyOverlappingRangeDeletes(t *testing.T) {
	const n = 10_000
	shapes := map[string]func(i int) Delete{
		"nested": func(i int) Delete { return Delete{Lo: wide(i), Hi: wide(4*n - i)} },
		"apart":  func(i int) Delete { return Delete{Lo: wide(2 * i), Hi: wide(2*i + 1)} },
		"stairs": func(i int) Delete { return Delete{Lo: wide(i), Hi: wide(i + n)} },
		"same":   func(i int) Delete { return Delete{Lo: wide(1), Hi: wide(9)} },
	}
	for name, shape := range shapes {
		var s *Set
		for i := range n {
			ts := shape(i)
			ts.Version = entry.Version(i + 1)
			s = s.With(ts)
		}
		sum := 0
		for _, l := range s.levels {
			sum += len(l.spans)
		}
		if sum > 2*n*mostLevels {
			t.Errorf("%s: %d range deletes are held as %d spans", name, n, sum)
		}
	}
}

func wide(i int) []byte { return fmt.Appendf(nil, "%06d", i) }

func TestValid(t *testing.T) {
	for _, ts := range []Delete{
		{Lo: nil, Hi: key(1), Version: 1}, {Lo: key(1), Hi: nil, Version: 1}, {Lo: key(1), Hi: key(1), Version: 1},
		{Lo: key(2), Hi: key(1), Version: 1}, {Lo: key(1), Hi: key(2), Version: entry.MaxVersion + 1},
		{Lo: key(1), Hi: bytes.Repeat([]byte("x"), entry.MaxKey+1), Version: 1},
	} {
		if ts.Valid() {
			t.Errorf("[%.20q, %.20q) at %d is valid", ts.Lo, ts.Hi, ts.Version)
		}
	}
	for v := range entry.Version(2) {
		if ok := (&Delete{Lo: key(1), Hi: key(2), Version: v}); !ok.Valid() {
			t.Errorf("a range delete at %d is not valid", v)
		}
	}
}

func BenchmarkNewest(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			var s *Set
			for i := range n {
				at := rng.IntN(100_000)
				s = s.With(Delete{Lo: wide(at), Hi: wide(at + 10), Version: entry.Version(i + 1)})
			}
			keys := make([][]byte, 1024)
			for i := range keys {
				keys[i] = wide(rng.IntN(100_000))
			}
			i := 0
			for b.Loop() {
				s.Newest(keys[i%len(keys)], entry.MaxVersion)
				i++
			}
		})
	}
}

func BenchmarkWith(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		var s *Set
		for i := range n {
			s = s.With(Delete{Lo: wide(i), Hi: wide(2*n - i + 1), Version: entry.Version(i + 1)})
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/range delete")
}

// Emptied ranges of one version, apart and in order, make the set that they would make one by
// one, which keeps nothing of the slice.
func TestEmptiedSetAtOnce(t *testing.T) {
	key := func(i int) []byte { return fmt.Appendf(nil, "k%03d", i) }
	for _, gap := range []int{0, 1} { // they touch, or not
		for n := range 40 {
			var ranges []Delete
			for i := range n {
				ranges = append(ranges, Emptied(key(3*i), key(3*i+3-gap), 7))
			}
			want := New(ranges...)
			got := EmptiedSet(ranges...)
			clear(ranges)
			if got.Len() != n || got.Bytes() != want.Bytes() || got.MaxVersion() != want.MaxVersion() || !slices.EqualFunc(got.All(), want.All(), func(a, b Delete) bool { return Compare(a, b) == 0 }) {
				t.Fatalf("%d ranges are %v, want %v", n, got.All(), want.All())
			}
			later := Delete{Lo: key(5), Hi: key(50), Version: 20}
			for i := range 3*n + 2 {
				for _, at := range []entry.Version{6, 7, 8, 20} {
					if v := got.Newest(key(i), at); v != want.Newest(key(i), at) {
						t.Fatalf("%d ranges: %d at %d: version %d", n, i, at, v)
					}
					if v := got.With(later).Newest(key(i), at); v != want.With(later).Newest(key(i), at) {
						t.Fatalf("%d ranges and a later one: %d at %d: version %d", n, i, at, v)
					}
				}
			}
		}
	}
}

// Two sets that are made from one are apart from each other and from it.
func TestSetsMadeFromOne(t *testing.T) {
	for n := range 70 {
		var one *Set
		for i := range n {
			one = one.With(Delete{Lo: wide(3 * i), Hi: wide(3*i + 2), Version: 1})
		}
		a, b := one, one
		for i := range 20 {
			a = a.With(Delete{Lo: wide(i), Hi: wide(1000), Version: entry.Version(10 + i)})
			b = b.With(Delete{Lo: wide(0), Hi: wide(1000 - i), Version: entry.Version(50 - i)})
		}
		if one.Len() != n || n > 0 && one.MaxVersion() != 1 {
			t.Fatalf("%d range deletes have become %d, up to %d", n, one.Len(), one.MaxVersion())
		}
		for i := range 3 * n {
			want := entry.Version(0)
			if i%3 < 2 {
				want = 1
			}
			if v := one.Newest(wide(i), entry.MaxVersion); v != want {
				t.Fatalf("of %d: %d over %d", n, v, i)
			}
			if v := a.Newest(wide(i), entry.MaxVersion); v != entry.Version(10+min(i, 19)) {
				t.Fatalf("of %d and 20 more: %d over %d", n, v, i)
			}
			if v := b.Newest(wide(i), entry.MaxVersion); v != 50 {
				t.Fatalf("of %d and 20 others: %d over %d", n, v, i)
			}
		}
	}
}

// TestRangesEndWithTheirKeyspace joins range deletes that touch, at the border of two keyspaces and
// elsewhere: none that comes out lies in two keyspaces.
func TestRangesEndWithTheirKeyspace(t *testing.T) {
	for _, id := range []entry.KeyspaceID{0, 1, 0xf6, 0xf7, 0xf8, 0x1f7, 0x1f8, 1 << 20, entry.MaxKeyspaceID - 1} {
		key := func(id entry.KeyspaceID, k string) []byte { return append(entry.AppendKeyspace(nil, id), k...) }
		border := entry.AfterKeyspace(id)
		if !bytes.Equal(border, key(id+1, "")) && id != 0xf7 && id != 0x1f7 {
			t.Fatalf("keyspace %d ends at %x, the next one begins at %x", id, border, key(id+1, ""))
		}
		touching := New(
			Delete{key(id, "k"), key(id, "m"), 7}, Delete{key(id, "m"), border, 7},
			Delete{key(id+1, ""), key(id+1, "a"), 7}, Delete{key(id+1, "a"), key(id+1, "b"), 7},
		)
		var flat, joined []Delete
		cover := NewForwardCover(entry.MaxVersion, touching)
		keep := func(to *[]Delete) func(Delete) error {
			return func(d Delete) error {
				*to = append(*to, Delete{bytes.Clone(d.Lo), bytes.Clone(d.Hi), d.Version})
				return nil
			}
		}
		if err := cover.Flatten([]byte{0}, nil, keep(&flat)); err != nil {
			t.Fatal(err)
		}
		cover.Close()
		cover = NewForwardCover(entry.MaxVersion, touching)
		if err := cover.EachRange([]byte{0}, func(lo, hi []byte) error { return keep(&joined)(Delete{lo, hi, 7}) }); err != nil {
			t.Fatal(err)
		}
		cover.Close()
		want := []Delete{{key(id, "k"), border, 7}, {key(id+1, ""), key(id+1, "b"), 7}}
		for name, got := range map[string][]Delete{"Flatten": flat, "EachRange": joined} {
			if !slices.EqualFunc(got, want, func(a, b Delete) bool { return Compare(a, b) == 0 }) {
				t.Errorf("keyspace %d: %s gives %x, want %x", id, name, got, want)
			}
			for _, d := range got {
				if !d.Valid() {
					t.Errorf("keyspace %d: %s gives %x, which is not valid", id, name, d)
				}
			}
		}
		err := WalkForest(touching.All(), fanout, func(s Span) error {
			if !s.Valid() {
				t.Errorf("keyspace %d: level %d has %x", id, s.Level, s.Delete)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if over := (Delete{key(id, "k"), key(id+1, "b"), 7}); over.Valid() {
			t.Errorf("%x is valid", over)
		}
	}
}
