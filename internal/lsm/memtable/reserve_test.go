package memtable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

// memory is what a table has of the system: each block by its first byte.
func (t *Table) memory() (blocks []*byte, buckets *buckets) {
	for _, a := range []*arena{&t.arena, &t.arena.outside.arena, &t.bounds} {
		for _, mem := range append(slices.Clone(a.blocks), a.spare) {
			if mem != nil {
				blocks = append(blocks, &mem[0])
			}
		}
	}
	return blocks, t.byKey.Load()
}

// TestReservedEntriesNeedNoMemory: whatever was counted is added without another block or hash
// table; also when it is not all added, as after a refused commit.
func TestReservedEntriesNeedNoMemory(t *testing.T) {
	rnd := draw.Rand(t)
	table := New(Options{Limit: 1 << 20})
	defer table.Release()
	for round := range 300 {
		entries := randomGroup(rnd, entry.Version(round+1))
		bytes, ranges := 0, 0
		var n Needs
		encoded := rnd.IntN(2) == 0
		for _, e := range entries {
			if !encoded || e.Kind == entry.RangeDelete || !n.CountBytes(kept(&e)) {
				n.Count(e.Kind, e.Key, e.Value, e.Separated)
			}
			if e.Kind == entry.RangeDelete {
				bytes += len(e.Key) + len(e.Value)
				ranges++
			} else {
				bytes += kept(&e)
			}
		}
		if !table.HasRoom(bytes, len(entries), ranges) {
			if err := table.Reserve(&n); err != nil {
				t.Fatal(err)
			}
		}
		had, buckets := table.memory()
		if rnd.IntN(5) == 0 {
			continue // refused
		}
		for i, e := range entries {
			if e.Kind == entry.RangeDelete {
				if err := table.DeleteRange(e.Key, e.Value, e.Version); err != nil {
					t.Fatal(err)
				}
			} else if err := table.Add(&e); err != nil {
				t.Fatal(err)
			}
			has, now := table.memory()
			if now != buckets {
				t.Fatalf("round %d: entry %d of %d made another hash table", round, i, len(entries))
			}
			for _, b := range has {
				if !slices.Contains(had, b) {
					t.Fatalf("round %d: entry %d of %d, of %d and %d bytes, took another block", round, i, len(entries), len(e.Key), len(e.Value))
				}
			}
		}
	}
}

// kept is how many bytes of the record of e in a payload a table keeps.
func kept(e *entry.Entry) int {
	r := *e
	if e.Separated {
		r.Separated, r.Raw, r.Value = false, 0, make([]byte, e.Handle.Length)
	}
	_, head := entry.RawSize(entry.AppendRecord(nil, &r, e.Separated))
	return head
}

// randomGroup draws entries of all kinds and lengths, few of them long.
func randomGroup(rnd *rand.Rand, v entry.Version) (group []entry.Entry) {
	most := 1 << rnd.IntN(9)
	for range 1 + rnd.IntN(most) {
		e := entry.Entry{Kind: entry.Set, Version: v, Key: fmt.Appendf(nil, "%0*d", 1+rnd.IntN(40), rnd.IntN(3000))}
		length := rnd.IntN(1 << rnd.IntN(13))
		if rnd.IntN(50) == 0 {
			length = outsideSize - 2 + rnd.IntN(4)
		}
		switch rnd.IntN(6) {
		case 0:
			e.Kind = entry.RangeDelete
			e.Value = append(slices.Clone(e.Key), make([]byte, 1+rnd.IntN(200))...)
		case 1:
			e.Separated, e.Raw, e.Handle = true, uint32(rnd.IntN(2)), entry.Handle{Segment: 1, Length: uint64(length)}
		case 2:
			e.Expires = rnd.Uint64()
			fallthrough
		default:
			e.Value = make([]byte, length)
		}
		group = append(group, e)
	}
	return group
}
