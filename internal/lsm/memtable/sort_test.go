package memtable

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
)

// nested is one of the keys of which each goes on where another ends: of all shapes the
// one in which a sorter that takes a word at a time splits off one key at a time.
func nested(i int) []byte { return []byte(strings.Repeat("directory/", i+1) + "file") }

// Whatever the keys are like and in whatever order they come, sorting reads each of them a few
// times for each word, and a few times as comparisons do.
func TestSortingIsBoundedByComparisons(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("reads of keys are counted where invariants are checked")
	}
	const n = 1000
	long := bytes.Repeat([]byte("x"), 10_000)
	shapes := map[string]func(i int) []byte{
		"nested":        nested,
		"zeros":         func(i int) []byte { return make([]byte, 8*i+1) },
		"shared prefix": func(i int) []byte { return fmt.Appendf(long[:len(long):len(long)], "%d", i) },
		"pairs":         func(i int) []byte { return append(bytes.Repeat([]byte("ab"), i/2+1), byte(i)) },
	}
	orders := map[string]func(keys [][]byte){
		"ascending":  func([][]byte) {},
		"descending": slices.Reverse[[][]byte],
		"any": func(keys [][]byte) {
			rand.New(rand.NewPCG(1, 1)).Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		},
	}
	for shape, key := range shapes {
		var keys [][]byte
		for i := range n {
			keys = append(keys, key(i))
		}
		for order, arrange := range orders {
			keys := slices.Clone(keys)
			arrange(keys)
			tab := New(Options{Seed: seed})
			for i, k := range keys {
				add(t, tab, entry.Entry{Key: k, Version: entry.Version(i + 1)})
			}
			v := &view{arena: &tab.arena, end: ref(tab.extent.Load() & refMask), count: n}
			pairs, _ := (&view{arena: &tab.arena}).collectFresh(v)
			sorter := sorter{arena: &tab.arena}
			sorter.sortPairs(pairs, 0)
			if most := n * (4*maxWords + 4*bits.Len(n) + smallGroup); sorter.reads > most {
				t.Errorf("%s, %s: %d reads of %d keys, want %d at most", shape, order, sorter.reads, n, most)
			}
			tab.Release()
		}
	}
}

// A commit leader asks ChangedSince, so it sorts nothing; a committer asks SortSince
// before, which leaves only a few entries to look at one by one.
func TestChangedSinceSortsNothing(t *testing.T) {
	tab := New(Options{Seed: seed})
	defer tab.Release()
	const n = 4 * scanMax
	key := func(i int) []byte { return fmt.Appendf(nil, "%06d", i) }
	for i := range n {
		add(t, tab, entry.Entry{Key: key(i), Version: entry.Version(i + 1)})
	}
	sorted := func() int { return tab.view.Load().count }
	if tab.ChangedSince([]byte("x"), nil, 1) || !tab.ChangedSince(nil, nil, n-1) || sorted() != 0 {
		t.Errorf("with no view: it sorted %d entries, or was wrong", sorted())
	}
	if tab.SortSince(n - scanMax); sorted() != 0 {
		t.Errorf("SortSince sorted %d entries where few are newer", sorted())
	}
	if tab.SortSince(1); sorted() != n {
		t.Errorf("SortSince sorted %d of %d entries", sorted(), n)
	}
	for i := range 10 {
		add(t, tab, entry.Entry{Key: key(i), Version: entry.Version(n + i + 1)})
	}
	for _, c := range []struct {
		lo, hi []byte
		since  entry.Version
		want   bool
	}{
		{key(n / 2), nil, n / 2, true},
		{key(n / 2), nil, n, false},
		{nil, key(n / 2), n, true},
		{key(9), key(10), n + 9, true},
		{key(0), key(9), n + 9, false},
		{key(10), key(n / 2), n / 2, false},
	} {
		if got := tab.ChangedSince(c.lo, c.hi, c.since); got != c.want {
			t.Errorf("ChangedSince(%s, %s, %d) = %v", c.lo, c.hi, c.since, got)
		}
	}
	if sorted() != n {
		t.Errorf("asking sorted %d entries", sorted()-n)
	}
}
