package tree

import (
	"github.com/brockdb/brock/internal/run"
	"github.com/brockdb/brock/internal/view"
)

// What of Config.Memory the parts of a tree may take. The memtables, the greatest
// part, are bounded by their size (MemtableBytes) and number (maxTables); where
// files are not mapped, chunks by CacheBytes.
const (
	bitsShare    = 16  // one part in so many for what is known of pages and records
	collectShare = 16  // for the keys that a collection sorts
	filterShare  = 128 // for hashes of keys whose filter is not written yet
	bytesPerMove = 256 // a collection of several segments moves a record for each so many bytes
	maxMoved     = 2 << 20
)

// movedRecords bounds the records that one collection of several segments moves:
// where they went is kept until it ends.
func movedRecords(memory int64) uint64 {
	if memory == 0 {
		return maxMoved
	}
	return uint64(min(memory/bytesPerMove, maxMoved))
}

// filterKeys is for how many keys a filter is made at most.
func filterKeys(memory int64) int {
	if memory == 0 {
		return run.DefaultFilterKeys
	}
	return int(min(max(memory/filterShare/8, 1<<12), run.DefaultFilterKeys))
}

// Memory is what the parts of a tree take now, in bytes. What is mapped from
// files is not in it.
type Memory struct {
	Memtables int64 // those that a reader still holds included
	Tables    int   // of them
	Known     int64 // what is known of pages and records in memory
	Chunks    int64 // of runs that are not mapped
	Filters   int64 // likewise
}

// Memory asks every run.
func (t *Tree) memory(v *view.View) Memory {
	m := Memory{Known: t.files.Bits.Bytes(), Chunks: t.chunks.Bytes()}
	for _, r := range v.Runs {
		m.Filters += r.FilterBytes()
	}
	m.Tables, m.Memtables = t.views.Memtables()
	return m
}
