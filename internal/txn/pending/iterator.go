package pending

import (
	"bytes"
	"sort"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// Iterator walks the newest write of each key, without what range deletes cover. It does not see
// what is written later, and is valid as long as the Writes are.
func (w *Writes) Iterator() iterator.Iterator {
	m := &w.memory
	m.aliased = true
	var deleted func(i int) bool
	if w.ranges != nil {
		// Deletes are part of the list, not a check of each step: the list is reused by the next
		// iterator.
		deleted = func(i int) bool { return w.deletedSince(m.decodeRecord(i).Key, i) }
	}
	// The copy keeps the arena of now: an append may move the array, but old bytes stay.
	mine := &memoryIterator{memory: *m, order: m.orderRecords(deleted), i: -1}
	if w.files == nil {
		return mine
	}
	// Entries of one key have one version in all sources (rangedel.Pending), so their order is
	// given by the sources: Merge yields that of the earliest one only, the newest.
	return iterator.Merge(append([]iterator.Iterator{mine}, w.files.Iterators(w.ranges)...))
}

// memoryIterator walks the writes that were in memory when it was made.
type memoryIterator struct {
	memory memory      // a copy: later writes don't concern it
	order  []uint32    // indices of records, by key
	i      int         // position in order; -1: at no entry
	entry  entry.Entry // the current entry
}

// moveTo makes the i-th record of order the current one. It returns false beyond the ends.
func (it *memoryIterator) moveTo(i int) bool {
	if it.i = i; i < 0 || i >= len(it.order) {
		it.i = -1 // at either end: Next and Prev stay where there is no entry
		return false
	}
	it.memory.fillEntry(int(it.order[it.i]), &it.entry)
	it.entry.Version = rangedel.Pending
	return true
}

// findPlace returns the position of the first key that is at least key.
func (it *memoryIterator) findPlace(key []byte) int {
	return sort.Search(len(it.order), func(i int) bool { return bytes.Compare(it.memory.decodeRecord(int(it.order[i])).Key, key) >= 0 })
}

func (it *memoryIterator) First() bool            { return it.moveTo(0) }
func (it *memoryIterator) Last() bool             { return it.moveTo(len(it.order) - 1) }
func (it *memoryIterator) SeekGE(key []byte) bool { return it.moveTo(it.findPlace(key)) }
func (it *memoryIterator) SeekLT(key []byte) bool { return it.moveTo(it.findPlace(key) - 1) }
func (it *memoryIterator) Entry() *entry.Entry    { return &it.entry }
func (it *memoryIterator) Err() error             { return nil }
func (it *memoryIterator) Close()                 {}
func (it *memoryIterator) Next() bool             { return it.i >= 0 && it.moveTo(it.i+1) }
func (it *memoryIterator) Prev() bool             { return it.i >= 0 && it.moveTo(it.i-1) }

// SkipGE is Next, as there is one version a key: all skips are single moves.
func (it *memoryIterator) SkipGE([]byte, entry.Version) bool { return it.Next() }
func (it *memoryIterator) SkipLT([]byte, entry.Version) bool { return it.Prev() }
func (it *memoryIterator) SkipNewer(entry.Version) bool      { return it.Next() }
