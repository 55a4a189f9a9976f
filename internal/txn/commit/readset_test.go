package commit

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

// changes is a store that keeps the newest version of each key.
type changes struct {
	versions map[string]entry.Version
	asked    int
	err      error
}

func (c *changes) Newest(key []byte, h uint64, _ entry.Version) (entry.Version, bool, error) {
	c.asked++
	if h != checksum.HashKey(1, key) {
		return 0, false, fmt.Errorf("%q came with the hash of another key", key)
	}
	v, ok := c.versions[string(key)]
	return v, ok, c.err
}

func (c *changes) ChangedSince(lo, hi []byte, since entry.Version) (bool, error) {
	c.asked++
	for k, v := range c.versions {
		if v > since && k >= string(lo) && (hi == nil || k < string(hi)) {
			return true, c.err
		}
	}
	return false, c.err
}

func addKey(s *ReadSet, key string) { s.AddKey([]byte(key), checksum.HashKey(1, []byte(key))) }

// is reports whether err is a conflict, if there should be one, else nil.
func is(err error, conflict bool) bool {
	if conflict {
		return errors.Is(err, errs.ErrConflict)
	}
	return err == nil
}

func TestCheck(t *testing.T) {
	store := &changes{versions: map[string]entry.Version{"a": 3, "c": 5, "e": 9}}
	for _, c := range []struct {
		name  string
		read  func(*ReadSet)
		since entry.Version
		want  bool
	}{
		{"nothing read", func(s *ReadSet) {}, 0, false},
		{"key unchanged", func(s *ReadSet) { addKey(s, "a") }, 3, false},
		{"key changed", func(s *ReadSet) { addKey(s, "a") }, 2, true},
		{"absent key still absent", func(s *ReadSet) { addKey(s, "b") }, 0, false},
		{"second key changed", func(s *ReadSet) { addKey(s, "a"); addKey(s, "e") }, 8, true},
		{"empty range still empty", func(s *ReadSet) { s.AddRange([]byte("aa"), []byte("c")) }, 0, false},
		{"phantom in a range", func(s *ReadSet) { s.AddRange([]byte("aa"), []byte("d")) }, 4, true},
		{"lower bound is in", func(s *ReadSet) { s.AddRange([]byte("c"), []byte("d")) }, 4, true},
		{"upper bound is out", func(s *ReadSet) { s.AddRange([]byte("d"), []byte("e")) }, 0, false},
		{"no upper bound", func(s *ReadSet) { s.AddRange([]byte("d"), nil) }, 8, true},
		{"no upper bound, unchanged", func(s *ReadSet) { s.AddRange(nil, nil) }, 9, false},
		{"range of nothing", func(s *ReadSet) { s.AddRange([]byte("c"), []byte("c")) }, 0, false},
		{"empty hi is a bound", func(s *ReadSet) { s.AddRange(nil, []byte{}) }, 0, false},
	} {
		s := ReadSet{Seed: 1}
		c.read(&s)
		if err := s.Check(store, c.since); !is(err, c.want) {
			t.Errorf("%s: %v, want a conflict: %v", c.name, err, c.want)
		}
	}
}

func TestCheckReportsFailures(t *testing.T) {
	fault := errors.New("disk")
	store := &changes{versions: map[string]entry.Version{"a": 3}, err: fault}
	keys, ranges := ReadSet{Seed: 1}, ReadSet{Seed: 1}
	addKey(&keys, "a")
	ranges.AddRange(nil, nil)
	for _, s := range []*ReadSet{&keys, &ranges} {
		if err := s.Check(store, 0); !errors.Is(err, fault) {
			t.Errorf("%v, want %v", err, fault)
		}
	}
}

func TestRepeatsAreMerged(t *testing.T) {
	s := ReadSet{Seed: 1}
	for range 100 {
		addKey(&s, "a")
	}
	for i := range 100 { // a walk, noted step by step
		s.AddRange([]byte("k"), fmt.Appendf(nil, "k%04d", i))
	}
	s.AddRange([]byte("x"), []byte("z"))
	s.AddRange([]byte("a"), []byte("b"))
	s.AddRange([]byte("b"), []byte("c"))
	s.AddRange([]byte("y"), nil)
	store := &changes{}
	if err := s.Check(store, 0); err != nil || store.asked != 4 {
		t.Errorf("%d questions (%v), want 1 key and 3 ranges", store.asked, err)
	}
	if len(s.bytes) > 30 {
		t.Errorf("%d bytes kept: %q", len(s.bytes), s.bytes)
	}
}

func TestReadSetMatchesANaiveOne(t *testing.T) {
	seed := draw.Seed(t)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := ReadSet{Seed: 1}
	word := func() []byte {
		k := make([]byte, r.IntN(5))
		for i := range k {
			k[i] = "abc"[r.IntN(3)]
		}
		return k
	}
	for range 400 {
		s.Reset()
		if !s.Empty() {
			t.Fatal("not empty after Reset")
		}
		keys := map[string]bool{}
		var ranges [][2][]byte
		for range r.IntN(60) {
			switch r.IntN(8) {
			case 0:
				lo, hi := word(), word()
				if r.IntN(20) == 0 {
					hi = nil
				}
				s.AddRange(lo, hi)
				ranges = append(ranges, [2][]byte{lo, hi})
			case 1: // questions in between must not harm what is added later
				s.Touches(word())
			default:
				k := word()
				addKey(&s, string(k))
				keys[string(k)] = true
			}
		}
		touched := func(k []byte) bool {
			hit := keys[string(k)]
			for _, x := range ranges {
				hit = hit || bytes.Compare(k, x[0]) >= 0 && (x[1] == nil || bytes.Compare(k, x[1]) < 0)
			}
			return hit
		}
		store := &changes{versions: map[string]entry.Version{}}
		want := false
		for range r.IntN(4) {
			k := word()
			v := entry.Version(r.IntN(10))
			store.versions[string(k)] = v
		}
		for k, v := range store.versions {
			want = want || v > 5 && touched([]byte(k))
		}
		if err := s.Check(store, 5); !is(err, want) {
			t.Fatalf("Check = %v, want a conflict: %v", err, want)
		}
		for range 50 {
			if k := word(); s.Touches(k) != touched(k) {
				t.Fatalf("Touches(%q) = %v; keys %v, ranges %q", k, s.Touches(k), keys, ranges)
			}
		}
	}
}

func BenchmarkAddKey(b *testing.B) {
	s := ReadSet{Seed: 1}
	key := []byte("vsz=00016-k=0000000000")
	for i := 0; b.Loop(); i++ {
		if i%1000 == 0 {
			s.Reset()
		}
		key[20], key[21] = byte(i>>8), byte(i)
		s.AddKey(key, uint64(i))
	}
}

func BenchmarkTouches(b *testing.B) {
	for _, n := range []int{1, 8, 100, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			s := ReadSet{Seed: 1}
			for i := range n {
				addKey(&s, fmt.Sprintf("vsz=00016-k=%010d", i))
			}
			key := []byte("vsz=00016-k=9999999999")
			for b.Loop() {
				if s.Touches(key) {
					b.Fatal("touched")
				}
			}
		})
	}
}

// A set that outgrows its limit misses nothing that was read, and keeps the limit.
func TestCoarseReadSet(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := ReadSet{Seed: 1, Limit: 200 + r.IntN(3000)}
		var keys []string
		var ranges [][2]string
		for range 1 + r.IntN(1500) {
			k := fmt.Sprintf("%04d", r.IntN(9000))
			if r.IntN(10) > 0 {
				addKey(&s, k)
				keys = append(keys, k)
				continue
			}
			hi := fmt.Sprintf("%s%d", k, r.IntN(9))
			if r.IntN(400) == 0 {
				s.AddRange([]byte(k), nil)
				hi = "~"
			} else {
				s.AddRange([]byte(k), []byte(hi))
			}
			ranges = append(ranges, [2]string{k, hi})
			if n := len(s.bytes) + 24*len(s.keys) + 40*len(s.ranges); n > s.Limit {
				t.Fatalf("seed %d: %d bytes, the limit is %d", seed, n, s.Limit)
			}
		}
		touched := func(k string) {
			store := &changes{versions: map[string]entry.Version{k: 7}}
			if err := s.Check(store, 6); !s.Touches([]byte(k)) || !is(err, true) {
				t.Fatalf("seed %d: %q was read: touched %v, %v", seed, k, s.Touches([]byte(k)), err)
			}
			if err := s.Check(store, 7); err != nil {
				t.Fatalf("seed %d: %q has not changed, and is a conflict", seed, k)
			}
		}
		for _, k := range keys {
			touched(k)
		}
		for _, g := range ranges {
			touched(g[0])
			if k := g[0] + "0"; k < g[1] {
				touched(k)
			}
		}
		for k, read := range map[string]bool{"": false, "!": false, "~": len(ranges) > 0} {
			if !read && s.Touches([]byte(k)) {
				t.Errorf("seed %d: %q lies before all that was read", seed, k)
			}
		}
	}
}

// TestRepeatsMakeNoRanges reads few keys and ranges often, in turn: a set is bounded by how many
// different ones it has.
func TestRepeatsMakeNoRanges(t *testing.T) {
	s := ReadSet{Seed: 1, Limit: 4000}
	for i := range 100_000 {
		addKey(&s, fmt.Sprintf("%02d", i%50*2))
		lo := fmt.Sprintf("x%d", i%9)
		s.AddRange([]byte(lo), []byte(lo+"5"))
		if s.Memory() > 3*s.Limit {
			t.Fatalf("%d bytes after %d reads", s.Memory(), i)
		}
	}
	for i := range 50 {
		if read, not := fmt.Sprintf("%02d", i*2), fmt.Sprintf("%02d", i*2+1); !s.Touches([]byte(read)) || s.Touches([]byte(not)) {
			t.Errorf("%s was read, %s was not: %v, %v", read, not, s.Touches([]byte(read)), s.Touches([]byte(not)))
		}
	}
	for i := range 9 {
		lo := fmt.Sprintf("x%d", i)
		if !s.Touches([]byte(lo+"4")) || s.Touches([]byte(lo+"5")) {
			t.Errorf("[%s, %s5) was read", lo, lo)
		}
	}
}

// TestSetOfKeyspaces adds many keyspaces, each several times.
func TestSetOfKeyspaces(t *testing.T) {
	all := make([]Keyspace, 1000)
	var set Keyspaces
	for range 2 {
		for n := range all {
			for _, i := range []int{n, n / 2, 0, n} {
				set.Add(&all[i])
			}
			if set.Len() < n+1 {
				t.Fatalf("%d keyspaces of %d", set.Len(), n+1)
			}
		}
		if set.Len() != len(all) {
			t.Fatalf("%d keyspaces, want %d", set.Len(), len(all))
		}
		all[999].Dropped.Store(true)
		if set.findDropped() != &all[999] {
			t.Error("the dropped one is not found")
		}
		set.Reset()
		if set.Len() != 0 || set.findDropped() != nil {
			t.Error("the set is not empty after Reset")
		}
	}
}
