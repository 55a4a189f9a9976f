package run

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// What a reader keeps of its chunks' keys, and what directory and manifest have of them,
// doesn't grow with the keys.
func TestBoundsAreShort(t *testing.T) {
	for _, size := range []int{100, 10_000, entry.MaxKey} {
		for _, alike := range []bool{false, true} { // whether they differ at their end only
			var entries []entry.Entry
			for i := range 6 {
				number := fmt.Sprintf("%06d", i)
				key := number + string(bytes.Repeat([]byte{'k'}, size-6))
				if alike {
					key = key[6:] + number
				}
				entries = append(entries, entry.Entry{Key: []byte(key), Value: make([]byte, 400_000), Version: 1, Kind: entry.Set})
			}
			dir := t.TempDir()
			m := writeRun(t, writerConfig(dir), entries)
			r := openRun(t, openConfig(dir, false), m)
			n := 0
			for i := range r.chunks {
				n += cap(r.chunks[i].key)
			}
			if most := len(r.chunks) * boundSize; len(r.chunks) < 3 || n > most {
				t.Errorf("keys of %d bytes: %d bytes of bounds for %d chunks", size, n, len(r.chunks))
			}
			if len(m.First) > layout.BoundSize || len(m.Last) > layout.BoundSize || bytes.Compare(m.First, entries[0].Key) > 0 || bytes.Compare(m.Last, entries[5].Key) < 0 {
				t.Errorf("keys of %d bytes: bounds of the run have %d and %d", size, len(m.First), len(m.Last))
			}
			_, ft, err := r.files[0].readDirectory(r.files[0].File, r.files[0].Size())
			if most := uint64(len(r.chunks)*(recordSize+boundHead+boundSize) + 256); err != nil || ft.DirSize > most {
				t.Errorf("keys of %d bytes: a directory of %d bytes, %v", size, ft.DirSize, err)
			}
		}
	}
}

// Whatever a key is, and whatever keys are around it, search finds the chunk that has it.
func TestSearchFindsTheChunk(t *testing.T) {
	long := string(bytes.Repeat([]byte{'x'}, 2*boundSize))
	pieces := []string{"", "a", "ab", "b", long, long + "a", long + "ab", long[1:] + "b"}
	var names []string
	for _, a := range pieces {
		for _, b := range pieces {
			names = append(names, "\x00"+a+b)
		}
	}
	sortUnique(&names)
	// One key a chunk, and each third in two of them.
	var records []record
	var chunkOf []int
	var before []byte
	for i, name := range names {
		chunkOf = append(chunkOf, len(records))
		for range 1 + i%3/2 {
			records = append(records, record{bound: newBound([]byte(name), shared(before, name), 0)})
			before = []byte(name)
		}
	}
	k := newKeys(records)
	for i, name := range names {
		lo, hi := k.searchChunks([]byte(name))
		if want := chunkOf[i]; want < lo || want > hi {
			t.Errorf("%.20q of %d bytes is in chunk %d, not from %d to %d", name, len(name), want, lo, hi)
		}
		if lo != hi && len(name) <= boundSize {
			t.Errorf("%.20q of %d bytes may be in chunk %d to %d", name, len(name), lo, hi)
		}
	}
}

func shared(before []byte, name string) int {
	if before == nil {
		return -1
	}
	return entry.CommonPrefix(before, []byte(name))
}

func sortUnique(list *[]string) {
	slices.Sort(*list)
	*list = slices.Compact(*list)
}
