package policy

// MemtableBytes is how large the next memtable may become, of full bytes, in a store with
// this much memory; 0 = not known. Readers that began one after the other each keep the
// memtable of their time. The more there is in memtables that only they read, the
// smaller are the next ones.
func MemtableBytes(full, pinned, memory int64) int64 {
	over := pinned - memory/pinnedFraction
	if memory == 0 || over < 0 {
		return full
	}
	halvings := min(1+over/max(memory/pinnedStepFraction, 1), pinnedHalvings)
	return min(full, max(full>>halvings, pinnedLeastBytes))
}
