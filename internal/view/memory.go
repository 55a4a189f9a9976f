package view

import "github.com/brockdb/brock/internal/lsm/run"

// What of OpenerConfig.Memory the files may take. The memtables, the greatest part of all memory,
// are bounded by their size (MemtableBytes) and number (policy.ThrottleMostTables).
const (
	cacheShare  = 4   // 1/4 for chunks of runs that are not mapped
	bitsShare   = 16  // 1/16 for what is known of pages and records
	filterShare = 128 // 1/128 for hashes of keys whose filter is not written yet
)

// FilterKeys is the number of keys for which a filter is made at most.
func FilterKeys(memory int64) int {
	if memory == 0 {
		return run.DefaultFilterKeys
	}
	return int(min(max(memory/filterShare/8, 1<<12), run.DefaultFilterKeys))
}
