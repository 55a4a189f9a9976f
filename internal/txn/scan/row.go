package scan

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// row counts the deleted keys that a walk passes in a row. If they are many, the Pin notes
// their range as emptied, so that the next seek skips it.
type row struct {
	keys  int
	begin []byte // the rowBegins-th key of the row, where the noted range begins
}

const (
	rowBegins = 16  // keys in a row before a range begins: most rows end before, and copy no key
	rowNoted  = 128 // keys in a row that are noted; to walk them takes some 10 us, a note less than 1
)

// passes counts a key that a delete of any kind hides; by is the version of the delete. A
// delete by the transaction itself ends the row, as other readers still see the key.
func (w *walk) passes(key []byte, by entry.Version) {
	if by == rangedel.Pending {
		w.rowEnds(key)
		return
	}
	r := &w.row
	if r.keys++; r.keys == rowBegins {
		r.begin = append(r.begin[:0], key...)
	}
}

// rowEnds ends the row before key, or behind it in a walk back: the key is visible, or may be
// to other readers.
func (w *walk) rowEnds(key []byte) {
	if w.row.keys >= rowNoted {
		w.note(key)
	}
	w.row.keys = 0
}

// rowEndsAtBound ends the row at the bound, as there is no further key. After an error it
// notes nothing: the walk may have left out visible keys.
func (w *walk) rowEndsAtBound() {
	if w.row.keys >= rowNoted && w.err() == nil {
		w.note(nil)
	}
	w.row.keys = 0
}

// note notes the row up to a key, or up to the bound.
//
// It notes nothing if the walk may have left out keys for another reason than deletes, because
// of Since: other readers may see those keys.
func (w *walk) note(key []byte) {
	switch {
	case w.since > 0: // the walk may have left out keys that are not deleted
	case !w.backward && key == nil:
		w.pin.Emptied(w.row.begin, w.hi)
	case !w.backward:
		w.pin.Emptied(w.row.begin, key)
	case key == nil:
		w.pin.Emptied(w.lo, w.row.begin)
	default:
		w.pin.Emptied(append(bytes.Clone(key), 0), w.row.begin)
	}
}

// passOver goes past e, which is not shown: it is deleted, or it has expired, which
// readers with an older clock do not see.
func (w *walk) passOver(e *entry.Entry) {
	if e.Kind == entry.Delete {
		w.passes(e.Key, e.Version)
	} else {
		w.rowEnds(e.Key)
	}
}
