package memtable

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/tombstone"
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
			if err := table.Add(hash.Sum(0, key), &entry.Entry{Key: key, Version: v, Kind: entry.Set}); err != nil {
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

// pass walks over all of a table by what its tombstones hide, and returns how long it took.
func pass(t *testing.T, table *Table, backward bool) time.Duration {
	begin := time.Now()
	it := table.Iterator()
	defer it.Close()
	cover := tombstone.NewCover(entry.MaxVersion, table.Tombstones())
	ok := it.First()
	if backward {
		ok = it.Last()
	}
	for ok {
		v := cover.Newest(it.Entry().Key)
		if it.Entry().Version >= v {
			t.Fatalf("%q is not hidden", it.Entry().Key)
		}
		lo, hi := cover.Stretch()
		if backward {
			ok = it.SkipLT(lo, v)
		} else {
			ok = it.SkipGE(hi, v)
		}
	}
	return time.Since(begin)
}

// To pass many small ranges that were deleted one by one takes steps in proportion to the
// entries: four times as many take about four times as long, not sixteen times.
func TestPassingSmallDeletedRangesIsLinear(t *testing.T) {
	for _, backward := range []bool{false, true} {
		one, four := dropped(t, 1000), dropped(t, 4000)
		for try := 1; ; try++ {
			best := [2]time.Duration{math.MaxInt64, math.MaxInt64}
			for range 5 {
				best[0] = min(best[0], pass(t, one, backward))
				best[1] = min(best[1], pass(t, four, backward))
			}
			if best[1] < 8*best[0] {
				break
			}
			if try == 5 {
				t.Fatalf("backward %v: 1,000 ranges take %v, 4,000 take %v", backward, best[0], best[1])
			}
		}
	}
}

// What a tombstone takes in memory counts, so a memtable is sealed because of them.
func TestTombstonesCount(t *testing.T) {
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
			t.Errorf("a tombstone with bounds of %d bytes counts as %d", length, each)
		}
		for _, d := range table.Tombstones().All() {
			if len(d.Lo) != length || len(d.Hi) != length || d.Lo[1] != '0' {
				t.Fatalf("bounds %.20q and %.20q", d.Lo, d.Hi)
			}
		}
	}
}
