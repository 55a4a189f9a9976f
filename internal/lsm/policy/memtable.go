package policy

// MemtableBytes returns the size at which the next memtable is full: at most full bytes. memory
// is the store's memory limit; 0 = not known. Long readers keep the memtables of the time when
// they began. The more bytes such memtables take (pinned), the smaller is the next one.
func MemtableBytes(full, pinned, memory int64) int64 {
	over := pinned - memory/pinnedFraction
	if memory == 0 || over < 0 {
		return full
	}
	// By steps, so that a memtable becomes small before pinned ones have taken all memory.
	halvings := min(1+over/max(memory/pinnedStepFraction, 1), pinnedHalvings)
	return min(full, max(full>>halvings, pinnedLeastBytes))
}
