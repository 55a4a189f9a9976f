package policy

// KeepSegment says what becomes of a journal segment whose memtable is flushed:
// true if it stays as a value segment, because at least half of it are live
// values; false if they are copied, in key order, to a value segment. Live and
// total are bytes of the file.
func KeepSegment(live, total uint64) bool {
	return total >= keepLeastBytes && live >= total-live
}

// SegmentBytes is the length, at most limit, at which a segment should end in a
// store with that many live bytes. A segment is collected as a whole, so it must be
// small beside all of them.
func SegmentBytes(live uint64, limit int64) int64 {
	return min(max(int64(live/segmentFraction)/segmentStepBytes*segmentStepBytes, segmentLeastBytes), limit)
}
