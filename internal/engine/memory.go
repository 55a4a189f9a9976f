package engine

// What of Config.Memory collections may take; view.OpenerConfig has what files may take.
const (
	collectShare = 16  // 1/16 for the keys that a collection sorts
	bytesPerMove = 256 // a collection of several segments moves at most one record per 256 bytes
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
