package files

import (
	"github.com/brockdb/brock/internal/lsm/run"
)

// What of Config.Memory the parts of a tree may take. The memtables, the greatest
// part, are bounded by their size (MemtableBytes) and number (policy.ThrottleMostTables); where
// files are not mapped, chunks by CacheBytes.
const (
	bitsShare    = 16  // 1/16 for what is known of pages and records
	CollectShare = 16  // 1/16 for the keys that a collection sorts
	filterShare  = 128 // 1/128 for hashes of keys whose filter is not written yet
	bytesPerMove = 256 // a collection of several segments moves at most one record per 256 bytes
	maxMoved     = 2 << 20
)

// MovedRecords bounds the records that one collection of several segments moves:
// where they went is kept until it ends.
func MovedRecords(memory int64) uint64 {
	if memory == 0 {
		return maxMoved
	}
	return uint64(min(memory/bytesPerMove, maxMoved))
}

// FilterKeys is the number of keys for which a filter is made at most.
func FilterKeys(memory int64) int {
	if memory == 0 {
		return run.DefaultFilterKeys
	}
	return int(min(max(memory/filterShare/8, 1<<12), run.DefaultFilterKeys))
}
