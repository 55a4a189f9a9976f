package memtable

import (
	"fmt"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// dropped is a table of n prefixes of six keys each, deleted one prefix after the other.
func dropped(t *testing.T, n int) *Table {
	t.Helper()
	table := New(Options{})
	t.Cleanup(table.Release)
	v := entry.Version(0)
	for i := range n {
		v++
		for j := range 6 {
			key := fmt.Appendf(nil, "\x00s/%08d/%d", i, j)
			if err := table.Add(&entry.Entry{Key: key, Version: v, Kind: entry.Set}); err != nil {
				t.Fatal(err)
			}
		}
		v++
		if err := table.DeleteRange(fmt.Appendf(nil, "\x00s/%08d/", i), fmt.Appendf(nil, "\x00s/%08d0", i), v); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

// pass walks over all of a table by what its range deletes hide, and returns how many entries
// it has looked at.
func pass(t *testing.T, table *Table, backward bool) (looks int) {
	c := table.Iterator().(*cursor)
	defer c.Close()
	cover := rangedel.NewCover(entry.MaxVersion, table.RangeDeletes())
	ok := c.First()
	if backward {
		ok = c.Last()
	}
	for ; ok; looks++ {
		v := cover.Newest(c.Entry().Key)
		if c.Entry().Version >= v {
			t.Fatalf("%q is not hidden", c.Entry().Key)
		}
		lo, hi := cover.Stretch()
		version, asked := c.newer.version, c.newer.asked
		if backward {
			ok = c.SkipLT(lo, v)
		} else {
			ok = c.SkipGE(hi, v)
		}
		if c.newer.asked > 0 && (c.newer.version != version || c.newer.asked != asked) {
			m, _ := c.marks.lastMark(v - 1)
			looks += c.view.count - m.count
		}
	}
	return looks
}

// To pass many small ranges that were deleted one by one takes no more looks than there are
// entries, but for a few at the end.
func TestPassingSmallDeletedRangesIsLinear(t *testing.T) {
	for _, backward := range []bool{false, true} {
		for _, n := range []int{1000, 2000, 4000} {
			if looks := pass(t, dropped(t, n), backward); looks > 6*n+10*markEvery {
				t.Errorf("backward %v: %d looks at %d entries", backward, looks, 6*n)
			}
		}
	}
}

// What a range delete takes in memory counts, so a memtable is sealed because of them.
func TestRangeDeletesCount(t *testing.T) {
	for _, length := range []int{10, 1 << 20} {
		table := New(Options{})
		t.Cleanup(table.Release)
		lo := make([]byte, length)
		n := 1 << 22 / length
		for i := range n {
			copy(lo, fmt.Sprintf("\x00%09d", i))
			hi := append(lo[:length-1:length-1], 0xff)
			if err := table.DeleteRange(lo, hi, entry.Version(i+1)); err != nil {
				t.Fatal(err)
			}
			clear(lo)
		}
		each := table.Bytes() / int64(n)
		if least, most := int64(2*length+56), int64(2*length+400); each < least || each > most {
			t.Errorf("a range delete with bounds of %d bytes counts as %d", length, each)
		}
		for _, d := range table.RangeDeletes().All() {
			if len(d.Lo) != length || len(d.Hi) != length || d.Lo[1] != '0' {
				t.Fatalf("bounds %.20q and %.20q", d.Lo, d.Hi)
			}
		}
	}
}

// Readers search the range deletes that they have found while the writer adds others.
func TestRangeDeletesWhileOthersAreAdded(t *testing.T) {
	table := New(Options{})
	t.Cleanup(table.Release)
	const n = 5000
	key := func(i int) []byte { return fmt.Appendf(nil, "\x00%08d", i) }
	var readers sync.WaitGroup
	for r := range 2 {
		readers.Go(func() {
			for seen := 0; seen < n; {
				set := table.RangeDeletes()
				seen = set.Len()
				for i := r; i < seen+3; i += 1 + seen/20 {
					// Range delete i covers keys i and i+1, at version i+1; the newer one counts.
					want := entry.Version(min(i+1, seen))
					if i > seen {
						want = 0
					}
					if got := set.Newest(key(i), entry.MaxVersion); got != want {
						t.Errorf("with %d range deletes: %d over key %d, want %d", seen, got, i, want)
						return
					}
				}
			}
		})
	}
	for i := range n {
		if err := table.DeleteRange(key(i), key(i+2), entry.Version(i+1)); err != nil {
			t.Error(err)
			break
		}
	}
	readers.Wait()
}
