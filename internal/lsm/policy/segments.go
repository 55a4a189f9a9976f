package policy

// KeepSegment reports whether a journal segment whose memtable is flushed stays as a value
// segment, because at least half of its bytes are live values. Otherwise its values are copied,
// in key order, to a value segment. live and total are bytes of the file.
func KeepSegment(live, total uint64) bool {
	return total >= keepLeastBytes && live >= total-live
}

// SegmentBytes returns the length, at most limit, at which a segment should end in a store with
// live bytes. A segment is collected as a whole, so it must be a small part of the store.
func SegmentBytes(live uint64, limit int64) int64 {
	return min(max(int64(live/segmentFraction), segmentLeastBytes), limit)
}
