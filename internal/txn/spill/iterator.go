package spill

import (
	"cmp"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// uncovered walks what the transaction sees of a part: what no newer range delete covers. All entries
// have the version rangedel.Pending. A part has one entry of a key, so all skips are single moves.
type uncovered struct {
	iterator.Iterator
	cover *rangedel.Cover // of range deletes; nil: there are none
	entry entry.Entry     // a copy of the current entry: that of the Iterator must not be changed
}

func (it *uncovered) First() bool { return it.skipCovered(it.Iterator.First(), it.Iterator.Next) }
func (it *uncovered) SeekGE(key []byte) bool {
	return it.skipCovered(it.Iterator.SeekGE(key), it.Iterator.Next)
}
func (it *uncovered) Next() bool { return it.skipCovered(it.Iterator.Next(), it.Iterator.Next) }
func (it *uncovered) Last() bool { return it.skipCovered(it.Iterator.Last(), it.Iterator.Prev) }
func (it *uncovered) SeekLT(key []byte) bool {
	return it.skipCovered(it.Iterator.SeekLT(key), it.Iterator.Prev)
}
func (it *uncovered) Prev() bool                        { return it.skipCovered(it.Iterator.Prev(), it.Iterator.Prev) }
func (it *uncovered) SkipGE([]byte, entry.Version) bool { return it.Next() }
func (it *uncovered) SkipLT([]byte, entry.Version) bool { return it.Prev() }
func (it *uncovered) SkipNewer(entry.Version) bool      { return it.Next() }
func (it *uncovered) Entry() *entry.Entry               { return &it.entry }

// Err returns the error because of which a move returned false; nil at the end.
func (it *uncovered) Err() error {
	if it.cover == nil {
		return it.Iterator.Err()
	}
	return cmp.Or(it.Iterator.Err(), it.cover.Err())
}

// skipCovered moves on while the entry is covered. ok says whether there is an entry.
func (it *uncovered) skipCovered(ok bool, move func() bool) bool {
	for ; ok; ok = move() {
		it.entry = *it.Iterator.Entry()
		if it.cover == nil || it.cover.Newest(it.entry.Key) <= it.entry.Version {
			it.entry.Version = rangedel.Pending
			return true
		}
		if it.cover.Err() != nil {
			return false
		}
	}
	return false
}
