package compact

import (
	"cmp"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
)

// spillPart is one run of a Spill. Its range deletes apply only to older parts: entries of the part
// that they covered are not in it.
type spillPart struct {
	*run.Reader
	written layout.RunMeta // as the Writer has returned it
	level   int            // number of compactions behind it
}

// uncovered is walk, an iterator of a part, without what newer range deletes cover. It adds the
// values of the entries that it leaves out to dead, unless that is nil.
func uncovered(walk iterator.Iterator, newer []rangedel.Source, dead *layout.Deaths) iterator.Iterator {
	if cover := rangedel.NewCover(entry.MaxVersion, newer...); cover != nil {
		return &filtered{walk, cover, dead}
	}
	return walk
}

// filtered leaves out what a cover hides.
type filtered struct {
	iterator.Iterator
	cover *rangedel.Cover // what is left out
	dead  *layout.Deaths  // gets the values of what is left out; may be nil
}

func (it *filtered) First() bool { return it.skip(it.Iterator.First(), it.Iterator.Next) }
func (it *filtered) SeekGE(key []byte) bool {
	return it.skip(it.Iterator.SeekGE(key), it.Iterator.Next)
}
func (it *filtered) Next() bool { return it.skip(it.Iterator.Next(), it.Iterator.Next) }
func (it *filtered) Last() bool { return it.skip(it.Iterator.Last(), it.Iterator.Prev) }
func (it *filtered) SeekLT(key []byte) bool {
	return it.skip(it.Iterator.SeekLT(key), it.Iterator.Prev)
}
func (it *filtered) Prev() bool                              { return it.skip(it.Iterator.Prev(), it.Iterator.Prev) }
func (it *filtered) SkipGE(key []byte, v entry.Version) bool { return it.Next() }
func (it *filtered) SkipLT(key []byte, v entry.Version) bool { return it.Prev() }
func (it *filtered) SkipNewer(entry.Version) bool            { return it.Next() }

// Err returns the error because of which a move returned false; nil at the end.
func (it *filtered) Err() error { return cmp.Or(it.Iterator.Err(), it.cover.Err()) }

// skip moves on while the entry is covered. ok says whether there is an entry.
func (it *filtered) skip(ok bool, move func() bool) bool {
	for ; ok; ok = move() {
		e := it.Iterator.Entry()
		if it.cover.Newest(e.Key) == 0 {
			break
		}
		if it.cover.Err() != nil {
			return false
		}
		if it.dead != nil && e.Separated {
			it.dead.Add(e.Handle)
		}
	}
	return ok
}

// versioned gives all entries of an Iterator one version. While parts are compacted,
// each has its own, so that the entries of a key come newest first; the result has
// version 0. Pending entries that are read beside committed ones have another.
type versioned struct {
	iterator.Iterator
	version entry.Version // the version of all entries
	copy    entry.Entry   // the current entry, with this version
}

// SkipNewer leaves out nothing: a part has one version of a key.
func (it *versioned) SkipNewer(entry.Version) bool { return it.Next() }

// Entry returns a copy with the version: the Iterator's own entry must not be changed.
func (it *versioned) Entry() *entry.Entry {
	it.copy = *it.Iterator.Entry()
	it.copy.Version = it.version
	return &it.copy
}
