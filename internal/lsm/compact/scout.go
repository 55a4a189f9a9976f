package compact

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
)

// Scout walks ahead of a clustering, and asks the disk for the values of the next entries. These
// values lie in no order: to wait for one after the other would take most of the time.
type Scout struct {
	Entries iterator.Iterator  // of the same sources as those that it is ahead of
	Near    func(*entry.Entry) // adds the value of an entry to those that the disk is asked for
	Start   func()             // asks the disk for the values that were added
	Moves   func(*entry.Entry) bool
	Busy    func() bool // reports whether readers wait for the disk: then the scout asks for few values
}

const (
	scoutMost  = 128     // entries that a scout is ahead at most,
	scoutBusy  = 4       // or this many while readers wait for the disk,
	scoutBytes = 4 << 20 // and bytes of their values
)

// Ahead returns entries, with s ahead of them.
func (s Scout) Ahead(entries iterator.Iterator) iterator.Iterator {
	return &scouted{Iterator: entries, s: s}
}

// scouted only moves from the first entry on.
type scouted struct {
	iterator.Iterator
	s     Scout
	more  bool   // the scout is at an entry
	ahead int    // entries that it is ahead
	bytes uint64 // of their values that move
}

func (it *scouted) First() bool {
	it.more, it.ahead, it.bytes = it.s.Entries.First(), 0, 0
	it.goOn()
	return it.Iterator.First()
}

func (it *scouted) Next() bool {
	it.ahead--
	if e := it.Iterator.Entry(); it.s.Moves(e) {
		it.bytes -= e.Handle.Length
	}
	it.goOn()
	return it.Iterator.Next()
}

// goOn moves the scout on if it is not far ahead any more. It ignores errors: the walk behind
// it meets them again.
func (it *scouted) goOn() {
	far := scoutMost
	if it.s.Busy() {
		far = scoutBusy
	}
	if it.ahead > far/2 {
		return
	}
	for it.more && it.ahead < far && (it.ahead < 1 || it.bytes < scoutBytes) {
		if e := it.s.Entries.Entry(); it.s.Moves(e) {
			it.bytes += e.Handle.Length
			it.s.Near(e)
		}
		it.ahead++
		it.more = it.s.Entries.Next()
	}
	it.s.Start()
}

func (it *scouted) Close() {
	it.s.Entries.Close()
	it.Iterator.Close()
}
