package tree

// What of Config.Memory the parts of a tree may take. The memtables, the greatest
// part, are bounded by their size (MemtableBytes) and number (maxTables); where
// files are not mapped, chunks by CacheBytes.
const (
	collectShare = 16  // one part in so many for the keys that a collection sorts
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
