package pending

import (
	"bytes"
	"sort"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// Iterator walks the newest write of each key, without what range deletes cover.
// It knows nothing of what is written later, and is valid as long as the Writes are.
func (w *Writes) Iterator() iterator.Iterator {
	m := &w.memory
	m.lent = true
	var deleted func(i int) bool
	if w.ranges != nil {
		deleted = func(i int) bool { return w.deletedSince(m.record(i).Key, i) }
	}
	mine := &memoryIterator{memory: *m, order: m.order(deleted), i: -1}
	if w.files == nil {
		return mine
	}
	// Of entries with one key, Merge yields that of the earliest source only.
	return iterator.Merge(append([]iterator.Iterator{mine}, w.files.Iterators(w.ranges, rangedel.Pending)...))
}

// memoryIterator walks the writes that were in memory when it was made.
type memoryIterator struct {
	memory memory // a copy: what is written later doesn't concern it
	order  []uint32
	i      int
	entry  entry.Entry
}

func (it *memoryIterator) to(i int) bool {
	it.i = min(max(i, -1), len(it.order))
	if it.i < 0 || it.i == len(it.order) {
		return false
	}
	it.memory.fill(int(it.order[it.i]), &it.entry)
	it.entry.Version = rangedel.Pending
	return true
}

func (it *memoryIterator) from(key []byte) int {
	return sort.Search(len(it.order), func(i int) bool { return bytes.Compare(it.memory.record(int(it.order[i])).Key, key) >= 0 })
}

func (it *memoryIterator) First() bool            { return it.to(0) }
func (it *memoryIterator) Last() bool             { return it.to(len(it.order) - 1) }
func (it *memoryIterator) SeekGE(key []byte) bool { return it.to(it.from(key)) }
func (it *memoryIterator) SeekLT(key []byte) bool { return it.to(it.from(key) - 1) }
func (it *memoryIterator) Entry() *entry.Entry    { return &it.entry }
func (it *memoryIterator) Err() error             { return nil }
func (it *memoryIterator) Close()                 {}

// Next and Prev stay where there is no entry.
func (it *memoryIterator) Next() bool {
	return it.i >= 0 && it.i < len(it.order) && it.to(it.i+1)
}

func (it *memoryIterator) Prev() bool {
	return it.i >= 0 && it.i < len(it.order) && it.to(it.i-1)
}

func (it *memoryIterator) SkipGE([]byte, entry.Version) bool { return it.Next() }
func (it *memoryIterator) SkipLT([]byte, entry.Version) bool { return it.Prev() }
func (it *memoryIterator) SkipNewer(entry.Version) bool      { return it.Next() }
