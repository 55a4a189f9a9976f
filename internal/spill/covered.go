package spill

import (
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/tombstone"
)

// uncovered walks a part without the entries that later range deletes cover, and
// calls drop, unless nil, with each that it meets.
func uncovered(p *part, ranges *tombstone.Set, drop func(*entry.Entry)) iterator.Iterator {
	if ranges.MaxVersion() <= p.last {
		return p.Iterator()
	}
	return &filtered{p.Iterator(), tombstone.NewCover(entry.MaxVersion, ranges), p.last, drop}
}

// drop notes that nothing leads to the value of e any more.
func (s *Spill) drop(e *entry.Entry) {
	if e.Separated {
		s.dead.Add(e.Handle)
	}
}

type filtered struct {
	iterator.Iterator
	cover *tombstone.Cover
	last  entry.Version
	drop  func(*entry.Entry)
}

func (it *filtered) First() bool { return it.settle(it.Iterator.First(), it.Iterator.Next) }
func (it *filtered) SeekGE(key []byte) bool {
	return it.settle(it.Iterator.SeekGE(key), it.Iterator.Next)
}
func (it *filtered) Next() bool { return it.settle(it.Iterator.Next(), it.Iterator.Next) }
func (it *filtered) Last() bool { return it.settle(it.Iterator.Last(), it.Iterator.Prev) }
func (it *filtered) SeekLT(key []byte) bool {
	return it.settle(it.Iterator.SeekLT(key), it.Iterator.Prev)
}
func (it *filtered) Prev() bool                              { return it.settle(it.Iterator.Prev(), it.Iterator.Prev) }
func (it *filtered) SkipGE(key []byte, v entry.Version) bool { return it.Next() }
func (it *filtered) SkipLT(key []byte, v entry.Version) bool { return it.Prev() }

// settle goes on by move until the entry is not covered. ok says that there is one.
func (it *filtered) settle(ok bool, move func() bool) bool {
	for ; ok; ok = move() {
		e := it.Iterator.Entry()
		if it.cover.Newest(e.Key) <= it.last {
			break
		}
		if it.drop != nil {
			it.drop(e)
		}
	}
	return ok
}
