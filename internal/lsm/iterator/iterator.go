// Package iterator walks entries in order: the contract that every source (memtable view, run)
// meets, and the walks built on it.
package iterator

import "github.com/brockdb/brock/internal/base/entry"

// Iterator walks the entries of one source in entry.Compare order: by key, and
// the versions of a key newest first. It is used by one goroutine at a time.
// A new Iterator is not positioned.
//
// The moves report whether the iterator is at an entry afterwards. After a
// false, Err says whether that is the end (nil) or a failure; a failure sticks
// until the next First, Last or Seek. Next or Prev of an iterator that is not
// at an entry returns false and stays so.
type Iterator interface {
	First() bool
	Last() bool
	// SeekGE moves to the first entry whose key is key or greater.
	SeekGE(key []byte) bool
	// SeekLT moves to the last entry whose key is less than key.
	SeekLT(key []byte) bool
	Next() bool
	Prev() bool
	// SkipGE is called at an entry older than v. It moves as Next does, but may leave
	// out entries that are before key and older than v: none, some or all of them.
	// The moves that follow may leave out more of them, until one goes back.
	SkipGE(key []byte, v entry.Version) bool
	// SkipLT is called at an entry older than v. It moves as Prev does, but may leave
	// out entries whose keys are key or greater and that are older than v.
	SkipLT(key []byte, v entry.Version) bool
	// SkipNewer is called at an entry newer than v. It moves as Next does, but may leave
	// out versions of the entry's key that are newer than v: none, some or all of them.
	SkipNewer(v entry.Version) bool
	// Entry is the entry at the position; it is only called after a move that
	// returned true. The Entry and its Key are overwritten by the next move;
	// its inline Value stays valid as long as the source does.
	Entry() *entry.Entry
	Err() error
	Close()
}

// Bounded is an Iterator that knows between what its entries lie, before it has read any.
type Bounded interface {
	Iterator
	// Ends returns entries that are not greater than the first one, and not less than the last
	// one, in the order of entries; nil if they are not known.
	Ends() (first, last *entry.Entry)
}

// Lookahead is an Iterator that may know what comes next.
type Lookahead interface {
	Iterator
	// LookAhead returns how many of the next calls of Next, with no other move between, are
	// sure to return true, and touch no mapped memory; Entry is the same pointer after each.
	// The entries are set, with neither meta nor expiry, before the key until, with
	// versions in [least, most], and each is the only one of its key. It is only called at
	// an entry, after a move forward. To return 0 is always right.
	LookAhead(until []byte, least, most entry.Version) int
}
